//! Files that somebody else may have put there.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const IRREGULAR: &str = "it is not a regular file";

/// The longest file of the configuration that is read, bytes.
pub(crate) const TEXT_MAX: u64 = 4 * 1024 * 1024;

/// A regular file, opened as `how` says besides; `None` if there is none. A
/// FIFO or a device is refused without waiting for anybody. What is made has
/// mode 0600.
pub(crate) fn open(path: &Path, how: OFlags) -> io::Result<Option<File>> {
    let flags = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) if how.contains(OFlags::NOFOLLOW) => {
            return Err(io::Error::other("it is a symbolic link"));
        }
        // Of a FIFO that nobody reads (open(2)).
        Err(Errno::NXIO) => return Err(io::Error::other(IRREGULAR)),
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(IRREGULAR));
    }
    Ok(Some(file))
}

/// A regular file of at most `most` bytes; `None` if there is none.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    whole(path, OFlags::RDONLY, most)
}

/// The same of a file of ours, which nobody has made a link.
pub(crate) fn read_own(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    whole(path, OFlags::RDONLY | OFlags::NOFOLLOW, most)
}

fn whole(path: &Path, how: OFlags, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(path, how)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(Some(bytes))
}

/// The same as text, of at most 4 MiB.
pub(crate) fn read_text(path: &Path) -> io::Result<Option<String>> {
    let text = read(path, TEXT_MAX)?.map(String::from_utf8).transpose();
    text.map_err(|_| io::Error::other("it is not UTF-8 text"))
}
