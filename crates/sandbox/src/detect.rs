//! What is on this host that a profile cannot know: found by existence, not
//! by the name of a distribution.

use std::path::{Path, PathBuf};

use crate::cwd::Guard;
use crate::{Access, HostView};

/// One thing that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) access: Access,
    /// As it was found.
    pub(crate) named: PathBuf,
    /// Canonical.
    pub(crate) path: PathBuf,
    pub(crate) what: &'static str,
}

/// Names whose value is a file or directory of CA certificates.
const CA_NAMES: [&str; 9] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
];

/// What lies where a variable says, when it is not where the profile knows it:
/// the variable, the leaf below it, and what the profile gives of the usual
/// place. (The Cargo Book, "Environment variables"; rustup, pyenv, nvm, go.)
const TOOLCHAINS: [(&str, &str, Access); 14] = [
    ("RUSTUP_HOME", "", Access::Rox),
    ("CARGO_HOME", "bin", Access::Rox),
    ("CARGO_HOME", "env", Access::Ro),
    ("CARGO_HOME", "config.toml", Access::Ro),
    ("CARGO_HOME", "registry", Access::Rwx),
    ("CARGO_HOME", "git", Access::Rwx),
    ("CARGO_HOME", ".package-cache", Access::Rw),
    ("CARGO_HOME", ".package-cache-mutate", Access::Rw),
    ("CARGO_HOME", ".global-cache", Access::Rw),
    ("PYENV_ROOT", "", Access::Rox),
    ("NVM_DIR", "", Access::Rox),
    ("GOROOT", "", Access::Rox),
    ("GOPATH", "bin", Access::Rox),
    ("GOPATH", "pkg", Access::Rwx),
];

/// Everything found, none of it below or above what is private.
pub(crate) fn detect(view: &HostView<'_>, cwd: &Path, guard: &Guard) -> Vec<Found> {
    let mut found = nix();
    found.extend(resolver());
    found.extend(certificates(view));
    found.extend(programs(guard));
    found.extend(toolchains(view));
    found.retain(|f| guard.touches_kept(&f.path).is_none() && !guard.holds_home(&f.path));
    // This file alone of what is ollie's own: nothing else lies below it.
    let program = view.program;
    found.extend(program.and_then(|it| existing(Access::Rox, it, "toolsrv's own tools")));
    // A worktree's own rule is stricter, it gives write access.
    found.extend(worktree(cwd, guard));
    found
}

fn existing(access: Access, path: &Path, what: &'static str) -> Option<Found> {
    Some(Found {
        access,
        path: std::fs::canonicalize(path).ok()?,
        named: path.to_owned(),
        what,
    })
}

/// On NixOS every program is a link into the store; the links themselves need
/// no right, their targets do.
fn nix() -> Vec<Found> {
    [
        (Access::Rox, "/nix/store"),
        (Access::Rox, "/run/current-system"),
        (Access::Ro, "/etc/static"),
        (Access::Ro, "/nix/var/nix/profiles"),
    ]
    .into_iter()
    .filter_map(|(access, path)| existing(access, Path::new(path), "Nix"))
    .collect()
}

/// systemd-resolved and NetworkManager replace the file that resolv.conf links
/// to, and a rule binds an inode; so the directory is granted, unless it is
/// one that holds more than the resolver's files.
fn resolver() -> Option<Found> {
    let target = std::fs::canonicalize("/etc/resolv.conf").ok()?;
    let dir = target.parent()?;
    let own = dir.components().count() > 2 && dir.starts_with("/run");
    own.then(|| Found {
        access: Access::Ro,
        named: dir.to_owned(),
        path: dir.to_owned(),
        what: "resolv.conf",
    })
}

fn certificates(view: &HostView<'_>) -> Vec<Found> {
    CA_NAMES
        .iter()
        .filter_map(|name| (view.env)(name))
        .filter(|value| Path::new(value).is_absolute())
        .filter_map(|value| existing(Access::Ro, Path::new(&value), "CA certificates"))
        .collect()
}

fn toolchains(view: &HostView<'_>) -> Vec<Found> {
    TOOLCHAINS
        .iter()
        .filter_map(|(name, leaf, access)| {
            let root = PathBuf::from((view.env)(name)?);
            // `join` of nothing would add a slash, and a file is not below one.
            let path = match *leaf {
                "" => root,
                leaf => root.join(leaf),
            };
            path.is_absolute()
                .then(|| existing(*access, &path, name))
                .flatten()
        })
        .collect()
}

/// A directory on PATH may be read and executed. Not below /mnt: there WSL
/// keeps Windows programs, and one of those runs outside of every Linux
/// sandbox.
fn programs(guard: &Guard) -> Vec<Found> {
    guard
        .programs()
        .iter()
        .filter(|dir| !dir.starts_with("/mnt") && dir.parent().is_some())
        .filter_map(|dir| existing(Access::Rox, dir, "PATH"))
        .collect()
}

/// The repository of a git worktree lies elsewhere, and `git commit` writes
/// there.
///
/// `.git` is a file that a tool may have written, so it is believed only when
/// the repository itself points back: its `worktrees/NAME/gitdir` names this
/// `.git`. A tool cannot write there unless it could before. (gitrepository-layout(5))
fn worktree(cwd: &Path, guard: &Guard) -> Option<Found> {
    let dot_git = cwd.join(".git");
    if !std::fs::symlink_metadata(&dot_git).ok()?.is_file() {
        return None;
    }
    let named = short_line(&dot_git)?
        .strip_prefix("gitdir: ")
        .map(PathBuf::from)?;
    let gitdir = std::fs::canonicalize(cwd.join(named)).ok()?;
    let back = short_line(&gitdir.join("gitdir"))?;
    if std::fs::canonicalize(gitdir.join(back)).ok()? != dot_git {
        return None;
    }
    let common = gitdir
        .parent()
        .filter(|p| p.ends_with("worktrees"))?
        .parent()?;
    let is_repository = ["HEAD", "objects", "refs"]
        .iter()
        .all(|f| common.join(f).exists());
    let given = is_repository && guard.refuses(common).is_none();
    given.then(|| Found {
        access: Access::Rw,
        named: common.to_owned(),
        path: common.to_owned(),
        what: "repository of this git worktree",
    })
}

/// The first line of a small regular file; a FIFO would block and a large file
/// is not one of git's.
fn short_line(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > 8192 {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn view<'a>(home: &'a Path, cwd: &'a Path) -> HostView<'a> {
        HostView {
            cwd,
            home: Some(home),
            tmpdir: None,
            path: None,
            tools_path: None,
            program: None,
            ollie_roots: &[],
            env: &|_| None,
            identity: None,
        }
    }

    #[test]
    fn a_worktree_gets_its_repository_only_if_the_repository_points_back() {
        let top = tempfile::tempdir().unwrap();
        let home = top.path().canonicalize().unwrap();
        let (repo, tree) = (home.join("repo/.git"), home.join("tree"));
        let entry = repo.join("worktrees/tree");
        for dir in [&entry, &tree, &repo.join("objects"), &repo.join("refs")] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(repo.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", entry.display())).unwrap();
        let guard = Guard::new(&view(&home, &tree));
        assert_eq!(worktree(&tree, &guard), None, "no pointer back yet");
        fs::write(
            entry.join("gitdir"),
            format!("{}\n", tree.join(".git").display()),
        )
        .unwrap();
        assert_eq!(worktree(&tree, &guard).unwrap().path, repo);

        // What a tool could plant to get ~/.ssh next time.
        let keys = home.join(".ssh");
        fs::create_dir_all(&keys).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", keys.display())).unwrap();
        assert_eq!(worktree(&tree, &guard), None);
        let fake = tree.join("fake/worktrees/x");
        fs::create_dir_all(&fake).unwrap();
        fs::write(fake.join("gitdir"), tree.join(".git").display().to_string()).unwrap();
        fs::write(fake.join("commondir"), keys.display().to_string()).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", fake.display())).unwrap();
        assert_eq!(worktree(&tree, &guard), None);
    }
}
