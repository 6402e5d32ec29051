use std::sync::Arc;
use std::time::Duration;

use ollie_exec::Order;
use ollie_protocol::{CallState, Stream};
use rustix::process::Signal as Number;
use serde::Deserialize;

use super::words;
use crate::call::Call;
use crate::session::Session;

/// How much of its output the end of a process shows.
const SHOWN: usize = 8 * 1024;
/// How long after SIGKILL its end is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// `proc_list`
pub(super) fn list(session: &Session) -> String {
    let mut text = String::new();
    for call in session.calls.all() {
        if call.is_background() {
            text.push_str(&format!(
                "{}: {}: {}\n",
                call.id(),
                words::standing(&call),
                words::command(&call.plan().argv)
            ));
        }
    }
    match text.as_str() {
        "" => "There are no background processes.\n".to_owned(),
        _ => text,
    }
}

fn find(session: &Session, id: &str) -> Result<Arc<Call>, String> {
    session.calls.get(id).ok_or_else(|| {
        let shown: String = id.chars().take(64).collect();
        format!("there is no process {shown:?}, or it ended so long ago that it was forgotten; see proc_list\n")
    })
}

/// `proc_output`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Output {
    id: String,
    stream: Which,
    offset: i64,
    max_bytes: usize,
    wait_s: f64,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Which {
    Output,
    Stdout,
    Stderr,
}

impl Output {
    pub(super) async fn run(self, session: &Session) -> Result<String, String> {
        let call = find(session, &self.id)?;
        let stream = match self.stream {
            Which::Output => None,
            Which::Stdout => Some(Stream::Stdout),
            Which::Stderr => Some(Stream::Stderr),
        };
        let total = || call.with_log(stream, |log| log.total());
        let offset = match u64::try_from(self.offset) {
            Ok(offset) => offset,
            Err(_) => total().saturating_sub(self.offset.unsigned_abs()),
        };
        let more = async {
            loop {
                // Before looking, so that what comes in between is seen.
                let changed = call.changed();
                if total() > offset || call.is_finished() {
                    break;
                }
                changed.await;
            }
        };
        let wait = Duration::try_from_secs_f64(self.wait_s).unwrap_or_default();
        let _ = tokio::time::timeout(wait, more).await;
        let piece = words::piece(&call, stream, offset, self.max_bytes);
        let next = match (piece.to == total(), call.is_finished()) {
            (true, true) => "this is the end".to_owned(),
            _ => format!("go on with offset {}", piece.to),
        };
        Ok(format!(
            "[{}: {}; bytes {} to {} of {}; {next}]\n{}",
            call.id(),
            words::standing(&call),
            piece.from,
            piece.to,
            total(),
            piece.text
        ))
    }
}

/// `proc_signal`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signal {
    id: String,
    signal: Word,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Word {
    End,
    Kill,
    Int,
    Term,
    Hup,
    Quit,
    Usr1,
    Usr2,
    Stop,
    Cont,
}

impl Signal {
    pub(super) async fn run(self, session: &Session) -> Result<String, String> {
        let call = find(session, &self.id)?;
        if call.is_finished() {
            return Ok(format!("{}: {}\n", call.id(), words::standing(&call)));
        }
        let number = match self.signal {
            Word::End => return end(&call, call.grace()).await,
            Word::Kill => return end(&call, Duration::ZERO).await,
            Word::Int => Number::INT,
            Word::Term => Number::TERM,
            Word::Hup => Number::HUP,
            Word::Quit => Number::QUIT,
            Word::Usr1 => Number::USR1,
            Word::Usr2 => Number::USR2,
            Word::Stop => Number::STOP,
            Word::Cont => Number::CONT,
        };
        let Some(control) = call.control() else {
            return Err(format!("{} has no process yet\n", call.id()));
        };
        let sent = control.order(Order::Signal(number.as_raw())).await;
        sent.map_err(|error| format!("{error}\n"))?;
        Ok(format!(
            "sent; {} is {}\n",
            call.id(),
            words::standing(&call)
        ))
    }
}

async fn end(call: &Call, grace: Duration) -> Result<String, String> {
    call.ended().cancelled = true;
    call.end(grace).await;
    let mut phases = call.phases();
    let finished = phases.wait_for(|_| call.is_finished());
    let _ = tokio::time::timeout(grace + PATIENCE, finished).await;
    Ok(format!("{}: {}\n", call.id(), words::standing(call)))
}

/// `proc_wait`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    id: String,
    timeout_s: f64,
}

impl Wait {
    pub(super) async fn run(self, session: &Session) -> Result<String, String> {
        let call = find(session, &self.id)?;
        let wait = Duration::try_from_secs_f64(self.timeout_s).unwrap_or_default();
        let mut phases = call.phases();
        let finished = phases.wait_for(|_| call.is_finished());
        let _ = tokio::time::timeout(wait, finished).await;
        Ok(format!(
            "{}: {}\n{}",
            call.id(),
            words::standing(&call),
            words::last(&call, SHOWN)
        ))
    }
}

/// `proc_write`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    id: String,
    text: String,
    eof: bool,
}

impl Write {
    pub(super) async fn run(self, session: &Session) -> Result<String, String> {
        let call = find(session, &self.id)?;
        let stdin = call.stdin().map_err(|_| {
            format!(
                "{} has no standard input: proc_start gives it one with stdin\n",
                call.id()
            )
        })?;
        if call.status().state == CallState::Finished {
            return Err(format!("{} {}\n", call.id(), words::standing(&call)));
        }
        let count = self.text.len();
        if count > 0 {
            let written = stdin.write(self.text.into()).await;
            written.map_err(|refusal| format!("{}\n", refusal.ename()))?;
        }
        if self.eof {
            call.end_stdin();
        }
        let ended = if self.eof {
            ", and its input has ended"
        } else {
            ""
        };
        Ok(format!("wrote {count} bytes to {}{ended}\n", call.id()))
    }
}
