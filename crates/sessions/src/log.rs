use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rustix::fs::OFlags;
use tokio::sync::watch;

use crate::{Error, plain};

/// An append-only file of a session. Its offsets stay what they are, also
/// over a restart, and readers learn of every byte that is added.
#[derive(Debug)]
pub(crate) struct Log {
    place: Mutex<Place>,
    extent: watch::Sender<Extent>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Open while the session works, so that idle sessions hold nothing.
    file: Option<File>,
}

/// What becomes of a last line without an end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Broken {
    /// It goes: half a record is none.
    Removed,
    /// It is ended: text that was read stays where it was read.
    Ended,
}

/// How far a log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Its length, bytes.
    pub(crate) length: u64,
    /// Whether nothing is added any more.
    pub(crate) over: bool,
}

impl Log {
    /// The log in this file, which need not be there yet. `broken` says what
    /// becomes of a last line that a crash cut off.
    pub(crate) fn at(path: PathBuf, broken: Broken) -> Result<Self, Error> {
        let mended = match broken {
            Broken::Removed => whole_lines(&path),
            Broken::Ended => ended_line(&path),
        };
        let length = mended.map_err(|source| Error::File {
            action: "read",
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            place: Mutex::new(Place { path, file: None }),
            extent: watch::Sender::new(Extent {
                length,
                over: false,
            }),
        })
    }

    /// Adds `bytes`; all of them or none.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut place = self.place();
        let before = self.extent.borrow().length;
        place.append(bytes, before).map_err(|source| Error::File {
            action: "add to",
            path: place.path.clone(),
            source,
        })?;
        self.extent
            .send_modify(|extent| extent.length += bytes.len() as u64);
        Ok(())
    }

    /// Lets go of the file until something is added again.
    pub(crate) fn rest(&self) {
        self.place().file = None;
    }

    /// The file was moved.
    pub(crate) fn moved(&self, path: PathBuf) {
        self.place().path = path;
    }

    /// Nothing is added any more: readers come to the end.
    pub(crate) fn close(&self) {
        self.rest();
        self.extent.send_modify(|extent| extent.over = true);
    }

    /// How far it goes, now and later.
    pub(crate) fn extent(&self) -> watch::Receiver<Extent> {
        self.extent.subscribe()
    }

    /// How far it goes.
    pub(crate) fn length(&self) -> u64 {
        self.extent.borrow().length
    }

    /// The file, for a reader; `None` before the first line.
    pub(crate) fn open(&self) -> io::Result<Option<File>> {
        plain::open(&self.place().path, OFlags::RDONLY | OFlags::NOFOLLOW)
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn append(&mut self, bytes: &[u8], before: u64) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => {
                let how = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
                let opened = plain::open(&self.path, how)?;
                closed.insert(opened.ok_or(io::ErrorKind::NotFound)?)
            }
        };
        file.write_all(bytes).inspect_err(|_| {
            // A full disk takes a part; readers must never see it.
            let _ = file.set_len(before);
        })
    }
}

/// At most `count` bytes at `offset` of a file that is `length` bytes long.
pub(crate) fn piece(file: &File, offset: u64, count: u32, length: u64) -> io::Result<Bytes> {
    let rest = length.saturating_sub(offset).min(u64::from(count));
    let mut buffer = vec![0; usize::try_from(rest).unwrap_or(0)];
    let read = file.read_at(&mut buffer, offset)?;
    buffer.truncate(read);
    Ok(buffer.into())
}

/// Cuts what follows the last newline off, and gives the length.
fn whole_lines(path: &Path) -> io::Result<u64> {
    /// Bytes looked at in one step back.
    const STEP: u64 = 64 * 1024;
    let Some(file) = plain::open(path, OFlags::RDWR | OFlags::NOFOLLOW)? else {
        return Ok(0);
    };
    let length = file.metadata()?.len();
    let mut end = length;
    let whole = loop {
        if end == 0 {
            break 0;
        }
        let start = end.saturating_sub(STEP);
        let step = u32::try_from(end - start).unwrap_or(0);
        let bytes = piece(&file, start, step, end)?;
        if let Some(at) = bytes.iter().rposition(|&byte| byte == b'\n') {
            break start + at as u64 + 1;
        }
        end = start;
    };
    if whole < length {
        file.set_len(whole)?;
    }
    Ok(whole)
}

/// Ends the last line, and gives the length.
fn ended_line(path: &Path) -> io::Result<u64> {
    let how = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW;
    let Some(mut file) = plain::open(path, how)? else {
        return Ok(0);
    };
    let length = file.metadata()?.len();
    let last = piece(&file, length.saturating_sub(1), 1, length)?;
    if last.is_empty() || last == "\n" {
        return Ok(length);
    }
    file.write_all(b"\n")?;
    Ok(length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_stay_and_a_line_cut_by_a_crash_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = Log::at(path.clone(), Broken::Removed).unwrap();
        log.append(b"one\n").unwrap();
        log.append(b"two\n").unwrap();
        assert_eq!(log.length(), 8);
        let long = "x".repeat(200_000);
        std::fs::write(&path, format!("one\ntwo\n{long}")).unwrap();
        let again = Log::at(path.clone(), Broken::Removed).unwrap();
        assert_eq!(again.length(), 8);
        again.append(b"three\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
        let file = again.open().unwrap().unwrap();
        assert_eq!(piece(&file, 4, 100, 14).unwrap(), "two\nthree\n");
        assert_eq!(piece(&file, 4, 2, 14).unwrap(), "tw");
        assert_eq!(piece(&file, 99, 2, 14).unwrap(), "");
    }

    #[test]
    fn text_that_was_read_is_not_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert_eq!(Log::at(path.clone(), Broken::Ended).unwrap().length(), 0);
        std::fs::write(&path, "half").unwrap();
        for _ in 0..2 {
            assert_eq!(Log::at(path.clone(), Broken::Ended).unwrap().length(), 5);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"half\n");
    }

    #[test]
    fn neither_a_fifo_nor_a_link_is_a_log() {
        let directory = tempfile::tempdir().unwrap();
        let (fifo, link) = (directory.path().join("fifo"), directory.path().join("link"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "half").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        for broken in [Broken::Removed, Broken::Ended] {
            assert!(Log::at(fifo.clone(), broken).is_err());
            assert!(Log::at(link.clone(), broken).is_err());
        }
        // It came after the log was opened.
        let log = Log::at(directory.path().join("log"), Broken::Ended).unwrap();
        log.moved(link);
        assert!(log.append(b"x\n").is_err() && log.open().is_err());
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"half");
    }

    #[test]
    fn what_does_not_fit_leaves_nothing_behind() {
        let Ok(full) = File::options().append(true).open("/dev/full") else {
            return;
        };
        let mut place = Place {
            path: "/dev/full".into(),
            file: Some(full),
        };
        assert!(place.append(b"x\n", 0).is_err());
    }
}
