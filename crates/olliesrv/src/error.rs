use std::path::PathBuf;

/// Why a command of this program could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The asynchronous runtime could not be made.
    #[error("cannot make a runtime")]
    Runtime(#[source] std::io::Error),
    /// The work on one host of several broke off; a defect of ours.
    #[error("the work on this host broke off")]
    Unfinished(#[source] tokio::task::JoinError),
    /// An argument that clap could not judge.
    #[error("{0}")]
    Usage(String),
    /// Neither HOME nor the variable that would replace it is set.
    #[error("cannot tell where the {0} directory is: set HOME")]
    NoHome(&'static str),
    /// There is no bundle with a toolsrv.
    #[error(
        "no bundle with a toolsrv was found (looked at {}); build one with `cargo xtask build`, \
         or name it with --bundle",
        list(.0)
    )]
    NoBundle(Vec<PathBuf>),
    /// A policy file could not be used.
    #[error("policy")]
    Policy(#[source] ollie_sandbox::Error),
    /// toolsrv would not carry out what was decided about the project's policy
    /// file.
    #[error("the project's policy file")]
    Ruling(#[source] ollie_client::Error),
    /// The user's policy file could not be read.
    #[error("cannot read {path:?}")]
    PolicyFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The configuration file could not be read.
    #[error("cannot read {path:?}")]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The configuration cannot be used as it is.
    #[error("{path:?}: {problem}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
    /// The directory of the user's tools cannot be read.
    #[error("the user's tools")]
    Tools(#[source] ollie_catalogue::Error),
    /// What runs is not what was started.
    #[error("the running toolsrv is {found}, and {expected} was started")]
    WrongBuild {
        /// SHA-256 of what was started.
        expected: String,
        /// SHA-256 it gives of itself.
        found: String,
    },
    /// Nothing was heard from the host although it was asked.
    #[error("the host was silent for {seconds} s; the outcome of the call is unknown")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// The host does not let a session live on.
    #[error("{0}; nothing was run")]
    NoLease(String),
    /// There is no such session to go on with.
    #[error("no session {0:?} lives on; `olliesrv reattach` lists those that do")]
    NoSession(String),
    /// There is no ready toolsrv.
    #[error(transparent)]
    Deploy(#[from] ollie_deploy::Error),
    /// toolsrv would not do something, or is gone.
    #[error(transparent)]
    Toolsrv(#[from] ollie_client::Error),
    /// No back end was named, and none is the default.
    #[error(
        "no model back end: name one with --backend, or write `backend: NAME` into config.yaml; a \
         first try without a key is --backend replay:FILE"
    )]
    NoBackend,
    /// A back end cannot be used.
    #[error("back end {name}: {problem}")]
    Backend {
        /// Its name.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Sessions could not be kept or made.
    #[error(transparent)]
    Sessions(ollie_sessions::Error),
    /// Another daemon serves.
    #[error("another olliesrv serves on {0:?}: end it first")]
    Running(PathBuf),
    /// Somebody else serves where our daemon would.
    #[error(
        "{socket:?} is served by user {uid}, who is not you: set XDG_RUNTIME_DIR to a directory of yours"
    )]
    Stranger {
        /// Where.
        socket: PathBuf,
        /// Who.
        uid: u32,
    },
    /// No daemon serves.
    #[error("no olliesrv serves: start one with `olliesrv serve`")]
    NotRunning,
    /// The daemon would not do something, or is gone. A chat may have no
    /// daemon, so only what befalls one names it.
    #[error("{}", from_daemon(.0))]
    Daemon(#[source] ninep_rs::Error),
    /// A file that the tree of the daemon does not have.
    #[error("there is no {0:?} in the tree of sessions")]
    NoFile(String),
    /// A session that the daemon does not have.
    #[error("there is no session {session:?}; there {}", listed(there))]
    UnknownSession {
        /// Its name.
        session: String,
        /// Those that it has.
        there: Vec<String>,
    },
    /// The session ended.
    #[error("the session is gone")]
    SessionGone,
    /// Nothing more can be printed.
    #[error("cannot write to standard output")]
    Output(#[source] std::io::Error),
    /// A file of ours on this machine.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// The message with all its causes, on one line.
    pub(crate) fn chain(&self) -> String {
        ollie_protocol::chain(self)
    }
}

fn from_daemon(error: &ninep_rs::Error) -> String {
    match error {
        ninep_rs::Error::Remote(refused) => refused.clone(),
        other => format!("the daemon: {other}"),
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "is none".to_owned(),
        [one] => format!("is {one}"),
        names => format!("are {}", names.join(", ")),
    }
}

fn list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}
