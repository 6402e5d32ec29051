use std::io::Read as _;
use std::path::{Path, PathBuf};

use ollie_protocol::GitFacts;

/// The longest file of a repository that is read here, in bytes; `packed-refs`
/// of a large one is read in part and then says nothing.
const FILE_MAX: u64 = 1024 * 1024;

/// The checkout around `cwd`, from its files alone (gitrepository-layout(5)).
///
/// git itself would run what the checkout's configuration names, such as
/// `core.fsmonitor`, and a checkout may be hostile.
pub(crate) fn facts(cwd: &Path) -> Option<GitFacts> {
    let root = cwd.ancestors().find(|at| at.join(".git").exists())?;
    let directory = git_directory(root)?;
    let head = read(&directory.join("HEAD"))?;
    let head = head.trim_end();
    let (branch, commit) = match head.strip_prefix("ref: ") {
        Some(name) => {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            (Some(branch.to_owned()), follow(&directory, name))
        }
        None => (None, is_object(head).then(|| head.to_owned())),
    };
    Some(GitFacts {
        root: root.as_os_str().to_owned().into(),
        branch,
        commit,
    })
}

/// `.git` itself, or where the file `.git` of a worktree or submodule points.
fn git_directory(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let text = read(&dot_git)?;
    Some(root.join(text.strip_prefix("gitdir: ")?.trim_end()))
}

/// The commit a reference names: loose, or in `packed-refs`.
fn follow(directory: &Path, name: &str) -> Option<String> {
    if !name.starts_with("refs/") || name.split('/').any(|part| part == "..") {
        return None;
    }
    let common = read(&directory.join("commondir")).map_or_else(
        || directory.to_owned(),
        |text| directory.join(text.trim_end()),
    );
    if let Some(text) = read(&common.join(name)) {
        let commit = text.trim_end();
        return is_object(commit).then(|| commit.to_owned());
    }
    read(&common.join("packed-refs"))?.lines().find_map(|line| {
        let (commit, of) = line.split_once(' ')?;
        (of == name && is_object(commit)).then(|| commit.to_owned())
    })
}

/// An object's name: SHA-1 or SHA-256 in hexadecimal digits.
fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A small regular file as text. Anything else, a FIFO for one, is not read:
/// opening it could wait for ever.
fn read(path: &Path) -> Option<String> {
    use rustix::fs::{CWD, FileType, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::from(fd)
        .take(FILE_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    String::from_utf8(bytes).ok()
}
