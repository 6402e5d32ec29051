//! Lines that a person or a pipe gives, read on a thread of its own.

use std::io::{BufRead as _, ErrorKind, IsTerminal as _};
use std::path::{Path, PathBuf};

use rustix::stdio::stdin;
use rustix::termios::{QueueSelector, tcflush};
use rustyline::error::{ReadlineError, Signal};
use rustyline::history::{FileHistory, History as _};
use rustyline::{Config, Editor};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::signals::Wish;

/// The longest line of a pipe, bytes.
const LINE_MAX: u64 = 16 * 1024 * 1024;
/// Lines that are remembered.
const HISTORY_MAX: usize = 1000;

/// Whether a person is there, to be shown things and to answer.
pub(crate) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// What was given.
#[derive(Debug)]
pub(crate) enum Line {
    /// A line, without its end.
    Text(String),
    /// One that is not UTF-8 text.
    NotText,
    /// There are no more.
    End,
    /// Instead of it came a signal, or the key that stands for one.
    Wish(Wish),
}

/// Lines, one each time it is asked for: meanwhile nobody reads.
#[derive(Debug)]
pub(crate) struct Lines {
    ask: std::sync::mpsc::Sender<()>,
    given: mpsc::Receiver<Result<Line, Error>>,
    asked: bool,
}

impl Lines {
    /// On a terminal with a line editor, whose history is kept in `state`.
    pub(crate) fn start(state: &Path) -> Result<Self, Error> {
        let (ask, asked) = std::sync::mpsc::channel();
        let (give, given) = mpsc::channel(1);
        if is_terminal() {
            let mut editor = Person::new(state)?;
            std::thread::spawn(move || {
                while asked.recv().is_ok() {
                    if give.blocking_send(editor.line()).is_err() {
                        return;
                    }
                }
            });
        } else {
            std::thread::spawn(move || {
                while asked.recv().is_ok() {
                    if give.blocking_send(piped()).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            ask,
            given,
            asked: false,
        })
    }

    /// The next line. If this is dropped while it waits, the next call gets
    /// the line.
    pub(crate) async fn next(&mut self) -> Result<Line, Error> {
        if !self.asked {
            self.asked = self.ask.send(()).is_ok();
        }
        let line = self.given.recv().await.unwrap_or(Ok(Line::End));
        self.asked = false;
        line
    }
}

/// A line of a pipe.
fn piped() -> Result<Line, Error> {
    let mut line = Vec::new();
    let mut input = std::io::Read::take(std::io::stdin().lock(), LINE_MAX);
    let read = input.read_until(b'\n', &mut line).map_err(failed)?;
    if read == 0 {
        return Ok(Line::End);
    }
    if line.ends_with(b"\n") {
        line.pop();
    }
    String::from_utf8(line)
        .map(Line::Text)
        .map_err(|_| Error::Usage("standard input is not UTF-8 text".to_owned()))
}

/// A person at a terminal.
struct Person {
    config: Config,
    /// Between two lines; an editor has it meanwhile.
    history: FileHistory,
    file: PathBuf,
}

impl Person {
    fn new(state: &Path) -> Result<Self, Error> {
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)
            .map_err(|error| broken(&error))?
            .auto_add_history(true)
            .build();
        let mut history = FileHistory::with_config(&config);
        let file = state.join("chat_history");
        // There is none yet, the first time.
        let _ = history.load(&file);
        Ok(Self {
            config,
            history,
            file,
        })
    }

    /// One line, by an editor that lives no longer: as long as there is one,
    /// SIGINT is its own (sigaction(2)), and Ctrl-C could stop no turn.
    fn line(&mut self) -> Result<Line, Error> {
        let history = std::mem::take(&mut self.history);
        let mut editor = Editor::<(), _>::with_history(self.config.clone(), history)
            .map_err(|error| broken(&error))?;
        let line = match editor.readline("> ") {
            Ok(text) => Ok(Line::Text(text)),
            // As a key, or as a signal where the terminal was not ours yet.
            Err(ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt)) => {
                Ok(Line::Wish(Wish::Interrupt))
            }
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                // The rest of it is no line either.
                let _ = tcflush(stdin(), QueueSelector::IFlush);
                Ok(Line::NotText)
            }
            Err(error) => Err(broken(&error)),
        };
        let _ = editor.append_history(&self.file);
        self.history = std::mem::take(editor.history_mut());
        line
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Io {
        action: "read standard input",
        source,
    }
}

fn broken(error: &ReadlineError) -> Error {
    failed(std::io::Error::other(error.to_string()))
}
