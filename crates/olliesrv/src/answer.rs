//! An answer that a person types, to a question that may go away meanwhile.

use std::io::{PipeReader, PipeWriter};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::stdin;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::oneshot;

use crate::error::Error;

/// How long a question stands there before an answer to it counts: what is
/// typed sooner was meant for something else.
const READING: Duration = Duration::from_secs(1);
/// The longest line of a terminal, bytes (termios(3), canonical mode).
const LINE: usize = 4096;

/// A question at the terminal. What was typed before it is no answer to it,
/// and what is typed behind it is none to anything else.
#[derive(Debug)]
pub(crate) struct Answer {
    line: oneshot::Receiver<std::io::Result<Vec<u8>>>,
    /// Closing it ends the thread that waits.
    _end: PipeWriter,
}

impl Answer {
    /// Waits until a person can have read something; from then on what is
    /// typed counts.
    pub(crate) async fn await_one() -> Result<Self, Error> {
        tokio::time::sleep(READING).await;
        let (ended, end) = std::io::pipe().map_err(failed)?;
        let (give, line) = oneshot::channel();
        forget();
        std::thread::spawn(move || {
            if let Some(line) = line_unless(&ended) {
                let _ = give.send(line);
            }
        });
        Ok(Self { line, _end: end })
    }

    /// Whether it is a yes: `y` or `yes` and Enter, and nothing else is one.
    /// Nothing is lost if this is dropped while it waits.
    pub(crate) async fn is_yes(&mut self) -> Result<bool, Error> {
        let Ok(line) = (&mut self.line).await else {
            return Ok(false);
        };
        let line = line.map_err(failed)?;
        Ok(means_yes(&line))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        forget();
    }
}

/// The next line of the terminal; none if the question is over before.
fn line_unless(over: &PipeReader) -> Option<std::io::Result<Vec<u8>>> {
    let terminal = stdin();
    loop {
        let mut polled = [
            PollFd::new(&terminal, PollFlags::IN),
            PollFd::new(over, PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Some(Err(errno.into())),
            Ok(_) => {}
        }
        if !polled[1].revents().is_empty() {
            return None;
        }
        if !polled[0].revents().is_empty() {
            let mut line = vec![0; LINE];
            let read = rustix::io::read(terminal, &mut line[..]);
            return Some(read.map_err(Into::into).map(|read| {
                line.truncate(read);
                line
            }));
        }
    }
}

/// Takes what was typed, a line that is not ended included.
fn forget() {
    // A terminal that is gone has nothing to take.
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

/// A line without its end was not confirmed.
fn means_yes(line: &[u8]) -> bool {
    line.strip_suffix(b"\n").is_some_and(|line| {
        let yes = |yes: &&[u8]| line.trim_ascii().eq_ignore_ascii_case(yes);
        [&b"y"[..], b"yes"].iter().any(yes)
    })
}

fn failed(source: std::io::Error) -> Error {
    Error::Io {
        action: "read the answer from the terminal",
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::means_yes;

    #[test]
    fn a_yes_is_ended_by_enter() {
        for yes in ["y\n", "Yes\n", " y \n"] {
            assert!(means_yes(yes.as_bytes()), "{yes:?}");
        }
        for no in ["y", "yes", "", "\n", "n\n", "yy\n", "y y\n"] {
            assert!(!means_yes(no.as_bytes()), "{no:?}");
        }
    }
}
