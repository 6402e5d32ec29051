use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Answer, Directory, File, Listing, Node, OpenMode, Qid, Refusal, Stat, answer};
use ollie_exec::Order;
use ollie_protocol::{CallStatus, LogStates, Stream, tree};

use crate::call::Call;
use crate::call_file::CallFile;
use crate::live::{Live, line};
use crate::log_file::LogFile;
use crate::plan::Question;
use crate::project::piece;
use crate::session::{Session, Side};
use crate::tool_tree::View;

/// The directory `proc`: the clone file, and a directory for each call that
/// is remembered.
pub(crate) struct Proc {
    session: Arc<Session>,
    side: Side,
    qid: Qid,
    files: [Arc<dyn Node>; 3],
}

impl Proc {
    pub(crate) fn new(view: &View, path: u64) -> Self {
        let calls = Arc::clone(&view.session);
        Self {
            session: Arc::clone(&view.session),
            side: view.side,
            qid: Qid::directory(path),
            files: [
                New::node(view, tree::NEW, path + 1),
                New::node(view, tree::NEW_BG, path + 2),
                Live::node(tree::INDEX, path + 3, move || index(&calls)),
            ],
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
        if let Some(file) = self.files.iter().find(|file| file.stat().name == name) {
            return Ok(Arc::clone(file));
        }
        let call = self.session.calls.get(name).ok_or(Refusal::not_found())?;
        Ok(directory(&call, self.side))
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let (session, files, side) = (Arc::clone(&self.session), self.files.clone(), self.side);
        Ok(Arc::new(Listing::new(move || {
            let calls = session.calls.all();
            files
                .iter()
                .map(|file| file.stat())
                .chain(calls.iter().map(|call| directory(call, side).stat()))
                .collect()
        })))
    }
}

/// The file `index`: a line for each call.
fn index(session: &Session) -> Vec<u8> {
    let calls = session.calls.all();
    calls.iter().flat_map(|call| line(&call.status())).collect()
}

/// A clone file: each open of it is another call.
struct New {
    view: View,
    name: &'static str,
    qid: Qid,
}

impl New {
    fn node(view: &View, name: &'static str, path: u64) -> Arc<dyn Node> {
        Arc::new(Self {
            view: view.clone(),
            name,
            qid: Qid::file(path),
        })
    }
}

impl Node for New {
    fn qid(&self) -> Qid {
        self.qid
    }

    fn stat(&self) -> Stat {
        Stat::new(self.name, self.qid, 0o666)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(CallFile::new(&self.view, self.name == tree::NEW_BG))
    }
}

/// The directory of one call.
fn directory(call: &Arc<Call>, side: Side) -> Arc<dyn Node> {
    let at = call.path();
    let json = |name, path, show: fn(&Call) -> Vec<u8>| {
        let call = Arc::clone(call);
        Live::node(name, path, move || show(&call))
    };
    let log = |name, path, stream| LogFile::node(call, name, path, stream);
    let other = |name, path, mode, kind| {
        Arc::new(Special {
            call: Arc::clone(call),
            stat: Stat::new(name, Qid::file(path), mode),
            kind,
        }) as Arc<dyn Node>
    };
    let mut files = vec![
        json("call", at + 1, |call| line(call.spec())),
        json(tree::CALL_STATUS, at + 2, |call| line(&status(call))),
        other(tree::CTL, at + 3, 0o222, Kind::Ctl),
        other(tree::STDIN, at + 4, 0o222, Kind::Stdin),
        log("stdout", at + 5, Some(Stream::Stdout)),
        log("stderr", at + 6, Some(Stream::Stderr)),
        log("output", at + 7, None),
        other(tree::WAIT, at + 8, 0o444, Kind::Wait),
    ];
    if call.plan().asked.is_some() {
        files.push(other(tree::ASK, at + 9, 0o644, Kind::Ask(side)));
    }
    Arc::new(Directory::new(call.id().as_str(), at, files))
}

/// The file `status` of a call.
fn status(call: &Call) -> CallStatus {
    let log = |stream| call.with_log(stream, |log| log.state());
    CallStatus {
        logs: Some(LogStates {
            stdout: log(Some(Stream::Stdout)),
            stderr: log(Some(Stream::Stderr)),
            output: log(None),
        }),
        result: call.result().cloned().map(Box::new),
        ..call.status()
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
    /// As one side sees it.
    Ask(Side),
}

impl Node for Special {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        if let Kind::Ask(side) = self.kind {
            side.may(mode)?;
        }
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
        Box::pin(async move {
            let text = match self.kind {
                Kind::Wait => {
                    let mut phases = self.call.phases();
                    let _ = phases.wait_for(|_| self.call.is_finished()).await;
                    self.call.result().map(line)
                }
                Kind::Ask(_) => self.call.ask(),
                Kind::Ctl | Kind::Stdin => return Err(Refusal::denied()),
            };
            Ok(piece(text.unwrap_or_default(), offset, count))
        })
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        match self.kind {
            Kind::Wait => answer(Err(Refusal::denied())),
            Kind::Ask(_) => answer(rule(&self.call, &data).map(|()| count)),
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

/// Takes the person's answer, which names the call and what they were shown.
fn rule(call: &Call, ruling: &[u8]) -> Result<(), Refusal> {
    let about = |asked: &Question| format!(" {} {}", call.id(), asked.digest);
    let about = call.plan().asked.as_ref().map(about).unwrap_or_default();
    match ruling.trim_ascii().strip_suffix(about.as_bytes()) {
        Some(b"approve") => call.rule(true),
        Some(b"deny") => call.rule(false),
        _ => Err(Refusal::new(
            "write approve ID DIGEST, or deny ID DIGEST, as they stand in ask",
        )),
    }
}

/// A word written to `ctl`, one a write.
///
/// - `int`, `term`: SIGINT, SIGTERM to the command's process group.
/// - `end`: ends the tree: SIGTERM, the call's grace, SIGKILL.
/// - `kill`: ends the tree at once.
/// - `eof`: ends standard input.
/// - `detach`: the call goes on when the reader of its events goes away.
///
/// To a call that has ended they do nothing.
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
        b"detach" => {
            call.detach();
            return Ok(());
        }
        _ => {
            return Err(Refusal::new(
                "unknown command: write int, term, end, kill, eof or detach",
            ));
        }
    };
    let order = Order::Signal(signal.as_raw());
    let Some(control) = call.control() else {
        return Ok(());
    };
    let sent = control.order(order).await;
    sent.map_err(|error| Refusal::new(error.to_string()))
}
