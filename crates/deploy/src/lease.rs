use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ollie_protocol::{Key, Nonce, auth, limits};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::Error;

/// How often the file of a session says that somebody is connected.
pub(crate) const CONTACT: Duration = Duration::from_secs(30);
/// The longest file, in bytes.
const FILE_MAX: u64 = 64 * 1024;

/// What leads back to a session that lives on without a client.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The session's name.
    pub session: String,
    /// Where it runs: a target, or nothing for this machine.
    pub target: Option<String>,
    /// The session's socket there.
    pub socket: String,
    /// Process id of its 9P server there.
    pub server: u32,
    /// For how long it lives on.
    pub time: Duration,
    /// A word of whoever made it, for lists: the call that it is for.
    pub note: String,
    pub(crate) token: Key,
}

/// A directory of this machine for [`Lease`]s, mode 0700, a file of mode 0600
/// for each. It is the only place where a key of a session is ever written,
/// and only for as long as its lease lasts.
#[derive(Debug, Clone)]
pub struct Leases {
    directory: PathBuf,
}

/// Nobody else follows the session while this is there; the kernel takes it
/// back however the process ends (flock(2)).
#[derive(Debug)]
pub struct Following {
    _lock: std::fs::File,
}

impl Leases {
    /// The directory is made when it is needed.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Writes a lease down, in place of what was there of this session.
    ///
    /// # Errors
    /// [`Error::Leases`]
    pub fn keep(&self, lease: &Lease) -> Result<(), Error> {
        self.write(lease).map_err(|source| Error::Leases {
            path: self.directory.clone(),
            source,
        })
    }

    /// The lease of a session, unless it has run out.
    #[must_use]
    pub fn find(&self, session: &str) -> Option<Lease> {
        limits::is_name(session).then(|| self.read(&self.file(session)))?
    }

    /// All of them, by name. Those that have run out are removed.
    #[must_use]
    pub fn all(&self) -> Vec<Lease> {
        let entries = std::fs::read_dir(&self.directory);
        let mut all: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| self.read(&entry.path()))
            .collect();
        all.sort_by(|a, b| a.session.cmp(&b.session));
        all
    }

    /// Deletes the lease of a session that has ended.
    pub fn forget(&self, session: &str) {
        if limits::is_name(session) {
            // What is not there needs no deleting, and what cannot be deleted
            // runs out.
            let _ = std::fs::remove_file(self.file(session));
        }
    }

    /// Takes the following of a session's calls, which one process at a time
    /// does; another would be left without a result when this one has its own
    /// and ends the session. `None` if there is no lease.
    ///
    /// # Errors
    /// [`Error::Followed`] while another process of this machine follows it,
    /// [`Error::Leases`].
    pub fn follow(&self, session: &str) -> Result<Option<Following>, Error> {
        if self.find(session).is_none() {
            return Ok(None);
        }
        let path = self.file(session);
        let failed = |source| Error::Leases {
            path: path.clone(),
            source,
        };
        let file = std::fs::File::open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Following { _lock: file })),
            Err(Errno::WOULDBLOCK) => Err(Error::Followed(session.to_owned())),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Notes that somebody is connected now: the time runs from the last
    /// client on.
    pub(crate) fn contact(&self, session: &str) {
        if let Ok(file) = OpenOptions::new().write(true).open(self.file(session)) {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// Where the lease of a session is, or would be.
    #[must_use]
    pub fn file(&self, session: &str) -> PathBuf {
        self.directory.join(format!("{session}.json"))
    }

    fn write(&self, lease: &Lease) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let record = json!({
            "session": lease.session,
            "target": lease.target,
            "socket": lease.socket,
            "server": lease.server,
            "seconds": lease.time.as_secs(),
            "note": lease.note,
            "token": auth::to_hex(lease.token.as_bytes()),
        });
        let fresh = Nonce::random().map_err(|error| io::Error::other(error.to_string()))?;
        let word = auth::to_hex(&fresh.as_bytes()[..8]);
        let staged = self.directory.join(format!(".{word}"));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&staged)
            .and_then(|mut file| file.write_all(record.to_string().as_bytes()))
            .and_then(|()| std::fs::rename(&staged, self.file(&lease.session)));
        if written.is_err() {
            let _ = std::fs::remove_file(&staged);
        }
        written
    }

    /// What cannot be read is no lease; what has run out is removed.
    fn read(&self, path: &Path) -> Option<Lease> {
        let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
        // A FIFO would be waited at for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let about = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let contact = about.modified().ok()?;
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text).ok()?;
        let lease = parse(&text).filter(|lease| lease.session == name)?;
        let silent = SystemTime::now().duration_since(contact);
        if silent.is_ok_and(|silent| silent > lease.time + 2 * CONTACT) {
            self.forget(name);
            return None;
        }
        Some(lease)
    }
}

fn parse(text: &str) -> Option<Lease> {
    let record: Value = serde_json::from_str(text).ok()?;
    let word = |name: &str| record.get(name).and_then(Value::as_str);
    Some(Lease {
        session: word("session")?.to_owned(),
        target: word("target").map(str::to_owned),
        socket: word("socket")?.to_owned(),
        server: u32::try_from(record.get("server")?.as_u64()?).ok()?,
        time: Duration::from_secs(record.get("seconds")?.as_u64()?).min(limits::LEASE_MAX),
        note: word("note")?.to_owned(),
        token: Key::from_bytes(auth::from_hex(word("token")?)?),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn lease(session: &str) -> Lease {
        Lease {
            session: session.to_owned(),
            target: Some("devbox".to_owned()),
            socket: "/tmp/ollie-run-1/socket".to_owned(),
            server: 7,
            time: Duration::from_secs(600),
            note: "make".to_owned(),
            token: Key::from_bytes([5; 32]),
        }
    }

    #[test]
    fn a_lease_is_kept_for_its_owner_alone_and_until_it_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let leases = Leases::new(place.path().join("leases"));
        assert!(leases.all().is_empty() && leases.find("s-1").is_none());
        leases.keep(&lease("s-1")).unwrap();
        leases.keep(&lease("s-2")).unwrap();
        let file = place.path().join("leases/s-1.json");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        let found = leases.find("s-1").unwrap();
        assert_eq!(found.token.as_bytes(), &[5; 32]);
        assert_eq!(found.socket, "/tmp/ollie-run-1/socket");
        leases.forget("s-1");
        assert!(!file.exists());
        let names: Vec<_> = leases.all().into_iter().map(|l| l.session).collect();
        assert_eq!(names, ["s-2"]);
        // A name leads to no other file.
        assert!(leases.find("../leases/s-2").is_none());
        leases.forget("../leases/s-2");
        assert!(leases.find("s-2").is_some());
    }

    #[test]
    fn one_follows_a_session_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let leases = Leases::new(place.path());
        assert!(leases.follow("s-1").unwrap().is_none());
        leases.keep(&lease("s-1")).unwrap();
        let following = leases.follow("s-1").unwrap();
        assert!(matches!(leases.follow("s-1"), Err(Error::Followed(_))));
        // Somebody who only looks is not kept from it.
        assert!(leases.find("s-1").is_some());
        drop(following);
        assert!(leases.follow("s-1").unwrap().is_some());
    }

    #[test]
    fn what_has_run_out_is_deleted_and_contact_lengthens_it() {
        let place = tempfile::tempdir().unwrap();
        let leases = Leases::new(place.path());
        leases.keep(&lease("s-1")).unwrap();
        let file = place.path().join("s-1.json");
        let age = |seconds| {
            let file = OpenOptions::new().write(true).open(&file).unwrap();
            let then = SystemTime::now() - Duration::from_secs(seconds);
            file.set_modified(then).unwrap();
        };
        age(599);
        assert!(leases.find("s-1").is_some());
        age(900);
        leases.contact("s-1");
        assert!(leases.find("s-1").is_some());
        age(900);
        assert!(leases.find("s-1").is_none());
        assert!(!file.exists());
    }
}
