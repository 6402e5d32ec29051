use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::Access;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use crate::process::{Answer, Running};
use crate::ready::read_ready;
use crate::{Channel, Error, Installed, Lease, Plan, Process};

/// How long a start on this machine may take. Measured: 2 ms.
const START: Duration = Duration::from_secs(20);

/// Starts an installed toolsrv on this machine.
///
/// It gets a process group of its own, so that a Ctrl-C on the terminal
/// reaches olliesrv, which ends the call first.
///
/// # Errors
/// [`Error::Start`], [`Error::NotReady`] or [`Error::Refused`].
pub async fn spawn_local(installed: &Installed, plan: &Plan) -> Result<(Process, Channel), Error> {
    let boot = plan.boot().map_err(Error::Record)?;
    let cannot_start = |source| Error::Start {
        program: installed.program.clone(),
        source,
    };
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(cannot_start)?;
    let theirs_too = theirs.try_clone().map_err(cannot_start)?;
    let mut command = tokio::process::Command::new(&installed.program);
    command
        .arg("serve")
        .args(plan.lease.map(|_| "--lasting"))
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(std::os::fd::OwnedFd::from(theirs_too))
        .stderr(Stdio::piped())
        .process_group(0);
    // Where it cannot start it says so itself, as it does on another host.
    if let Some(cwd) = &plan.cwd
        && rustix::fs::access(cwd.as_os_str(), Access::EXEC_OK).is_ok()
        && Path::new(cwd.as_os_str()).is_dir()
    {
        command.current_dir(cwd.as_os_str());
    }
    for name in &plan.withheld {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(cannot_start)?;
    // The command holds copies of the child's end: with them open here, the
    // end of toolsrv would not be seen.
    drop(command);

    ours.set_nonblocking(true).map_err(cannot_start)?;
    let stream = UnixStream::from_std(ours).map_err(cannot_start)?;
    let (mut reader, mut writer) = stream.into_split();
    let frame = boot.to_frame().map_err(Error::Record)?;
    let sent = tokio::io::AsyncWriteExt::write_all(&mut writer, &frame).await;
    let ready = match sent {
        Ok(()) => read_ready(&mut reader, &boot.mark, START).await,
        Err(error) => Err(Error::NotReady(error.to_string())),
    };
    match ready {
        Ok(start) => Ok((
            Process {
                running: Running::Local(child),
                key: boot.secret,
                again: false,
                session: plan.session.clone(),
                ready: Answer::Known {
                    server: start.server,
                    socket: start.socket,
                },
                project: start.project,
                arrival: None,
            },
            Channel::new(reader, writer, Some(start.nonce)),
        )),
        Err(Error::NotReady(problem)) => {
            Err(Error::NotReady(last_words(problem, &mut child).await))
        }
        Err(error) => Err(error),
    }
}

/// Connects to a session of this machine that lives on.
///
/// # Errors
/// [`Error::Gone`] if it does not any more.
pub(crate) async fn attach_local(lease: &Lease) -> Result<(Process, Channel), Error> {
    let stream = UnixStream::connect(&lease.socket).await;
    let stream = stream.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            Error::Gone(error.to_string())
        }
        _ => Error::Connect(ollie_client::Error::Lost(ninep_rs::Error::Io(error))),
    })?;
    let (reader, writer) = stream.into_split();
    let process = Process {
        running: Running::Elsewhere,
        key: lease.token.clone(),
        again: true,
        session: lease.session.clone(),
        ready: Answer::Known {
            server: lease.server,
            socket: std::ffi::OsString::from(&lease.socket).into(),
        },
        project: None,
        arrival: None,
    };
    Ok((process, Channel::new(reader, writer, None)))
}

/// Waits until there is no process of this id: it is no child, so nothing
/// tells of its end.
pub(crate) async fn gone(pid: u32, limit: Duration) -> bool {
    let path = format!("/proc/{pid}");
    let look = async {
        while Path::new(&path).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(limit, look).await.is_ok()
}

/// Adds what the process said on standard error before it ended.
async fn last_words(problem: String, child: &mut tokio::process::Child) -> String {
    let Some(stderr) = child.stderr.take() else {
        return problem;
    };
    let mut said = Vec::new();
    let mut stderr = stderr.take(4096);
    let reading = stderr.read_to_end(&mut said);
    let _ = tokio::time::timeout(Duration::from_secs(1), reading).await;
    if said.is_empty() {
        return problem;
    }
    let said = String::from_utf8_lossy(&said);
    format!("{problem}; it said {:?}", said.trim_end())
}
