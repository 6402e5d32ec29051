use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ollie_protocol::{Nonce, auth};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use tokio::net::UnixStream;

use crate::identity::resolved;
use crate::sockets::SUN_PATH_MAX;
use crate::ssh::{Route, Ssh};
use crate::trouble::{self, Trouble};
use crate::{Connection, Remote, Step};

/// The sockets' directory, in the one that was named.
const DIRECTORY: &str = "ssh";
/// ssh binds its socket under a name that is longer by a dot and 16 characters.
const BINDING: usize = 17;
/// How long a socket of this machine may take to be connected.
const CONNECT: Duration = Duration::from_secs(1);

/// ssh connections to hosts, each for several sessions, which have a session
/// channel of their own there.
///
/// Each is an ssh without a session, a master (ControlMaster of
/// ssh_config(5)), that belongs to no session: whichever ends first ends no
/// other. It ends by itself 3 s after the last one, and so also when this
/// process is killed. Its control socket is in a directory 0700 of this user.
///
/// A living master of the user's own goes before it.
#[derive(Debug)]
pub struct Connections {
    directory: PathBuf,
    /// Whether connections are made; else those of another process are used.
    makes: bool,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
    /// Sockets of connections that were made here.
    made: Mutex<Vec<PathBuf>>,
}

/// The connections that lead to one host in one way.
#[derive(Debug, Default)]
struct Host {
    /// Held while one is made: whoever comes meanwhile shares it.
    masters: tokio::sync::Mutex<Vec<Arc<Master>>>,
    /// How often one could not be made.
    failures: AtomicU64,
}

/// An ssh that others are clients of.
#[derive(Debug)]
struct Master {
    socket: PathBuf,
    /// sshd took no further session, and none has ended since.
    full: AtomicBool,
    /// It is of no use, or not believed to be.
    retired: AtomicBool,
    /// Reads what it says; none if another process made it.
    ssh: Option<Ssh>,
}

/// The place of one session in a shared connection.
#[derive(Debug)]
pub(crate) struct Lane(Arc<Master>);

/// How a session gets to its host.
#[derive(Debug)]
pub(crate) enum Found {
    /// Over a shared connection.
    Lane(Lane, Connection),
    /// By an ssh of its own.
    Alone(Connection),
}

impl Connections {
    /// Connections that are made when they are needed, with their sockets in
    /// `directory/ssh`. Both are made with the first one, mode 0700.
    #[must_use]
    pub fn kept(directory: &Path) -> Self {
        Self::new(directory, true)
    }

    /// Those that another process of this user keeps there. Nothing is made.
    #[must_use]
    pub fn borrowed(directory: &Path) -> Self {
        Self::new(directory, false)
    }

    fn new(directory: &Path, makes: bool) -> Self {
        Self {
            directory: directory.join(DIRECTORY),
            makes,
            hosts: Mutex::default(),
            made: Mutex::default(),
        }
    }

    /// Lets nobody find the connections that were made here any more. What runs
    /// over them goes on. Dropping this does the same.
    pub fn close(&self) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in made.drain(..) {
            let _ = std::fs::remove_file(socket);
        }
        // Not if there is more in it. A daemon has a lock on the one above, or
        // takes it while it opens its socket there.
        if self.makes
            && std::fs::remove_dir(&self.directory).is_ok()
            && let Some(above) = self.directory.parent()
            && let Ok(opened) = std::fs::File::open(above)
            && flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = std::fs::remove_dir(above);
        }
    }

    /// The way for one session; `tell` hears of a connection that is made.
    pub(crate) async fn lane(
        &self,
        remote: &Remote,
        modern: bool,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<Found, Trouble> {
        let alone = Ok(Found::Alone(Connection::Own));
        if !self.makes && !self.is_private() {
            return alone;
        }
        // An ssh that does not tell is asked for no more than before.
        let Ok(configuration) = resolved(remote).await else {
            return alone;
        };
        if let Some(users) = users_master(&configuration)
            && connects(&users).await
        {
            return Ok(Found::Alone(Connection::Users));
        }
        let key = key(remote, &configuration);
        let host = self.host(&key);
        let failures = host.failures.load(Ordering::Relaxed);
        let mut masters = host.masters.lock().await;
        if !self.makes {
            self.look(&key, &mut masters);
        }
        for master in masters.iter().filter(|master| master.has_room()) {
            if connects(&master.socket).await {
                let connection = match self.makes {
                    true => Connection::Shared,
                    false => Connection::Daemon,
                };
                return Ok(Found::Lane(Lane(Arc::clone(master)), connection));
            }
            master.retire();
        }
        // Whoever waited for one that failed does not make the others wait for
        // the next failure.
        if !self.makes || host.failures.load(Ordering::Relaxed) != failures {
            return alone;
        }
        masters.retain(|master| !master.retired.load(Ordering::Relaxed));
        let Some(socket) = self.place(&key) else {
            return alone;
        };
        let connection = Connection::First;
        tell(&Step::Connecting { connection });
        match self.open(remote, socket, modern).await {
            Ok(master) => {
                masters.push(Arc::clone(&master));
                Ok(Found::Lane(Lane(master), connection))
            }
            Err(trouble) => {
                if !matches!(trouble, Trouble::OldSsh(_)) {
                    host.failures.fetch_add(1, Ordering::Relaxed);
                }
                Err(trouble)
            }
        }
    }

    fn host(&self, key: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(key.to_owned()).or_default())
    }

    /// Logs in. ssh goes to the background when that is done, and is nobody's
    /// child.
    async fn open(
        &self,
        remote: &Remote,
        socket: PathBuf,
        modern: bool,
    ) -> Result<Arc<Master>, Trouble> {
        let made = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made().retain(|made| made.exists());
        made().push(socket.clone());
        let (mut ssh, _) = Ssh::start(remote, None, modern, Route::Master(&socket))?;
        let ended = ssh.ended(remote.answer_timeout).await;
        if !ended.is_some_and(|status| status.success()) {
            let problem = "there is no connection".to_owned();
            return Err(trouble::of_ssh(remote, &mut ssh, problem).await);
        }
        Ok(Arc::new(Master {
            socket,
            full: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            ssh: Some(ssh),
        }))
    }

    /// The path of a new socket, in directories that are there and private;
    /// none where that cannot be.
    fn place(&self, key: &str) -> Option<PathBuf> {
        let fresh = Nonce::random().ok()?;
        let word = auth::to_hex(&fresh.as_bytes()[..4]);
        let socket = self.directory.join(format!("{key}-{word}"));
        let path = socket.as_os_str().as_bytes();
        // ssh replaces what follows these (TOKENS of ssh_config(5)).
        let plain = !path.contains(&b'%') && !path.contains(&b'$');
        if !plain || path.len() + BINDING > SUN_PATH_MAX {
            return None;
        }
        for directory in [self.directory.parent()?, &self.directory] {
            match DirBuilder::new().mode(0o700).create(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
                _ => {}
            }
        }
        // Of an ssh that cannot have its socket nobody would be the client.
        (self.is_private() && !socket.exists()).then_some(socket)
    }

    /// Whether both directories are this user's and closed to others.
    fn is_private(&self) -> bool {
        let private = |directory: &Path| {
            std::fs::symlink_metadata(directory).is_ok_and(|found| {
                found.is_dir() && found.uid() == own_uid() && found.mode() & 0o077 == 0
            })
        };
        self.directory.parent().is_some_and(private) && private(&self.directory)
    }

    /// Adds what another process keeps for the host.
    fn look(&self, key: &str, masters: &mut Vec<Arc<Master>>) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let word = name.to_str().and_then(|name| name.strip_prefix(key));
            // ssh's name for a moment has a dot in it.
            let is_ours = word.is_some_and(|word| word.starts_with('-') && !word.contains('.'));
            let socket = entry.path();
            let known = masters.iter().any(|master| master.socket == socket);
            if is_ours && !known && is_own_socket(&socket) {
                masters.push(Arc::new(Master {
                    socket,
                    full: AtomicBool::new(false),
                    retired: AtomicBool::new(false),
                    ssh: None,
                }));
            }
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.close();
    }
}

impl Master {
    fn has_room(&self) -> bool {
        !self.full.load(Ordering::Relaxed) && !self.retired.load(Ordering::Relaxed)
    }

    /// Nobody begins anything over it any more.
    fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        if self.ssh.is_some() {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

impl Lane {
    /// The socket of the connection.
    pub(crate) fn socket(&self) -> &Path {
        &self.0.socket
    }

    /// sshd takes no further session on it.
    pub(crate) fn refused(self) {
        let master = Arc::clone(&self.0);
        drop(self);
        master.full.store(true, Ordering::Relaxed);
    }

    /// It was silent: later sessions take another one.
    pub(crate) fn distrust(&self) {
        self.0.retire();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.0.full.store(false, Ordering::Relaxed);
    }
}

/// What makes a connection the same: the program, what it was asked for, and
/// all that its configuration says about that.
fn key(remote: &Remote, configuration: &str) -> String {
    let mut sum = Sha256::new();
    for part in [
        remote.ssh.as_os_str().as_bytes(),
        remote.target.to_string().as_bytes(),
        configuration.as_bytes(),
    ] {
        sum.update(part.len().to_le_bytes());
        sum.update(part);
    }
    auth::to_hex(&sum.finalize()[..8])
}

/// The socket of the user's own master, if one is configured.
fn users_master(configuration: &str) -> Option<PathBuf> {
    let path = (configuration.lines()).find_map(|line| line.strip_prefix("controlpath "))?;
    (path != "none").then(|| path.into())
}

/// Whether somebody listens there who is this user.
async fn connects(socket: &Path) -> bool {
    let stream = tokio::time::timeout(CONNECT, UnixStream::connect(socket)).await;
    let peer = stream.map(|stream| stream.and_then(|stream| stream.peer_cred()));
    peer.is_ok_and(|peer| peer.is_ok_and(|peer| peer.uid() == own_uid()))
}

fn is_own_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|found| found.file_type().is_socket() && found.uid() == own_uid())
}

fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_target_or_configuration_is_another_connection() {
        let remote = Remote::new("box".parse().unwrap());
        let mut other = remote.clone();
        other.ssh = "/opt/ssh".into();
        let alias = Remote::new("alias".parse().unwrap());
        let keys = [
            key(&remote, "user me\n"),
            key(&remote, "user you\n"),
            key(&other, "user me\n"),
            key(&alias, "user me\n"),
        ];
        assert_eq!(keys[0], key(&remote, "user me\n"));
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[at + 1..].iter().all(|other| other != one), "{keys:?}");
        }
    }

    #[test]
    fn a_master_of_the_users_is_where_ssh_says() {
        let path = users_master("user me\ncontrolpath /home/me/.ssh/ctl-1\n");
        assert_eq!(path, Some("/home/me/.ssh/ctl-1".into()));
        assert_eq!(users_master("controlpath none\n"), None);
        assert_eq!(users_master("user me\n"), None);
    }

    #[test]
    fn where_ssh_could_not_have_its_socket_none_is_shared() {
        let runtime = tempfile::tempdir().unwrap();
        let [good, percent, open] = ["good", "100%h", "open"].map(|name| runtime.path().join(name));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let long = runtime.path().join("x".repeat(90));
        let place = |directory: &Path| Connections::kept(directory).place("0123");
        assert!(place(&good).is_some());
        assert!(!good.exists(), "it is removed with the last");
        for directory in [&percent, &open, &long] {
            assert_eq!(place(directory), None, "{directory:?}");
        }
    }
}
