//! Passwords and passphrases for ssh, asked on the person's own terminal.
//!
//! ssh runs in a process group of the background, where a program that reads
//! the terminal is stopped. So ssh calls this program again (SSH_ASKPASS of
//! ssh(1)), which passes the question on to the first one, which may ask. A
//! file is not involved, and without a terminal nobody is asked.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};

use ollie_deploy::{Askpass, Sockets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::printable::printable;

/// The variable that makes this program ask: the socket of the first one.
pub(crate) const VARIABLE: &str = "OLLIE_ASKPASS";
/// Says what kind of question it is (ssh(1)): `none` wants no answer.
const KIND: &str = "SSH_ASKPASS_PROMPT";
/// The longest question, in bytes.
const QUESTION_MAX: u64 = 4096;
/// The socket's name.
const ASK: &str = "ask";
/// How often a reader looks whether it is still wanted: a tenth of a second.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// The longest answer, in bytes.
const ANSWER_MAX: usize = 1024;

/// Answers the questions of ssh until it is dropped.
#[derive(Debug)]
pub(crate) struct Asker {
    sockets: Sockets,
    answering: JoinHandle<()>,
    program: PathBuf,
}

impl Asker {
    /// One, if there is a terminal to ask on. `runtime` is for its socket.
    pub(crate) fn start(runtime: &Path) -> Result<Option<Self>, Error> {
        let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else {
            return Ok(None);
        };
        let failed = |source| Error::Io {
            action: "make a place for ssh's questions",
            source,
        };
        let program = std::env::current_exe().map_err(failed)?;
        let sockets = Sockets::make(runtime)?;
        let listener = UnixListener::bind(sockets.path(ASK)).map_err(failed)?;
        let answering = tokio::spawn(answer_all(listener, terminal));
        Ok(Some(Self {
            sockets,
            answering,
            program,
        }))
    }

    /// What ssh has to know.
    pub(crate) fn askpass(&self) -> Askpass {
        let socket = self.sockets.path(ASK).display().to_string();
        Askpass {
            program: self.program.clone(),
            variable: (VARIABLE.to_owned(), socket),
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

/// One question at a time: many hosts may ask at once.
async fn answer_all(listener: UnixListener, terminal: File) {
    while let Ok((stream, _)) = listener.accept().await {
        // Who asked and has gone is nobody's concern.
        let _ = answer(stream, &terminal).await;
    }
}

async fn answer(mut stream: UnixStream, mut tty: &File) -> io::Result<()> {
    let mut question = Vec::new();
    (&mut stream)
        .take(QUESTION_MAX)
        .read_to_end(&mut question)
        .await?;
    let (kind, question) = question.split_first().ok_or(io::ErrorKind::InvalidData)?;
    let question = printable(&String::from_utf8_lossy(question));
    tty.write_all(question.as_bytes())?;
    if *kind == b'n' {
        tty.write_all(b"\n")?;
        return Ok(());
    }
    // A host key is confirmed by a word that may be seen.
    let hidden = if question.contains("(yes/no") {
        None
    } else {
        Some(Hidden::new(tty)?)
    };
    let line = read_line(tty.try_clone()?).await;
    if hidden.is_some() {
        tty.write_all(b"\n")?;
    }
    drop(hidden);
    stream.write_all(&zeroize::Zeroizing::new(line?)).await
}

/// Reads a line on a thread, which looks now and then whether anybody still
/// waits for it: a read of the terminal cannot be taken back, and would have
/// the answer to the next question.
async fn read_line(terminal: File) -> io::Result<Vec<u8>> {
    let (line, mut answer) = oneshot::channel();
    std::thread::spawn(move || {
        let read = read_while(terminal, || !line.is_closed());
        let _ = line.send(read);
    });
    (&mut answer)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

fn read_while(mut terminal: File, wanted: impl Fn() -> bool) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(ANSWER_MAX);
    while wanted() {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
        if poll(&mut ready, Some(&LOOK))? == 0 {
            continue;
        }
        // A terminal gives a line at a time.
        let mut buffer = zeroize::Zeroizing::new([0; 256]);
        let read = terminal.read(&mut *buffer)?;
        line.extend_from_slice(&buffer[..read]);
        if read == 0 || line.ends_with(b"\n") || line.len() >= ANSWER_MAX {
            return Ok(line);
        }
    }
    Err(io::ErrorKind::BrokenPipe.into())
}

/// A terminal that does not show what is typed, until this is dropped; also
/// when the question is given up.
struct Hidden {
    terminal: File,
    before: Termios,
}

impl Hidden {
    fn new(terminal: &File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // Not FLUSH: what was typed ahead is the answer.
        tcsetattr(terminal, OptionalActions::Drain, &hidden)?;
        Ok(Self {
            terminal: terminal.as_fd().try_clone_to_owned()?.into(),
            before,
        })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}

/// What this program does when ssh calls it: passes the question on and the
/// answer back. Returns whether there is one.
pub(crate) fn ask(socket: &Path, question: &str, kind: Option<&str>) -> bool {
    let asked = || -> io::Result<Vec<u8>> {
        let mut stream = StdStream::connect(socket)?;
        let silent = kind == Some("none");
        stream.write_all(if silent { b"n" } else { b"?" })?;
        stream.write_all(question.as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    match asked() {
        Ok(answer) if !answer.is_empty() => {
            let answer = zeroize::Zeroizing::new(answer);
            std::io::stdout().write_all(&answer).is_ok()
        }
        _ => false,
    }
}

/// The kind of question that ssh has just now.
pub(crate) fn kind() -> Option<String> {
    std::env::var(KIND).ok()
}
