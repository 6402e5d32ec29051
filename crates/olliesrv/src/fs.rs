//! `olliesrv fs`: the tree of the running daemon from a shell.

use std::io::{IsTerminal as _, Read as _};

use bytes::Bytes;
use ninep_rs::{OpenMode, Stat};

use crate::daemon::Daemon;
use crate::error::Error;
use crate::options::FsCommand;
use crate::output;
use crate::pieces::Pieces;
use crate::printable::printable;

/// The most that is taken from standard input.
const INPUT_MAX: u64 = 16 * 1024 * 1024;

/// Does one command.
pub(crate) async fn run(command: &FsCommand) -> Result<u8, Error> {
    let daemon = Daemon::running().await?;
    match command {
        FsCommand::Ls { path, long } => list(&daemon, path.as_deref().unwrap_or(""), *long).await?,
        FsCommand::Read { path } => read(&daemon, path).await?,
        FsCommand::Write { path, text } => write(&daemon, path, text.as_deref()).await?,
        FsCommand::Tail { path, from_start } => tail(&daemon, path, *from_start).await?,
        FsCommand::Stat { path } => {
            let stat = daemon.stat(path).await?;
            output::print(&printable(&format!("{stat}\n")))?;
        }
        FsCommand::Rm { path } => {
            let file = daemon.walk(path).await?;
            file.remove().await.map_err(Error::Daemon)?;
        }
        FsCommand::Mv { path, name } => {
            let file = daemon.walk(path).await?;
            let mut change = Stat::untouched();
            change.name.clone_from(name);
            file.wstat(change).await.map_err(Error::Daemon)?;
        }
    }
    Ok(0)
}

async fn read(daemon: &Daemon, path: &str) -> Result<(), Error> {
    if daemon.stat(path).await?.mode & Stat::DIR != 0 {
        return Err(Error::Usage(format!(
            "{path:?} is a directory: list it with `olliesrv fs ls {path}`"
        )));
    }
    Shown::new().add(&daemon.read(path).await?)
}

/// A file's bytes on standard output: as they are, but a terminal does not get
/// what would steer it.
struct Shown {
    terminal: bool,
    pieces: Pieces,
}

impl Shown {
    fn new() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            pieces: Pieces::default(),
        }
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), Error> {
        if self.terminal {
            output::print(&printable(&self.pieces.push(piece)))
        } else {
            output::print_bytes(piece)
        }
    }
}

async fn list(daemon: &Daemon, path: &str, long: bool) -> Result<(), Error> {
    let stat = daemon.stat(path).await?;
    let mut entries = if stat.mode & Stat::DIR == 0 {
        vec![stat]
    } else {
        let directory = daemon.open(path, OpenMode::READ).await?;
        directory.read_directory().await.map_err(Error::Daemon)?
    };
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let text: String = entries.iter().map(|entry| line(entry, long)).collect();
    output::print(&printable(&text))
}

fn line(entry: &Stat, long: bool) -> String {
    let directory = entry.mode & Stat::DIR != 0;
    let slash = if directory { "/" } else { "" };
    if !long {
        return format!("{}{slash}\n", entry.name);
    }
    let kind = match (directory, entry.mode & Stat::APPEND != 0) {
        (true, _) => 'd',
        (false, true) => 'a',
        (false, false) => '-',
    };
    let bits: String = (0..9)
        .rev()
        .zip("rwxrwxrwx".chars())
        .map(|(bit, letter)| {
            if entry.mode >> bit & 1 == 1 {
                letter
            } else {
                '-'
            }
        })
        .collect();
    format!("{kind}{bits} {:>10} {}{slash}\n", entry.length, entry.name)
}

/// Writes, in one piece, and prints what the file answers, if it does.
async fn write(daemon: &Daemon, path: &str, text: Option<&str>) -> Result<(), Error> {
    let data = match text {
        Some(text) => Bytes::from(text.to_owned()),
        None => input()?,
    };
    let stat = daemon.stat(path).await?;
    let answers = path.trim_matches('/') == "session/new" && stat.mode & 0o400 != 0;
    let mode = if answers {
        OpenMode::READ_WRITE
    } else {
        OpenMode::WRITE
    };
    let file = daemon.open(path, mode).await?;
    daemon.send(&file, data).await?;
    if answers {
        let answer = file.read(0, daemon.max_data()).await;
        output::print_bytes(&answer.map_err(Error::Daemon)?)?;
    }
    Ok(())
}

pub(crate) fn input() -> Result<Bytes, Error> {
    let mut data = Vec::new();
    std::io::stdin()
        .take(INPUT_MAX)
        .read_to_end(&mut data)
        .map_err(|source| Error::Io {
            action: "read standard input",
            source,
        })?;
    Ok(data.into())
}

/// Prints what is added, until the file ends or nobody reads any more.
async fn tail(daemon: &Daemon, path: &str, from_start: bool) -> Result<(), Error> {
    let file = daemon.open(path, OpenMode::READ).await?;
    let stat = file.stat().await.map_err(Error::Daemon)?;
    let mut at = if from_start { 0 } else { stat.length };
    let mut shown = Shown::new();
    loop {
        let piece = file
            .read(at, daemon.max_data())
            .await
            .map_err(Error::Daemon)?;
        if piece.is_empty() {
            return Ok(());
        }
        at += piece.len() as u64;
        shown.add(&piece)?;
    }
}
