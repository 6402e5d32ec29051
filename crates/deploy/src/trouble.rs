//! What the end of an ssh means.

use std::process::ExitStatus;

use crate::ssh::Ssh;
use crate::{Error, Packing, Remote, SshFailure};

/// Why an attempt failed, and whether another one may go better.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It would fail again.
    Final(Error),
    /// This ssh does not know the newest options.
    OldSsh(Error),
    /// The login shell may not be replaced.
    Restricted(Error),
    /// sshd takes no more connections just now.
    Busy(Error),
    /// The shared connection was of no use.
    Lane(Error),
    /// It did not arrive well; this packing is left to try.
    Packing { packing: Packing, error: Error },
    /// Something is wrong with this root of the host.
    Root { root: String, error: Error },
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Trouble {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Final(error)
            | Self::OldSsh(error)
            | Self::Restricted(error)
            | Self::Busy(error)
            | Self::Lane(error)
            | Self::Packing { error, .. }
            | Self::Root { error, .. } => error,
        }
    }
}

/// The trouble of an ssh whose stream gave `problem` instead of an answer.
pub(crate) async fn of_ssh(remote: &Remote, ssh: &mut Ssh, problem: String) -> Trouble {
    let (status, said) = ssh.last_words().await;
    of_words(remote, status, &said, problem)
}

/// What may be wrong with a shared connection when its first answer does not
/// come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneTrouble {
    /// sshd takes no further session (MaxSessions of sshd_config(5)).
    Full,
    /// The master does not answer, or has ended.
    Dead,
}

/// The trouble of a session that has heard nothing yet on a shared connection.
pub(crate) async fn of_lane(
    remote: &Remote,
    ssh: &mut Ssh,
    problem: String,
) -> (Trouble, Option<LaneTrouble>) {
    let (status, said) = ssh.last_words().await;
    let found = match status.map(|status| status.code()) {
        _ if said.contains("session request failed") => LaneTrouble::Full,
        None | Some(Some(255)) => LaneTrouble::Dead,
        // It came from there.
        Some(_) => return (of_words(remote, status, &said, problem), None),
    };
    let error = of_words(remote, status, &said, problem).into_error();
    (Trouble::Lane(error), Some(found))
}

fn of_words(remote: &Remote, status: Option<ExitStatus>, said: &str, problem: String) -> Trouble {
    // 255 is ssh's own status (ssh(1)); any other comes from there.
    let own = status.is_some_and(|status| status.code() == Some(255));
    let (failure, found) = classify(said);
    if own {
        let error = Error::Ssh {
            target: remote.target.to_string(),
            failure,
            said: shown(said),
        };
        return match found {
            Found::OldSsh => Trouble::OldSsh(error),
            Found::Busy => Trouble::Busy(error),
            Found::Other => Trouble::Final(error),
        };
    }
    let error = Error::NoAnswer {
        target: remote.target.to_string(),
        problem: with_status(problem, status, said),
    };
    // The word of bash, ksh and zsh, which may be translated; then the person
    // sees it.
    match said.contains("exec: restricted") {
        true => Trouble::Restricted(error),
        false => Trouble::Final(error),
    }
}

enum Found {
    OldSsh,
    Busy,
    Other,
}

/// The words are those of OpenSSH, which are not translated. They decide what
/// the person is told and whether it is tried again, nothing else.
fn classify(said: &str) -> (SshFailure, Found) {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["Bad configuration option"]) {
        (SshFailure::Other, Found::OldSsh)
    } else if has(&[
        "Host key verification failed",
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
    ]) {
        (SshFailure::HostKey, Found::Other)
    } else if has(&["Permission denied", "Too many authentication failures"]) {
        (SshFailure::Authentication, Found::Other)
    } else if has(&[
        "kex_exchange_identification",
        "Exceeded MaxStartups",
        "banner exchange",
    ]) {
        (SshFailure::Unreachable, Found::Busy)
    } else if has(&[
        "Could not resolve hostname",
        "connect to host",
        "Connection timed out",
        "Connection refused",
        "Connection closed",
        "Connection reset",
        "No route to host",
    ]) {
        (SshFailure::Unreachable, Found::Other)
    } else {
        (SshFailure::Other, Found::Other)
    }
}

pub(crate) fn with_status(problem: String, status: Option<ExitStatus>, said: &str) -> String {
    let mut text = problem;
    if let Some(status) = status {
        text.push_str(&format!("; its login shell ended with {status}"));
    }
    if !said.is_empty() {
        text.push_str(&format!("; on standard error: {:?}", shown(said)));
    }
    text
}

/// The last lines, which are the ones that say why.
fn shown(said: &str) -> String {
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(6)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_openssh_are_told_apart() {
        for (said, expected) in [
            (
                "ssh: Could not resolve hostname x: Name or service not known",
                SshFailure::Unreachable,
            ),
            (
                "ssh: connect to host x port 22: Connection refused",
                SshFailure::Unreachable,
            ),
            (
                "me@x: Permission denied (publickey).",
                SshFailure::Authentication,
            ),
            ("Host key verification failed.", SshFailure::HostKey),
            ("something else", SshFailure::Other),
        ] {
            assert_eq!(classify(said).0, expected, "{said}");
        }
    }

    #[test]
    fn a_busy_sshd_and_an_old_ssh_are_tried_again() {
        let busy = "kex_exchange_identification: Connection closed by remote host";
        assert!(matches!(classify(busy).1, Found::Busy));
        let old = "command-line: line 0: Bad configuration option: sessiontype";
        assert!(matches!(classify(old).1, Found::OldSsh));
    }
}
