use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Answer, Directory, File, Listing, Node, OpenMode, Qid, Refusal, Stat, answer};
use ollie_exec::Order;
use ollie_protocol::{Stream, tree};
use serde::Serialize;

use crate::call::{Call, Phase};
use crate::call_file::CallFile;
use crate::live::{Live, line};
use crate::log::At;
use crate::session::Session;

/// The directory `proc`: the clone file, and a directory for each call that
/// is remembered.
pub(crate) struct Proc {
    session: Arc<Session>,
    qid: Qid,
    new: Arc<New>,
}

impl Proc {
    pub(crate) fn new(session: &Arc<Session>, path: u64) -> Self {
        Self {
            session: Arc::clone(session),
            qid: Qid::directory(path),
            new: Arc::new(New {
                session: Arc::clone(session),
                qid: Qid::file(path + 1),
            }),
        }
    }
}

impl Node for Proc {
    fn qid(&self) -> Qid {
        self.qid
    }

    fn stat(&self) -> Stat {
        Stat::new(tree::PROC, self.qid, 0o555)
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        if name == tree::NEW {
            return Ok(Arc::clone(&self.new) as Arc<dyn Node>);
        }
        let call = self.session.calls.get(name).ok_or(Refusal::not_found())?;
        Ok(directory(&call))
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let (session, new) = (Arc::clone(&self.session), Arc::clone(&self.new));
        Ok(Arc::new(Listing::new(move || {
            let calls = session.calls.all();
            std::iter::once(new.stat())
                .chain(calls.iter().map(|call| directory(call).stat()))
                .collect()
        })))
    }
}

/// The clone file: each open of it is another call.
struct New {
    session: Arc<Session>,
    qid: Qid,
}

impl Node for New {
    fn qid(&self) -> Qid {
        self.qid
    }

    fn stat(&self) -> Stat {
        Stat::new(tree::NEW, self.qid, 0o666)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(CallFile::new(&self.session))
    }
}

/// The directory of one call.
fn directory(call: &Arc<Call>) -> Arc<dyn Node> {
    let at = call.path();
    let json = |name, path, show: fn(&Call) -> Vec<u8>| {
        let call = Arc::clone(call);
        Live::node(name, path, move || show(&call))
    };
    let log = |name, path, stream| {
        Arc::new(LogFile {
            call: Arc::clone(call),
            name,
            path,
            stream,
        }) as Arc<dyn Node>
    };
    let other = |name, path, mode, kind| {
        Arc::new(Special {
            call: Arc::clone(call),
            stat: Stat::new(name, Qid::file(path), mode),
            kind,
        }) as Arc<dyn Node>
    };
    Arc::new(Directory::new(
        call.id().as_str(),
        at,
        vec![
            json("call", at + 1, |call| line(call.spec())),
            json("status", at + 2, |call| line(&Status::of(call))),
            other("ctl", at + 3, 0o222, Kind::Ctl),
            other("stdin", at + 4, 0o222, Kind::Stdin),
            log("stdout", at + 5, Some(Stream::Stdout)),
            log("stderr", at + 6, Some(Stream::Stderr)),
            log("output", at + 7, None),
            other("wait", at + 8, 0o444, Kind::Wait),
        ],
    ))
}

/// The file `status` of a call.
#[derive(Serialize)]
struct Status<'a> {
    id: &'a str,
    tool: &'a str,
    /// `starting`, `running`, `ended` (its output is still being read) or
    /// `finished`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    running_ms: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a ollie_protocol::ToolResult>,
}

impl<'a> Status<'a> {
    fn of(call: &'a Call) -> Self {
        let (state, pid) = match call.phase() {
            _ if call.is_finished() => ("finished", None),
            Phase::Starting => ("starting", None),
            Phase::Running(pid) => ("running", Some(pid)),
            Phase::Ended => ("ended", None),
        };
        Self {
            id: call.id().as_str(),
            tool: &call.spec().tool,
            state,
            pid,
            running_ms: call.started().elapsed().as_millis(),
            result: call.result(),
        }
    }
}

/// A bounded copy of a call's output. At the end, a read waits for more or
/// for the end of the call.
struct LogFile {
    call: Arc<Call>,
    name: &'static str,
    path: u64,
    stream: Option<Stream>,
}

impl LogFile {
    fn length(&self) -> u64 {
        self.call.with_log(self.stream, |log| log.total())
    }
}

impl Node for LogFile {
    fn qid(&self) -> Qid {
        Qid {
            kind: Qid::APPEND,
            version: u32::try_from(self.length() & 0xFFFF_FFFF).unwrap_or(0),
            path: self.path,
        }
    }

    fn stat(&self) -> Stat {
        Stat::new(self.name, self.qid(), 0o444).with_length(self.length())
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(LogReader {
            call: Arc::clone(&self.call),
            stream: self.stream,
        }))
    }
}

struct LogReader {
    call: Arc<Call>,
    stream: Option<Stream>,
}

impl File for LogReader {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            loop {
                // Asked for before the log is looked at, so that what comes
                // in between wakes this.
                let changed = self.call.changed();
                let at = self.call.with_log(self.stream, |log| log.at(offset, count));
                match at {
                    At::Bytes(bytes) => return Ok(bytes),
                    At::Dropped(next) => {
                        return Err(Refusal::new(format!(
                            "bytes {offset} to {next} of this log were dropped: read from {next}"
                        )));
                    }
                    At::End if self.call.is_finished() => return Ok(Bytes::new()),
                    At::End => changed.await,
                }
            }
        })
    }
}

/// The files of a call that do something.
struct Special {
    call: Arc<Call>,
    stat: Stat,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Ctl,
    Stdin,
    Wait,
}

impl Node for Special {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Opened {
            call: Arc::clone(&self.call),
            kind: self.kind,
        }))
    }
}

struct Opened {
    call: Arc<Call>,
    kind: Kind,
}

impl File for Opened {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        if !matches!(self.kind, Kind::Wait) {
            return answer(Err(Refusal::denied()));
        }
        Box::pin(async move {
            let mut phases = self.call.phases();
            let _ = phases.wait_for(|_| self.call.is_finished()).await;
            let text = self.call.result().map(line).unwrap_or_default();
            let start = usize::try_from(offset).map_or(text.len(), |at| at.min(text.len()));
            let end = start.saturating_add(count as usize).min(text.len());
            Ok(Bytes::copy_from_slice(&text[start..end]))
        })
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        match self.kind {
            Kind::Wait => answer(Err(Refusal::denied())),
            Kind::Stdin if data.is_empty() => {
                self.call.end_stdin();
                answer(Ok(0))
            }
            Kind::Stdin => Box::pin(async move { self.call.stdin()?.write(data).await }),
            Kind::Ctl => Box::pin(async move {
                command(&self.call, &data).await?;
                Ok(count)
            }),
        }
    }
}

/// A word written to `ctl`.
async fn command(call: &Call, word: &[u8]) -> Result<(), Refusal> {
    let signal = match word.trim_ascii() {
        b"int" => rustix::process::Signal::INT,
        b"term" => rustix::process::Signal::TERM,
        b"end" => {
            call.ended().cancelled = true;
            call.end(call.grace()).await;
            return Ok(());
        }
        b"kill" => {
            call.ended().cancelled = true;
            call.end(std::time::Duration::ZERO).await;
            return Ok(());
        }
        b"eof" => {
            call.end_stdin();
            return Ok(());
        }
        _ => {
            return Err(Refusal::new(
                "unknown command: write int, term, end, kill or eof",
            ));
        }
    };
    let order = Order::Signal(signal.as_raw());
    let sent = call.control().order(order).await;
    sent.map_err(|error| Refusal::new(error.to_string()))
}
