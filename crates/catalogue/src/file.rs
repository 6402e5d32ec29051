use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::Error;

/// A file that was read.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_executable: bool,
}

/// Reads a regular file of at most `most` bytes. A FIFO or a device is
/// refused without waiting for anybody.
pub(crate) fn read(path: &Path, most: usize) -> Result<Content, Error> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let content = || -> io::Result<Content> {
        let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let stat = file.metadata()?;
        if !stat.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(io::Error::other(format!("it is longer than {most} bytes")));
        }
        Ok(Content {
            bytes,
            is_executable: stat.permissions().mode() & 0o111 != 0,
        })
    };
    content().map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
