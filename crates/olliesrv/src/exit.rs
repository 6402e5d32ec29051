//! Exit statuses. A command's own are passed on; what ollie could not do has
//! a number above 200, and these numbers do not change.

use std::process::ExitCode;

use ollie_agent::TurnEnd;
use ollie_protocol::{FailureKind, Obstacle, ToolResult};

use crate::error::Error;
use crate::printable::printable;
use crate::signals::Wish;

/// Printed below `--help`.
pub(crate) const HELP: &str = "\
Exit status: that of the command, 128 and the signal if a signal ended it, 126 if it cannot be \
executed, 127 if there is no such program, 130 after Ctrl-C, 143 after SIGTERM; 2 for wrong \
options; and of ollie itself: 201 no toolsrv could be started, 202 no sandbox, nothing was run, \
203 the connection ended, the outcome is unknown, 204 time is up, 205 authentication failed, \
206 the policy is wrong, 207 the working directory cannot be used, 208 refused by toolsrv or by \
the olliesrv that has the sessions, or there is no such session, 209 another failure, be it of \
this machine, 210 the host cannot be reached or ssh failed, 211 ssh's authentication failed \
or the host's key is not the known one, 212 toolsrv cannot be put on that host, \
213 the configuration is wrong, \
214 ended beyond a limit of the policy, 215 a turn of a session failed, 216 no olliesrv serves, or \
another one does.";

/// Standard output was closed, as by `head`: 128 and SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;
/// A person left during a turn: never a status of this program.
pub(crate) const LEFT: u8 = 255;
/// Ctrl-C: 128 and SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
/// 128 and SIGTERM.
pub(crate) const TERMINATED: u8 = 143;
/// doctor found something wrong that has no number of its own.
pub(crate) const UNHEALTHY: u8 = NO_SANDBOX;

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const USAGE: u8 = 2;
const NO_TOOLSRV: u8 = 201;
const NO_SANDBOX: u8 = 202;
const LOST: u8 = 203;
const TIMED_OUT: u8 = 204;
const NOT_AUTHENTICATED: u8 = 205;
const POLICY: u8 = 206;
const WORKING_DIRECTORY: u8 = 207;
const REFUSED: u8 = 208;
const OTHER: u8 = 209;
const UNREACHABLE: u8 = 210;
const NOT_LET_IN: u8 = 211;
const NO_PLACE: u8 = 212;
const CONFIG: u8 = 213;
const LIMIT: u8 = 214;
/// The last turn of a session failed.
pub(crate) const TURN_FAILED: u8 = 215;
const DAEMON: u8 = 216;

/// The status that stands for how a call ended.
pub(crate) fn of_result(result: &ToolResult) -> u8 {
    if result.timed_out {
        return TIMED_OUT;
    }
    if let Some(failure) = &result.failure {
        return match failure.kind {
            FailureKind::NotFound => NOT_FOUND,
            FailureKind::NotExecutable => NOT_EXECUTABLE,
            FailureKind::WorkingDirectory => WORKING_DIRECTORY,
            FailureKind::NoSandbox => NO_SANDBOX,
            FailureKind::SupervisorLost => LOST,
            FailureKind::LimitExceeded => LIMIT,
            FailureKind::Denied | FailureKind::System => OTHER,
        };
    }
    result.exit.map_or(OTHER, |exit| exit.shell_status())
}

/// The status that stands for several hosts, of those that failed: theirs if
/// they agree.
pub(crate) fn of_hosts(failed: &[u8]) -> u8 {
    match failed {
        [] => 0,
        [first, others @ ..] if others.iter().all(|other| other == first) => *first,
        _ => NO_TOOLSRV,
    }
}

/// The status that stands for a signal.
pub(crate) fn of_wish(wish: Wish) -> u8 {
    match wish {
        Wish::Interrupt => INTERRUPTED,
        Wish::Terminate | Wish::HangUp => TERMINATED,
    }
}

/// The status that stands for how a turn ended.
pub(crate) fn of_turn(end: TurnEnd) -> u8 {
    match end {
        TurnEnd::Done => 0,
        TurnEnd::Stopped => INTERRUPTED,
        TurnEnd::Failed | TurnEnd::Limit => TURN_FAILED,
    }
}

/// Prints an error of ours and gives the status that stands for it.
pub(crate) fn failed(error: &Error) -> ExitCode {
    if let Error::Output(source) = error
        && source.kind() == std::io::ErrorKind::BrokenPipe
    {
        // As if SIGPIPE had its way: whoever has closed it knows.
        return ExitCode::from(BROKEN_PIPE);
    }
    crate::output::complain(&printable(&error.chain()));
    ExitCode::from(of_error(error))
}

/// The status that stands for an error of ours.
pub(crate) fn of_error(error: &Error) -> u8 {
    match error {
        Error::Usage(_) => USAGE,
        Error::Policy(_)
        | Error::PolicyFile { .. }
        | Error::Ruling(ollie_client::Error::Refused(_)) => POLICY,
        Error::Deploy(ollie_deploy::Error::Connect(error))
        | Error::Toolsrv(error)
        | Error::Ruling(error) => of_client(error),
        Error::Deploy(error) => of_deploy(error),
        Error::Silent { .. } | Error::NoSession(_) => LOST,
        Error::NoLease(_) => REFUSED,
        Error::NoBundle(_) | Error::NoHome(_) | Error::WrongBuild { .. } => NO_TOOLSRV,
        Error::Config { .. } | Error::ConfigFile { .. } | Error::Tools(_) => CONFIG,
        Error::NoBackend | Error::Backend { .. } => CONFIG,
        Error::Running(_) | Error::NotRunning | Error::Stranger { .. } => DAEMON,
        Error::SessionGone => LOST,
        Error::Daemon(ninep_rs::Error::Remote(_))
        | Error::NoFile(_)
        | Error::UnknownSession { .. } => REFUSED,
        Error::Daemon(_) => LOST,
        Error::Sessions(_) => OTHER,
        Error::Runtime(_) | Error::Unfinished(_) | Error::Output(_) | Error::Io { .. } => OTHER,
    }
}

fn of_deploy(error: &ollie_deploy::Error) -> u8 {
    use ollie_deploy::{Error as Deploy, SshFailure};
    match error {
        Deploy::Target { .. } => USAGE,
        Deploy::Refused { kind, .. } => match kind {
            Obstacle::WorkingDirectory => WORKING_DIRECTORY,
            Obstacle::Policy => POLICY,
            Obstacle::Other => NO_TOOLSRV,
        },
        Deploy::Ssh { failure, .. } => match failure {
            SshFailure::Authentication | SshFailure::HostKey => NOT_LET_IN,
            _ => UNREACHABLE,
        },
        Deploy::Unknown(_) | Deploy::Gone(_) | Deploy::Silent(_) => LOST,
        Deploy::NeverStarted => OTHER,
        Deploy::Followed(_) => REFUSED,
        Deploy::Call(error) | Deploy::Connect(error) => of_client(error),
        Deploy::Prepare(error) => error.downcast_ref().map_or(NO_TOOLSRV, of_error),
        Deploy::Final(error) => of_deploy(error),
        Deploy::NoAnswer { .. } | Deploy::Forward { .. } => UNREACHABLE,
        Deploy::Platform { .. }
        | Deploy::Lacks { .. }
        | Deploy::NoRoot { .. }
        | Deploy::Transfer { .. } => NO_PLACE,
        _ => NO_TOOLSRV,
    }
}

fn of_client(error: &ollie_client::Error) -> u8 {
    use ollie_client::Error as Client;
    match error {
        Client::Refused(text) if text.starts_with("no call is run without a sandbox") => NO_SANDBOX,
        Client::Refused(_) => REFUSED,
        Client::Impostor | Client::NotAccepted(_) => NOT_AUTHENTICATED,
        Client::Lost(_) => LOST,
        _ => OTHER,
    }
}
