//! `olliesrv session`: sessions of the running daemon.

use ninep_rs::{Handle, OpenMode};
use serde_json::Value;

use crate::daemon::Daemon;
use crate::error::Error;
use crate::events::Events;
use crate::options::{NewSessionOptions, SessionCommand};
use crate::pieces::Pieces;
use crate::printable::printable;
use crate::{exit, output};

/// Does one command.
pub(crate) async fn run(command: &SessionCommand) -> Result<u8, Error> {
    let daemon = Daemon::running().await?;
    match order(&daemon, command).await {
        Err(Error::NoFile(path)) => Err(no_session(&daemon, &path).await),
        outcome => outcome,
    }
}

/// What is said where a session is not there: which ones are.
pub(crate) async fn no_session(daemon: &Daemon, path: &str) -> Error {
    let named = path.strip_prefix("session/").unwrap_or(path);
    let session = named.split('/').next().unwrap_or(named).to_owned();
    let index = daemon.text("session/idx").await.unwrap_or_default();
    let names = index.lines().filter_map(|line| line.split('\t').next());
    Error::UnknownSession {
        session,
        there: names.map(str::to_owned).collect(),
    }
}

async fn order(daemon: &Daemon, command: &SessionCommand) -> Result<u8, Error> {
    match command {
        SessionCommand::New(options) => {
            let name = daemon.make(settings(options)?).await?;
            output::print(&format!("{name}\n"))?;
        }
        SessionCommand::Ls { json } => list(daemon, *json).await?,
        SessionCommand::Send {
            session,
            prompt,
            wait,
        } => {
            return send(daemon, session, prompt, *wait).await;
        }
        SessionCommand::Tail {
            session,
            from_start,
        } => {
            let path = format!("session/{session}/chat");
            let file = daemon.open(&path, OpenMode::READ).await?;
            let length = file.stat().await.map_err(Error::Daemon)?.length;
            follow(daemon, &file, if *from_start { 0 } else { length }).await?;
        }
        SessionCommand::Stop { session } => {
            daemon
                .write(&format!("session/{session}/ctl"), "stop".into())
                .await?;
        }
        SessionCommand::Rm { sessions } => {
            return remove(daemon, sessions).await;
        }
    }
    Ok(0)
}

/// Removes each, also after one that could not be; the first error's status.
async fn remove(daemon: &Daemon, sessions: &[String]) -> Result<u8, Error> {
    let mut status = 0;
    for session in sessions {
        let path = format!("session/{session}");
        let removed = match daemon.walk(&path).await {
            Ok(directory) => directory.remove().await.map_err(Error::Daemon),
            Err(Error::NoFile(path)) => Err(no_session(daemon, &path).await),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            output::complain(&printable(&error.chain()));
            status = if status == 0 {
                exit::of_error(&error)
            } else {
                status
            };
        }
    }
    Ok(status)
}

/// What `session/new` is told.
pub(crate) fn settings(options: &NewSessionOptions) -> Result<String, Error> {
    let path = |path: &std::path::Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::Usage(format!("--cwd {path:?}: a session's directory is UTF-8")))
    };
    let cwd = match (&options.cwd, &options.remote) {
        (Some(cwd), Some(_)) => Some(path(cwd)?),
        (Some(cwd), None) => Some(path(&std::path::absolute(cwd).map_err(no_directory)?)?),
        (None, Some(_)) => None,
        (None, None) => Some(path(&std::env::current_dir().map_err(no_directory)?)?),
    };
    // The daemon works elsewhere.
    let backend = match options.backend.as_deref().map(|name| name.split_once(':')) {
        Some(Some(("replay", file))) => {
            let file = std::path::absolute(file).map_err(no_directory)?;
            Some(format!("replay:{}", file.display()))
        }
        _ => options.backend.clone(),
    };
    let yolo = options.yolo.then(|| "true".to_owned());
    let pairs = [
        ("name", &options.name),
        ("cwd", &cwd),
        ("backend", &backend),
        ("model", &options.model),
        ("agent", &options.agent),
        ("remote", &options.remote),
        ("sandbox", &options.profile),
        ("transport", &options.transport),
        ("trust", &options.trust_project),
        ("yolo", &yolo),
    ];
    let said = pairs
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_ref()?)));
    Ok(said
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect())
}

fn no_directory(source: std::io::Error) -> Error {
    Error::Io {
        action: "find the working directory",
        source,
    }
}

async fn list(daemon: &Daemon, json: bool) -> Result<(), Error> {
    let index = daemon.text("session/idx").await?;
    if !json {
        return output::print(&printable(&index));
    }
    let names = ["name", "state", "cwd", "backend", "model", "remote"];
    let record = |line: &str| -> Value {
        let fields = names.into_iter().zip(line.split('\t'));
        fields
            .map(|(name, field)| (name.to_owned(), Value::from(field)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let records: Vec<_> = index.lines().map(record).collect();
    output::print(&format!("{:#}\n", Value::Array(records)))
}

/// Submits a prompt; with `wait`, prints the chat until the turn is over.
async fn send(daemon: &Daemon, session: &str, prompt: &[String], wait: bool) -> Result<u8, Error> {
    let prompt = match prompt {
        [] => crate::fs::input()?,
        words => words.join(" ").into(),
    };
    let text = String::from_utf8_lossy(&prompt).into_owned();
    if text.trim().is_empty() {
        return Err(Error::Usage(
            "there is no prompt: give one behind the session's name, or on standard input"
                .to_owned(),
        ));
    }
    let path = |file: &str| format!("session/{session}/{file}");
    // Opened before the prompt, so that nothing of its turn is missed.
    let mut events = Events::from_now(daemon, session).await?;
    let chat = daemon.open(&path("chat"), OpenMode::READ).await?;
    let mut at = chat.stat().await.map_err(Error::Daemon)?.length;
    daemon.write(&path("prompt"), prompt).await?;
    if !wait {
        return Ok(0);
    }
    let mut pieces = Pieces::default();
    let mut ending = std::pin::pin!(events.end_of(&text));
    let outcome = loop {
        tokio::select! {
            outcome = &mut ending => break outcome?,
            piece = chat.read(at, daemon.max_data()) => {
                show(&mut pieces, &piece.map_err(Error::Daemon)?, &mut at)?;
            }
        }
    };
    let length = chat.stat().await.map_err(Error::Daemon)?.length;
    while at < length {
        let piece = chat.read(at, daemon.max_data()).await;
        show(&mut pieces, &piece.map_err(Error::Daemon)?, &mut at)?;
    }
    Ok(exit::of_turn(outcome))
}

fn show(pieces: &mut Pieces, piece: &[u8], at: &mut u64) -> Result<(), Error> {
    if piece.is_empty() {
        return Err(Error::SessionGone);
    }
    *at += piece.len() as u64;
    output::print(&printable(&pieces.push(piece)))
}

/// Prints a log from `at` on, until it ends.
async fn follow(daemon: &Daemon, file: &Handle, mut at: u64) -> Result<(), Error> {
    let mut pieces = Pieces::default();
    loop {
        let piece = file.read(at, daemon.max_data()).await;
        let piece = piece.map_err(Error::Daemon)?;
        if piece.is_empty() {
            return Ok(());
        }
        show(&mut pieces, &piece, &mut at)?;
    }
}
