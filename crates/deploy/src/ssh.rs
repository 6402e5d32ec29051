use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;

use crate::connections::Lane;
use crate::{Error, Remote, Target};

/// How much of what ssh and the host say on standard error is kept.
const SAID_MAX: usize = 8 * 1024;
/// How long ssh has to end by itself once its command has.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Options of the user's configuration that would break the one command, set
/// to what it needs (ssh_config(5)). What was tried: `StdinNull yes` passes
/// no data, `SessionType none` hangs. `-T` stands for `RequestTTY=no`, and
/// without a terminal there is no escape character; where forwardings are
/// cleared there is no tunnel, and nothing that `ExitOnForwardFailure` is about.
const PINNED: [&str; 8] = [
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    // Whoever uses the tools could use the agent's keys.
    "ForwardAgent=no",
    // QUIET would hide why a connection failed.
    "LogLevel=INFO",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
];

/// The same for options that came with OpenSSH 8.7; older ones refuse them,
/// and have nothing in their configuration that could set them.
const PINNED_LATER: [&str; 3] = [
    "StdinNull=no",
    "SessionType=default",
    "ForkAfterAuthentication=no",
];

/// A master that others share ends this long after the last of them: time
/// enough for a toolsrv that is started again.
const IDLE: &str = "ControlPersist=3";

/// A running ssh. Dropping it kills it with all its helpers.
#[derive(Debug)]
pub(crate) struct Ssh {
    child: Child,
    said: Said,
    /// Its place in a shared connection, if it is a client of one.
    pub(crate) lane: Option<Lane>,
}

/// Which connection an ssh has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route<'a> {
    /// One of its own, or that of a living master of the user's.
    Alone,
    /// One of its own, which forwards a socket at its master's request here.
    Forward(&'a Path),
    /// One that others share by this socket. It has no session itself, goes to
    /// the background once it is let in, and ends some time after the last of
    /// the others.
    Master(&'a Path),
    /// That of the master at this socket, and no other.
    Lane(&'a Path),
}

/// What was said on standard error.
#[derive(Debug)]
struct Said {
    kept: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Ssh {
    /// Starts ssh with one command to run there, or none for a master. The
    /// stream is the command's standard input and output.
    pub(crate) fn start(
        remote: &Remote,
        command: Option<&str>,
        modern: bool,
        route: Route<'_>,
    ) -> Result<(Self, UnixStream), Error> {
        let cannot_start = |source| Error::Start {
            program: remote.ssh.clone(),
            source,
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(cannot_start)?;
        let theirs_too = theirs.try_clone().map_err(cannot_start)?;
        let mut ssh = Command::new(&remote.ssh);
        ssh.args(arguments(remote, modern, route))
            .args(command)
            .stdin(OwnedFd::from(theirs))
            .stdout(OwnedFd::from(theirs_too))
            .stderr(Stdio::piped())
            // A Ctrl-C on the terminal reaches olliesrv, which ends the call
            // first.
            .process_group(0);
        match &remote.askpass {
            Some(askpass) => {
                ssh.env("SSH_ASKPASS", &askpass.program)
                    // In a process group of the background, ssh would stop for
                    // ever when it asks on the terminal itself.
                    .env("SSH_ASKPASS_REQUIRE", "force")
                    .env(&askpass.variable.0, &askpass.variable.1);
            }
            None => {
                ssh.env_remove("SSH_ASKPASS");
            }
        }
        for name in &remote.withheld {
            ssh.env_remove(name);
        }
        let mut child = ssh.spawn().map_err(cannot_start)?;
        // The command holds copies of ssh's end: with them open here, the end
        // of ssh would not be seen.
        drop(ssh);
        let said = Said::new(child.stderr.take());
        let lane = None;
        let ssh = Self { child, said, lane };
        ours.set_nonblocking(true).map_err(cannot_start)?;
        let stream = UnixStream::from_std(ours).map_err(cannot_start)?;
        Ok((ssh, stream))
    }

    /// Waits until ssh has ended by itself, or `limit` has passed.
    pub(crate) async fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        let ended = tokio::time::timeout(limit, self.child.wait()).await;
        ended.ok().and_then(Result::ok)
    }

    /// What was said so far.
    pub(crate) fn said(&self) -> String {
        self.said.text()
    }

    /// How ssh ended and what it said, once its stream has.
    pub(crate) async fn last_words(&mut self) -> (Option<ExitStatus>, String) {
        let status = self.ended(LAST_WAIT).await;
        if status.is_some() {
            // A helper of ssh may hold the pipe open.
            let _ = tokio::time::timeout(LAST_WAIT, &mut self.said.reading).await;
        }
        (status, self.said.text())
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.said.reading.abort();
        // Without an id it was waited for, and the number may be another's.
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = pid.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Said {
    fn new(stderr: Option<ChildStderr>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let reading = tokio::spawn(keep_last(stderr, Arc::clone(&kept)));
        Self { kept, reading }
    }

    fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

/// Reads on for as long as ssh lives, because it would wait for a reader.
async fn keep_last(stderr: Option<ChildStderr>, kept: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = [0; SAID_MAX];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let excess = kept.len().saturating_sub(SAID_MAX);
        kept.drain(..excess);
    }
}

/// Everything between `ssh` and the command.
fn arguments(remote: &Remote, modern: bool, route: Route<'_>) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("-T")];
    let at = |path: &Path| [OsString::from("-S"), path.into()];
    let mut options = Vec::new();
    match route {
        // A live master of the user is used, but ssh never becomes one for
        // others.
        Route::Alone => options.push("ControlMaster=no"),
        // A master that ends with its session, in a place that is ours.
        Route::Forward(control) => {
            arguments.push("-M".into());
            arguments.extend(at(control));
            options.push("ControlPersist=no");
        }
        // These letters come first, and so before what is pinned below.
        Route::Master(control) => {
            arguments.extend(["-f", "-N", "-M"].map(OsString::from));
            arguments.extend(at(control));
            options.push(IDLE);
        }
        // ssh would connect by itself if the master does not take it.
        Route::Lane(control) => {
            arguments.extend(at(control));
            options.extend(["ControlMaster=no", "ProxyCommand=false"]);
        }
    }
    options.extend(PINNED);
    options.extend(if modern { &PINNED_LATER[..] } else { &[] });
    let timeout = format!("ConnectTimeout={}", remote.connect_timeout.as_secs().max(1));
    options.push(&timeout);
    options.extend(remote.askpass.is_none().then_some("BatchMode=yes"));
    for option in options {
        arguments.push("-o".into());
        arguments.push(option.into());
    }
    arguments.extend(destination(&remote.target));
    arguments
}

/// Where to, as the last arguments.
pub(crate) fn destination(target: &Target) -> Vec<OsString> {
    let mut arguments = Vec::new();
    if let Some(port) = target.port() {
        arguments.extend(["-p".into(), port.to_string().into()]);
    }
    if let Some(user) = target.user() {
        arguments.extend(["-l".into(), user.into()]);
    }
    arguments.extend(["--".into(), target.host().into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_port_are_options_and_the_host_comes_last() {
        let remote = Remote::new("me@[::1]:2222".parse().unwrap());
        let arguments = arguments(&remote, true, Route::Alone);
        let words: Vec<_> = arguments
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect();
        assert!(
            words.ends_with(&["-p", "2222", "-l", "me", "--", "::1"]),
            "{words:?}"
        );
        assert!(words.contains(&"BatchMode=yes"), "{words:?}");
    }
}
