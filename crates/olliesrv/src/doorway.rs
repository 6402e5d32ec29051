//! The daemon's socket: where it is, who may be behind it, who may knock.

use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener as StdListener};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::net::{UnixListener, UnixStream};

use crate::error::Error;

/// The longest path of a socket: `sun_path` has 108 bytes and ends with a NUL
/// (unix(7)).
const SUN_PATH_MAX: usize = 107;
/// The socket's name in its directory.
const SOCKET: &str = "9p";

/// The directory of the daemon's socket: `$XDG_RUNTIME_DIR/ollie`, or one
/// below /tmp with the user's number.
pub(crate) fn directory(runtime: Option<PathBuf>) -> PathBuf {
    match runtime {
        Some(runtime) => runtime.join("ollie"),
        None => format!("/tmp/ollie-{}", own_uid()).into(),
    }
}

/// The daemon's socket in it.
pub(crate) fn socket(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

/// A socket that listens. Dropping it removes what it made.
#[derive(Debug)]
pub(crate) struct Doorway {
    pub(crate) listener: UnixListener,
    _made: Option<Made>,
}

/// The socket's directory. The lock on it is what makes a daemon the only one,
/// and the kernel takes it back however the process ends.
#[derive(Debug)]
struct Made {
    directory: PathBuf,
    _lock: File,
}

impl Doorway {
    /// The socket that systemd gave (sd_listen_fds(3)).
    pub(crate) fn given(listener: StdListener) -> Result<Self, Error> {
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            listener: UnixListener::from_std(listener).map_err(failed)?,
            _made: None,
        })
    }

    /// A socket of our own in `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        let path = socket(directory);
        let length = path.as_os_str().len();
        if length > SUN_PATH_MAX {
            return Err(Error::Usage(format!(
                "the socket {path:?} would have {length} bytes, and {SUN_PATH_MAX} is the most: \
                 set XDG_RUNTIME_DIR to a shorter path"
            )));
        }
        let lock = lock(directory)?;
        // Whoever listens there without the lock was started by systemd.
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(Error::Running(path));
        }
        // Nobody does: a daemon that was killed has left it.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        // The directory is closed to others already.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self {
            listener,
            _made: Some(Made {
                directory: directory.to_owned(),
                _lock: lock,
            }),
        })
    }

    /// The next connection of somebody who may knock.
    pub(crate) async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) if may_knock(&stream) => return stream,
                Ok(_) => {}
                // No descriptor is free: some connection has to end first.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(socket(&self.directory));
        // Not if there is more in it.
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// Makes the directory and locks it.
fn lock(directory: &Path) -> Result<File, Error> {
    loop {
        match std::fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let found = std::fs::symlink_metadata(directory).map_err(failed)?;
        if !found.is_dir() || found.uid() != own_uid() || found.mode() & 0o077 != 0 {
            return Err(Error::Usage(format!(
                "{directory:?} is not a directory of your own that is closed to others: remove it"
            )));
        }
        let lock = File::open(directory).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Running(socket(directory))),
            Err(errno) => return Err(failed(errno.into())),
        }
        // The one before may have removed it meanwhile.
        let locked = lock.metadata().map_err(failed)?;
        if std::fs::symlink_metadata(directory)
            .is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino()))
        {
            return Ok(lock);
        }
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io {
        action: "open the socket",
        source,
    }
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Only this user; and no tool, which may find the socket's name where no
/// sandbox keeps it from connecting: what descends from this process or from
/// any toolsrv stays outside.
fn may_knock(stream: &UnixStream) -> bool {
    let Ok(peer) = stream.peer_cred() else {
        return false;
    };
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    // Of one that is gone nothing can be found out.
    peer.uid() == own_uid() && pid.is_some_and(|pid| parent(pid).is_some() && !is_tool(pid))
}

fn is_tool(mut pid: u32) -> bool {
    let own = std::process::id();
    // A process may not be its own ancestor; the bound is for numbers that
    // were given anew meanwhile.
    for _ in 0..1000 {
        let Some((name, parent)) = parent(pid) else {
            return false;
        };
        if name == "toolsrv" || parent == own {
            return true;
        }
        pid = parent;
    }
    true
}

/// A process's name and its parent (proc(5), `stat`).
fn parent(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also a parenthesis.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 0).then_some((name, parent))
}

/// Tells systemd (sd_notify(3)), if it asked to be told.
pub(crate) fn notify(socket: Option<&std::ffi::OsStr>, message: &str) {
    use std::os::unix::ffi::OsStrExt as _;
    let Some(name) = socket else { return };
    let address = match name.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(Path::new(name)),
    };
    // If nobody is there, nobody waits.
    if let (Ok(address), Ok(from)) = (address, UnixDatagram::unbound()) {
        let _ = from.send_to_addr(message.as_bytes(), &address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_one_is_refused_and_a_stale_socket_is_replaced() {
        let runtime = tempfile::tempdir().unwrap();
        let at = directory(Some(runtime.path().to_owned()));
        let first = Doorway::open(&at).unwrap();
        let mode = std::fs::metadata(socket(&at)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(Doorway::open(&at), Err(Error::Running(_))));
        drop(first);
        assert!(!at.exists());
        // What a killed one leaves: a socket that nobody listens on.
        std::fs::DirBuilder::new().mode(0o700).create(&at).unwrap();
        drop(StdListener::bind(socket(&at)).unwrap());
        let again = Doorway::open(&at).unwrap();
        drop(again);
    }

    #[tokio::test]
    async fn where_others_could_write_or_a_path_is_too_long_nothing_is_opened() {
        let runtime = tempfile::tempdir().unwrap();
        let at = runtime.path().join("ollie");
        std::fs::DirBuilder::new().mode(0o755).create(&at).unwrap();
        assert!(matches!(Doorway::open(&at), Err(Error::Usage(_))));
        let long = runtime.path().join("x".repeat(100));
        assert!(matches!(Doorway::open(&long), Err(Error::Usage(_))));
    }

    #[test]
    fn a_tool_is_known_by_its_ancestors() {
        assert!(!is_tool(std::process::id()));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(is_tool(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
