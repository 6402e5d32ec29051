use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Whether a link in the place of a file is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// A person may keep their configuration elsewhere.
    Followed,
    /// Somebody else may have put it there.
    Refused,
}

/// Reads a regular file of at most `most` bytes as text; `None` if there is
/// none. A FIFO, a device or a terminal is refused without waiting for
/// anybody, and nothing longer is read than is taken.
///
/// # Errors
/// What the kernel said (open(2), read(2)), or what the file is instead.
pub fn read_plain(path: &Path, most: usize, links: Links) -> io::Result<Option<String>> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, links == Links::Refused);
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => std::fs::File::from(fd),
        // Where the directory is none, whoever needs it will say so.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) if links == Links::Refused => {
            return Err(io::Error::other("it is a link, which is not followed"));
        }
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_regular_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::fs::File::create(at("large"))
            .and_then(|file| file.set_len(1 << 40))
            .unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        let read = |name: &str, links| read_plain(&at(name), 100, links);
        assert_eq!(
            read("file", Links::Refused).unwrap().as_deref(),
            Some("text")
        );
        assert_eq!(
            read("link", Links::Followed).unwrap().as_deref(),
            Some("text")
        );
        assert!(read("link", Links::Refused).is_err());
        assert!(read("absent", Links::Followed).unwrap().is_none());
        for name in ["zero", "large", "fifo", "."] {
            assert!(read(name, Links::Followed).is_err(), "{name}");
        }
    }
}
