use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::{Record, VERSION};
use crate::{Error, SessionId, plain};

/// The longest file of ours that is read back, bytes.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// A session's record.
const RECORD: &str = "session.json";
/// What was said, for the model.
const HISTORY: &str = "history.json";
/// The log for people.
const CHAT: &str = "chat";
/// The log for programs.
const EVENTS: &str = "events";

/// Where sessions are kept: one directory each.
///
/// A file is replaced as a whole, by a new one that the disk has: whoever
/// reads, after whatever end, finds the old one or the new one. Files that
/// cannot be understood are moved aside, never removed.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Sessions, oldest first.
pub(crate) type Stored = Vec<(SessionId, Record)>;

/// A session's directory, which no other olliesrv uses until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    _lock: File,
    /// A hash of the history that was written last: the same is not written
    /// twice.
    written: Option<u64>,
}

impl Store {
    /// The store in `state`, ollie's directory for state; it is made if it is
    /// not there.
    ///
    /// # Errors
    /// [`Error::File`]
    pub fn in_directory(state: &Path) -> Result<Self, Error> {
        let root = state.join("sessions");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)
            .map_err(file("make the directory", &root))?;
        Ok(Self { root })
    }

    /// Every session's record, and what had to be moved aside, as sentences.
    pub(crate) fn records(&self) -> Result<(Stored, Vec<String>), Error> {
        let entries = std::fs::read_dir(&self.root).map_err(file("read", &self.root))?;
        let (mut records, mut told) = (Vec::new(), Vec::new());
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let Some(id) = name.to_str().and_then(|name| SessionId::new(name).ok()) else {
                continue;
            };
            match self.record(&id) {
                Ok(Some(record)) => records.push((id, record)),
                // Killed between its directory and its first file.
                Ok(None) => {
                    let path = self.path(&id);
                    // Something else is in it, then: not ours to remove.
                    if std::fs::remove_dir(&path).is_err() {
                        told.push(format!(
                            "{}: no session, for it has no {RECORD}; it was left as it is",
                            path.display()
                        ));
                    }
                }
                Err(error) => told.push(self.put_aside(&id, &error)),
            }
        }
        records.sort_by_key(|(_, record)| record.created);
        Ok((records, told))
    }

    /// The names of all that have a record, sorted; nothing is mended.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let entries = std::fs::read_dir(&self.root).map_err(file("read", &self.root))?;
        let mut names: Vec<_> = entries
            .flatten()
            .filter_map(|entry| SessionId::new(entry.file_name().to_str()?).ok())
            .filter(|id| matches!(self.record(id), Ok(Some(_))))
            .map(|id| id.to_string())
            .collect();
        names.sort();
        Ok(names)
    }

    /// One session's record; `None` if there is none.
    pub(crate) fn record(&self, id: &SessionId) -> Result<Option<Record>, Error> {
        let path = self.path(id).join(RECORD);
        let Some(record) = read_json::<Record>(&path)? else {
            return Ok(None);
        };
        if record.version != VERSION {
            return Err(Error::Damaged {
                path,
                problem: format!("its version is {}, known is {VERSION}", record.version),
            });
        }
        Ok(Some(record))
    }

    /// Makes a session's directory and takes it. The name is free exactly if
    /// this succeeds.
    pub(crate) fn create(&self, id: &SessionId, record: &Record) -> Result<(), Error> {
        let path = self.path(id);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Taken(id.to_string()));
            }
            Err(source) => return Err(file("make the directory", &path)(source)),
        }
        let held = self.hold(id)?;
        held.save_record(record)
    }

    /// Takes a session's directory.
    pub(crate) fn hold(&self, id: &SessionId) -> Result<Held, Error> {
        let path = self.path(id);
        let lock = File::open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Unknown(id.to_string()),
            _ => file("open", &path)(source),
        })?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Held {
                path,
                _lock: lock,
                written: None,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::InUse(id.to_string())),
            Err(errno) => Err(file("lock", &path)(errno.into())),
        }
    }

    /// The history of a session that nobody need hold.
    pub(crate) fn history<T: DeserializeOwned>(&self, id: &SessionId) -> Result<Option<T>, Error> {
        read_json(&self.path(id).join(HISTORY))
    }

    /// The logs of a session, chat and events.
    pub(crate) fn logs(&self, id: &SessionId) -> [PathBuf; 2] {
        [CHAT, EVENTS].map(|name| self.path(id).join(name))
    }

    /// Gives a session that is held another name.
    pub(crate) fn rename(&self, held: &mut Held, to: &SessionId) -> Result<(), Error> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let path = self.path(to);
        // rename(2) would replace an empty directory.
        match renameat_with(CWD, &held.path, CWD, &path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(Error::Taken(to.to_string())),
            Err(errno) => return Err(file("rename", &held.path)(errno.into())),
        }
        held.path = path;
        self.sync()
    }

    /// Removes a session that is held. It is gone at once, whatever happens
    /// during the removal.
    pub(crate) fn remove(&self, held: &Held) -> Result<(), Error> {
        let name = held.path.file_name().unwrap_or_default().to_string_lossy();
        let going = self.root.join(format!(".{name}.removed"));
        // What an earlier removal could not finish.
        let _ = std::fs::remove_dir_all(&going);
        std::fs::rename(&held.path, &going).map_err(file("remove", &held.path))?;
        let _ = std::fs::remove_dir_all(&going);
        self.sync()
    }

    fn path(&self, id: &SessionId) -> PathBuf {
        self.root.join(id.as_str())
    }

    fn sync(&self) -> Result<(), Error> {
        sync_directory(&self.root).map_err(file("write", &self.root))
    }

    /// Moves a session whose record is damaged out of the way.
    fn put_aside(&self, id: &SessionId, error: &Error) -> String {
        let aside = self.root.join(format!(".{id}.damaged-{}", seconds()));
        match std::fs::rename(self.path(id), &aside) {
            Ok(()) => format!("session {id} is left out: {error}; it is kept in {aside:?}"),
            Err(source) => format!("session {id} is left out: {error}; not moved: {source}"),
        }
    }
}

impl Held {
    /// Replaces the record.
    pub(crate) fn save_record(&self, record: &Record) -> Result<(), Error> {
        self.replace(RECORD, &self.line(RECORD, record)?)
    }

    /// Replaces the history.
    pub(crate) fn save_history(&mut self, history: &impl Serialize) -> Result<(), Error> {
        let line = self.line(HISTORY, history)?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&line);
        let hash = hasher.finish();
        if self.written != Some(hash) {
            self.written = None;
            self.replace(HISTORY, &line)?;
            self.written = Some(hash);
        }
        Ok(())
    }

    /// The history, if one was saved. One that cannot be understood is moved
    /// aside, and the sentence says where.
    pub(crate) fn history<T: DeserializeOwned>(
        &self,
    ) -> Result<(Option<T>, Option<String>), Error> {
        let path = self.path.join(HISTORY);
        match read_json(&path) {
            Ok(history) => Ok((history, None)),
            Err(error @ Error::Damaged { .. }) => {
                let aside = self.path.join(format!("{HISTORY}.damaged-{}", seconds()));
                std::fs::rename(&path, &aside).map_err(file("rename", &path))?;
                let told = format!("{error}; it is kept as {aside:?}, and the history is empty");
                Ok((None, Some(told)))
            }
            Err(error) => Err(error),
        }
    }

    fn line(&self, name: &str, value: &impl Serialize) -> Result<Vec<u8>, Error> {
        let mut bytes = serde_json::to_vec(value).map_err(|error| Error::Damaged {
            path: self.path.join(name),
            problem: error.to_string(),
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        let fresh = self.path.join(format!(".{name}.new"));
        let written = || {
            // What an earlier end has left, or a link that somebody put there.
            match std::fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut to = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&fresh)?;
            to.write_all(bytes)?;
            to.sync_all()?;
            std::fs::rename(&fresh, &path)?;
            sync_directory(&self.path)
        };
        written().map_err(file("write", &path))
    }
}

/// The new names in a directory survive a crash of the machine (fsync(2)).
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let bytes = plain::read_own(path, FILE_MAX).map_err(file("read", path))?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Error::Damaged {
            path: path.to_owned(),
            problem: error.to_string(),
        })
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        action,
        path,
        source,
    }
}

fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::in_directory(directory.path()).unwrap();
        (directory, store)
    }

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    #[test]
    fn a_session_is_there_again_and_its_name_is_taken() {
        let (_directory, store) = store();
        let mut record = Record::new(Default::default());
        record.settings.model = "m".to_owned();
        store.create(&id("a"), &record).unwrap();
        let taken = store.create(&id("a"), &record);
        assert!(matches!(taken, Err(Error::Taken(_))));
        let (records, told) = store.records().unwrap();
        assert_eq!(records, [(id("a"), record)]);
        assert_eq!(told, Vec::<String>::new());
    }

    #[test]
    fn two_cannot_hold_one_session() {
        let (_directory, store) = store();
        store
            .create(&id("a"), &Record::new(Default::default()))
            .unwrap();
        let held = store.hold(&id("a")).unwrap();
        assert!(matches!(store.hold(&id("a")), Err(Error::InUse(_))));
        drop(held);
        store.hold(&id("a")).unwrap();
        assert!(matches!(store.hold(&id("b")), Err(Error::Unknown(_))));
    }

    #[test]
    fn a_name_is_given_once_and_a_removed_session_is_gone() {
        let (_directory, store) = store();
        for name in ["a", "b"] {
            store
                .create(&id(name), &Record::new(Default::default()))
                .unwrap();
        }
        let mut held = store.hold(&id("a")).unwrap();
        let taken = store.rename(&mut held, &id("b"));
        assert!(matches!(taken, Err(Error::Taken(_))));
        store.rename(&mut held, &id("c")).unwrap();
        held.save_history(&[1, 2]).unwrap();
        assert_eq!(held.history::<Vec<u8>>().unwrap().0, Some(vec![1, 2]));
        store.remove(&held).unwrap();
        let (records, _) = store.records().unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(std::fs::read_dir(&store.root).unwrap().count(), 1);
    }

    #[test]
    fn what_is_damaged_is_kept_aside_and_told() {
        let (_directory, store) = store();
        for name in ["a", "b", "c"] {
            store
                .create(&id(name), &Record::new(Default::default()))
                .unwrap();
        }
        std::fs::write(store.root.join("a/session.json"), "{").unwrap();
        std::fs::write(store.root.join("b/session.json"), r#"{"version":99}"#).unwrap();
        let (records, told) = store.records().unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|told| told.contains("kept in")), "{told:?}");
        assert_eq!(std::fs::read_dir(&store.root).unwrap().count(), 3);
        // A second look finds nothing more to tell.
        assert_eq!(store.records().unwrap().1, Vec::<String>::new());

        // Without a record it is no session, and empty it was never one.
        std::fs::create_dir(store.root.join("empty")).unwrap();
        std::fs::create_dir_all(store.root.join("other/thing")).unwrap();
        let (_, told) = store.records().unwrap();
        assert!(
            matches!(&told[..], [one] if one.contains("other: no session")),
            "{told:?}"
        );
        assert!(store.root.join("other/thing").exists() && !store.root.join("empty").exists());

        let held = store.hold(&id("c")).unwrap();
        std::fs::write(store.root.join("c/history.json"), "[1,").unwrap();
        let (history, told) = held.history::<Vec<u8>>().unwrap();
        assert!(history.is_none() && told.unwrap().contains("kept as"));
        assert_eq!(held.history::<Vec<u8>>().unwrap(), (None, None));
    }

    /// Puts something that is no plain file of ours at a path.
    fn plant(kind: &str, elsewhere: &Path, path: &Path) {
        let _ = std::fs::remove_file(path);
        match kind {
            "link" => std::os::unix::fs::symlink(elsewhere, path).unwrap(),
            "directory" => std::fs::create_dir(path).unwrap(),
            _ => {
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, path, fifo, 0o600.into(), 0).unwrap();
            }
        }
    }

    #[test]
    fn neither_a_link_nor_a_fifo_nor_a_directory_is_a_file_of_ours() {
        for kind in ["link", "fifo", "directory"] {
            let (directory, store) = store();
            let record = Record::new(Default::default());
            for name in ["a", "b", "c"] {
                store.create(&id(name), &record).unwrap();
            }
            // What it leads to could be read, and would be understood.
            let elsewhere = directory.path().join("elsewhere");
            let text = std::fs::read(store.root.join("a/session.json")).unwrap();
            std::fs::write(&elsewhere, &text).unwrap();
            plant(kind, &elsewhere, &store.root.join("a/session.json"));
            assert!(store.record(&id("a")).is_err(), "{kind}");
            let (records, told) = store.records().unwrap();
            assert_eq!(records.len(), 2, "{kind}");
            assert!(
                matches!(&told[..], [one] if one.contains("kept in")),
                "{told:?}"
            );

            let mut held = store.hold(&id("b")).unwrap();
            plant(kind, &elsewhere, &store.root.join("b/history.json"));
            let read = held.history::<serde_json::Value>();
            assert!(matches!(read, Err(Error::File { .. })), "{kind}: {read:?}");
            assert!(store.history::<serde_json::Value>(&id("b")).is_err());
            // Only a directory cannot be replaced, and that is told.
            assert_eq!(held.save_history(&[1]).is_err(), kind == "directory");

            let mut held = store.hold(&id("c")).unwrap();
            plant(kind, &elsewhere, &store.root.join("c/.history.json.new"));
            assert_eq!(held.save_history(&[1]).is_err(), kind == "directory");
            assert_eq!(std::fs::read(&elsewhere).unwrap(), text, "{kind}");
        }
    }
}
