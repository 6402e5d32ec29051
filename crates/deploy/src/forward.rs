//! toolsrv's socket on this machine, by the master that our one ssh is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::time::Duration;

use ollie_protocol::Octets;
use tokio::net::UnixStream;

use crate::sockets::SUN_PATH_MAX;
use crate::{Error, Remote, Sockets};

/// The master's control socket.
pub(crate) const CONTROL: &str = "ctl";
/// Where toolsrv's socket appears.
const LOCAL: &str = "9p";
/// How long the request to the master may take: it does not leave this
/// machine.
const REQUEST: Duration = Duration::from_secs(10);

impl Sockets {
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
        let mut pair = self.path(LOCAL).into_os_string();
        pair.push(":");
        pair.push(there.as_os_str());
        let arguments: [OsString; 8] = [
            "-S".into(),
            self.path(CONTROL).into(),
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
        UnixStream::connect(self.path(LOCAL))
            .await
            .map_err(|error| refused(error.to_string()))
    }
}
