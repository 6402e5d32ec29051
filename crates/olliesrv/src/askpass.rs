//! Passwords and passphrases for ssh, asked on the person's own terminal.
//!
//! ssh runs in a process group of the background, where a program that reads
//! the terminal is stopped. So ssh calls this program again (SSH_ASKPASS of
//! ssh(1)), which passes the question on to the first one, which may ask. A
//! file is not involved, and without a terminal nobody is asked.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use ollie_deploy::{Askpass, Sockets};
use rustix::fs::OFlags;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::floor::Floor;
use crate::printable::printable;

/// The variable that makes this program ask: the socket of the first one.
pub(crate) const VARIABLE: &str = "OLLIE_ASKPASS";
/// Says what kind of question it is (ssh(1)): `none` wants no answer.
const KIND: &str = "SSH_ASKPASS_PROMPT";
/// The longest question, in bytes.
const QUESTION_MAX: u64 = 4096;
/// The socket's name.
const ASK: &str = "ask";
/// Ends a question, which is an argument and has none inside.
const END: u8 = 0;
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
        Self::on(runtime, Arc::default())
    }

    /// One that asks only when `floor` has room for it.
    pub(crate) fn on(runtime: &Path, floor: Arc<Floor>) -> Result<Option<Self>, Error> {
        let mut options = File::options();
        options.read(true).write(true);
        let (Ok(shown), Ok(typed)) = (
            options.open("/dev/tty"),
            // An open file of its own: nobody else's reads change.
            options
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open("/dev/tty"),
        ) else {
            return Ok(None);
        };
        let failed = |source| Error::Io {
            action: "make a place for ssh's questions",
            source,
        };
        let program = std::env::current_exe().map_err(failed)?;
        let sockets = Sockets::make(runtime)?;
        let listener = UnixListener::bind(sockets.path(ASK)).map_err(failed)?;
        // tokio waits for any file that poll(2) takes, and calls it a pipe.
        let typed = Receiver::from_file_unchecked(typed).map_err(failed)?;
        let answering = tokio::spawn(answer_all(listener, shown, typed, floor));
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
async fn answer_all(listener: UnixListener, shown: File, typed: Receiver, floor: Arc<Floor>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Who asked and has gone is nobody's concern.
        let _ = answer(stream, &shown, &typed, &floor).await;
    }
}

async fn answer(
    stream: UnixStream,
    mut shown: &File,
    typed: &Receiver,
    floor: &Floor,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader.take(QUESTION_MAX));
    let mut question = Vec::new();
    reader.read_until(END, &mut question).await?;
    let question = question.strip_suffix(&[END]).unwrap_or(&question);
    let (kind, question) = question.split_first().ok_or(io::ErrorKind::InvalidData)?;
    let question = printable(&String::from_utf8_lossy(question));
    let mut last = [0];
    let gone = reader.read(&mut last);
    let mut over = pin!(async {
        tokio::select! {
            _ = gone => {}
            () = floor.closed() => {}
        }
    });
    let _taken = tokio::select! {
        biased;
        () = &mut over => return Ok(()),
        taken = floor.take() => taken,
    };
    if *kind == b'n' {
        return writeln!(shown, "{question}");
    }
    // A host key is confirmed by a word that may be seen.
    let mut asking = Asking::new(shown, !question.contains("(yes/no"))?;
    shown.write_all(question.as_bytes())?;
    let line = tokio::select! {
        biased;
        () = &mut over => None,
        line = read_line(typed) => Some(line?),
    };
    let Some(line) = line else {
        shown.write_all(b"\n")?;
        return Ok(());
    };
    asking.answered = true;
    if asking.hidden {
        shown.write_all(b"\n")?;
    }
    drop(asking);
    writer.write_all(&line).await
}

/// The next line. Whoever drops this has read nothing: a terminal gives a line
/// at a time.
async fn read_line(typed: &Receiver) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(ANSWER_MAX));
    loop {
        let mut buffer = Zeroizing::new([0; 256]);
        typed.readable().await?;
        let read = match typed.try_read(&mut *buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        line.extend_from_slice(&buffer[..read]);
        if read == 0 || line.ends_with(b"\n") || line.len() + buffer.len() > ANSWER_MAX {
            return Ok(line);
        }
    }
}

/// The terminal as a question has it. What was typed before is no answer to
/// it, and what is typed behind one that is given up is none to anything else.
struct Asking {
    /// How the terminal was. It is so again when this is dropped.
    before: Restored,
    hidden: bool,
    answered: bool,
}

impl Asking {
    fn new(terminal: &File, hidden: bool) -> io::Result<Self> {
        let before = Restored::new(terminal)?;
        let mut modes = before.modes.clone();
        modes.local_modes.set(LocalModes::ECHO, !hidden);
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self {
            before,
            hidden,
            answered: false,
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.answered {
            let _ = tcflush(&self.before.terminal, QueueSelector::IFlush);
        }
    }
}

/// A terminal that is as it was when this is dropped.
#[derive(Debug)]
pub(crate) struct Restored {
    terminal: OwnedFd,
    modes: Termios,
}

impl Restored {
    pub(crate) fn new(terminal: impl AsFd) -> io::Result<Self> {
        let terminal = terminal.as_fd();
        Ok(Self {
            modes: tcgetattr(terminal)?,
            terminal: terminal.try_clone_to_owned()?,
        })
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.modes);
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
        // Its end, and not the stream's: that says that nobody waits.
        stream.write_all(&[END])?;
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
