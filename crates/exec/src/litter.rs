use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The directories of a session that must not outlive it: the private TMPDIR
/// of its tools and the directory of its socket.
///
/// Both processes of toolsrv know them. The one that goes last removes them;
/// removing what is already gone is not an error.
#[derive(Debug, Clone, Default)]
pub struct Litter {
    paths: Vec<PathBuf>,
}

impl Litter {
    /// The directories to remove, absolute.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths }
    }

    /// Removes them with everything inside.
    ///
    /// # Errors
    /// The first error; the other directories are tried all the same.
    pub fn remove(&self) -> io::Result<()> {
        let mut first = Ok(());
        for path in &self.paths {
            let result = remove_tree(path);
            if first.is_ok() {
                first = result;
            }
        }
        first
    }
}

/// Removes a directory tree that a hostile program may have built: links are
/// not followed, unreadable directories are made readable, and a depth of a
/// million needs no more stack or descriptors than a depth of two, because
/// every directory found is first moved up to the top.
///
/// # Errors
/// What the kernel says about the first entry that cannot be removed. A tree
/// that is not there is no error.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match open_directory(CWD.as_fd(), path) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    let mut moved = 0u64;
    loop {
        let mut found = false;
        for (name, is_directory) in entries(&top)? {
            found = true;
            if is_directory {
                let inner = open_directory(top.as_fd(), &*name)?;
                for (inner_name, inner_is_directory) in entries(&inner)? {
                    if inner_is_directory {
                        moved += 1;
                        lift(&inner, &inner_name, &top, moved)?;
                    } else {
                        gone(rustix::fs::unlinkat(&inner, &*inner_name, AtFlags::empty()))?;
                    }
                }
                gone(rustix::fs::unlinkat(&top, &*name, AtFlags::REMOVEDIR))?;
            } else {
                gone(rustix::fs::unlinkat(&top, &*name, AtFlags::empty()))?;
            }
        }
        if !found {
            break;
        }
    }
    gone(rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR))?;
    Ok(())
}

/// Moves a directory to the top under a name that nothing else has.
fn lift(from: &OwnedFd, name: &CStr, top: &OwnedFd, number: u64) -> io::Result<()> {
    // Moving a directory writes its `..`, so it needs to be writable.
    let _ = rustix::fs::chmodat(from, name, Mode::RWXU, AtFlags::empty());
    for attempt in 0u64.. {
        let target = format!(".gone-{number}-{attempt}");
        match rustix::fs::renameat(from, name, top, &*target) {
            // Somebody took the name: a file, or a directory that is not empty.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            other => return gone(other),
        }
    }
    Ok(())
}

/// Opens a directory without following a link; makes it ours if its mode is
/// in the way.
fn open_directory(
    at: std::os::fd::BorrowedFd<'_>,
    name: impl rustix::path::Arg + Copy,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(at, name, flags, Mode::empty())?
        }
        other => other?,
    };
    if rustix::fs::fstat(&fd)?.st_mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&fd, Mode::RWXU)?;
    }
    Ok(fd)
}

/// The entries of a directory as they are now, and which are directories.
fn entries(directory: &OwnedFd) -> io::Result<Vec<(std::ffi::CString, bool)>> {
    let mut list = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        };
        list.push((name.to_owned(), is_directory));
    }
    Ok(list)
}

fn gone(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::remove_tree;

    #[test]
    fn a_hostile_tree_goes_and_what_its_links_name_stays() {
        let base = tempfile::tempdir().unwrap();
        let (kept, tree) = (base.path().join("kept"), base.path().join("tree"));
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        std::fs::create_dir_all(tree.join("locked/inner")).unwrap();
        std::fs::write(tree.join("locked/inner/.gone-1-0"), "x").unwrap();
        std::fs::write(tree.join(".gone-1-0"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, tree.join("link")).unwrap();
        std::os::unix::fs::symlink(&kept, tree.join("locked/inner/link")).unwrap();
        for directory in ["locked/inner", "locked"] {
            let mode = std::fs::Permissions::from_mode(0o000);
            std::fs::set_permissions(tree.join(directory), mode).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(kept.join("file").exists());
    }

    #[test]
    fn depth_costs_neither_stack_nor_descriptors() {
        let base = tempfile::tempdir().unwrap();
        let tree = base.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        // Deeper than PATH_MAX and than any descriptor limit allows a walk
        // that holds one descriptor for each level.
        let mut at = rustix::fs::open(
            &tree,
            rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
            at = rustix::fs::openat(
                &at,
                "d",
                rustix::fs::OFlags::DIRECTORY,
                rustix::fs::Mode::empty(),
            )
            .unwrap();
        }
        drop(at);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn what_is_not_there_is_no_error() {
        let base = tempfile::tempdir().unwrap();
        remove_tree(&base.path().join("absent")).unwrap();
    }
}
