use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::{Connections, Target};

/// A host that ssh reaches, and how to go there.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Remote {
    /// Where.
    pub target: Target,
    /// Which way 9P goes. Default: [`Transport::Auto`].
    pub transport: Transport,
    /// The ssh program. Default: `ssh`, as found on PATH.
    pub ssh: PathBuf,
    /// How long the connection may take (ConnectTimeout of ssh_config(5)).
    /// Default: 15 s.
    pub connect_timeout: Duration,
    /// How long the host may take from the start of ssh to its first answer,
    /// passwords that a person types included. Default: 60 s.
    pub answer_timeout: Duration,
    /// A program that asks a person for passwords and passphrases
    /// (SSH_ASKPASS of ssh(1)). Default: none, and nobody is asked
    /// (BatchMode of ssh_config(5)).
    pub askpass: Option<Askpass>,
    /// Variables of this process that ssh does not get: a SendEnv with a
    /// generous pattern (ssh_config(5)) would carry them to the host. Default:
    /// none.
    pub withheld: Vec<OsString>,
    /// A directory of this machine for sockets, with a short path that nobody
    /// else can write to. [`Transport::Forward`] needs it. Default: none.
    pub runtime: Option<PathBuf>,
    /// A directory of this machine where compressed toolsrvs are kept between
    /// uploads. Default: none, they are compressed each time.
    pub packed: Option<PathBuf>,
    /// Connections that sessions share. [`Transport::Forward`] uses none of
    /// them. Default: none, each session has its own.
    pub connections: Option<Arc<Connections>>,
}

/// Who asks for passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Askpass {
    /// The program.
    pub program: PathBuf,
    /// A variable for its environment.
    pub variable: (String, String),
}

/// Which way the session's 9P goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// What is best: today the exec channel, which always works and costs
    /// nothing more.
    #[default]
    Auto,
    /// Standard input and output of the one remote command.
    Stdio,
    /// toolsrv's Unix socket, forwarded (`ssh -L`). Fails where sshd forbids
    /// it.
    Forward,
}

impl Remote {
    /// A host with the defaults.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            transport: Transport::default(),
            ssh: "ssh".into(),
            connect_timeout: Duration::from_secs(15),
            answer_timeout: Duration::from_secs(60),
            askpass: None,
            withheld: Vec::new(),
            runtime: None,
            packed: None,
            connections: None,
        }
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Stdio => "stdio",
            Self::Forward => "forward",
        })
    }
}

impl std::str::FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "stdio" => Ok(Self::Stdio),
            "forward" => Ok(Self::Forward),
            _ => Err(format!("{text:?}: expected auto, stdio or forward")),
        }
    }
}
