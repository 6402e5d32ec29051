//! Files of the user's configuration.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The longest file that is read, bytes.
const SIZE_MAX: u64 = 4 * 1024 * 1024;

/// A regular file of at most 4 MiB; `None` if there is none. A FIFO or a
/// device is refused without waiting for anybody.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => std::fs::File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(io::Error::other(format!(
            "it is longer than {SIZE_MAX} bytes"
        )));
    }
    Ok(Some(bytes))
}

/// The same as text.
pub(crate) fn read_text(path: &Path) -> io::Result<Option<String>> {
    let text = read(path)?.map(String::from_utf8).transpose();
    text.map_err(|_| io::Error::other("it is not UTF-8 text"))
}
