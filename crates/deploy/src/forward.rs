//! toolsrv's socket on this machine, by the master that our one ssh is.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ollie_protocol::{Nonce, Octets, auth};
use tokio::net::UnixStream;

use crate::{Error, Remote};

/// The longest path of a Unix socket, in bytes (unix(7)).
const SUN_PATH_MAX: usize = 107;
/// ssh binds the control socket under a longer name first, by a dot and 16
/// characters.
const SSH_SUFFIX: usize = 17;
/// How long the request to the master may take: it does not leave this
/// machine.
const REQUEST: Duration = Duration::from_secs(10);
/// Directories of ours begin with this, the process id and a dash.
const PREFIX: &str = "ollie-ssh-";

/// A private directory for the control socket and the forwarded one. It goes
/// when this is dropped.
#[derive(Debug)]
pub(crate) struct Sockets {
    directory: PathBuf,
}

impl Sockets {
    /// Makes one in `runtime`, and removes those of processes that are gone.
    pub(crate) fn make(runtime: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Sockets {
            path: runtime.to_owned(),
            source,
        };
        sweep(runtime);
        let fresh =
            Nonce::random().map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let word = auth::to_hex(&fresh.as_bytes()[..4]);
        let name = format!("{PREFIX}{}-{word}", std::process::id());
        let sockets = Self {
            directory: runtime.join(name),
        };
        let longest = sockets.control().as_os_str().len() + SSH_SUFFIX;
        if longest > SUN_PATH_MAX {
            return Err(failed(std::io::Error::other(format!(
                "its path is too long: a socket below it would have {longest} bytes, and \
                 {SUN_PATH_MAX} is the most"
            ))));
        }
        // mkdir(2) fails if anything has this name already, a link included.
        DirBuilder::new()
            .mode(0o700)
            .create(&sockets.directory)
            .map_err(failed)?;
        Ok(sockets)
    }

    /// The master's control socket.
    pub(crate) fn control(&self) -> PathBuf {
        self.directory.join("ctl")
    }

    /// Where toolsrv's socket appears.
    pub(crate) fn local(&self) -> PathBuf {
        self.directory.join("9p")
    }

    /// Asks the master to forward, and connects. Whether anybody is at the
    /// other end only the handshake can tell: ssh accepts in any case.
    pub(crate) async fn forward(
        &self,
        remote: &Remote,
        there: &Octets,
    ) -> Result<UnixStream, Error> {
        let refused = |problem: String| Error::Forward {
            target: remote.target.to_string(),
            problem,
        };
        let path = there.as_os_str().as_bytes();
        let harmless =
            path.starts_with(b"/") && !path.iter().any(|&byte| byte == b':' || byte < b' ');
        if !harmless || path.len() > SUN_PATH_MAX {
            return Err(refused(format!(
                "{:?} is no path of a socket",
                there.as_os_str()
            )));
        }
        let mut pair = self.local().into_os_string();
        pair.push(":");
        pair.push(there.as_os_str());
        let arguments: [OsString; 8] = [
            "-S".into(),
            self.control().into(),
            "-O".into(),
            "forward".into(),
            "-L".into(),
            pair,
            "--".into(),
            remote.target.host().into(),
        ];
        let request = tokio::process::Command::new(&remote.ssh)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let output = match tokio::time::timeout(REQUEST, request).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(refused(error.to_string())),
            Err(_) => return Err(refused("ssh does not answer".to_owned())),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(refused(format!("{:?}", said.trim())));
        }
        UnixStream::connect(self.local())
            .await
            .map_err(|error| refused(error.to_string()))
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Removes what processes that were killed have left.
fn sweep(runtime: &Path) {
    let Ok(entries) = std::fs::read_dir(runtime) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            name.strip_prefix(PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not() {
        let runtime = tempfile::tempdir().unwrap();
        // Process ids end at 2^22 (proc(5), pid_max).
        let dead = runtime.path().join("ollie-ssh-4194305-aa");
        let alive = runtime.path().join("ollie-ssh-1-aa");
        let foreign = runtime.path().join("else");
        for directory in [&dead, &alive, &foreign] {
            std::fs::create_dir(directory).unwrap();
        }
        let sockets = Sockets::make(runtime.path()).unwrap();
        assert!(!dead.exists() && alive.exists() && foreign.exists());
        let own = sockets.directory.clone();
        assert!(own.exists());
        drop(sockets);
        assert!(!own.exists());
    }

    #[test]
    fn a_directory_that_is_too_long_is_told_before_ssh_fails() {
        let runtime = Path::new("/tmp").join("x".repeat(80));
        let error = Sockets::make(&runtime).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("107"), "{source}");
    }
}
