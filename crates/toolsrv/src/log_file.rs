use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat};
use ollie_protocol::Stream;

use crate::call::Call;
use crate::log::At;

/// A bounded copy of a call's output. At the end, a read waits for more or
/// for the end of the call.
pub(crate) struct LogFile {
    call: Arc<Call>,
    name: &'static str,
    path: u64,
    stream: Option<Stream>,
}

impl LogFile {
    pub(crate) fn node(
        call: &Arc<Call>,
        name: &'static str,
        path: u64,
        stream: Option<Stream>,
    ) -> Arc<dyn Node> {
        Arc::new(Self {
            call: Arc::clone(call),
            name,
            path,
            stream,
        })
    }

    fn length(&self) -> u64 {
        self.call.with_log(self.stream, |log| log.total())
    }

    fn entry(&self, length: u64) -> Stat {
        let qid = Qid {
            kind: Qid::APPEND,
            version: u32::try_from(length & 0xFFFF_FFFF).unwrap_or(0),
            path: self.path,
        };
        Stat::new(self.name, qid, 0o444).with_length(length)
    }
}

impl Node for LogFile {
    fn qid(&self) -> Qid {
        self.entry(self.length()).qid
    }

    fn stat(&self) -> Stat {
        self.entry(self.length())
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(LogReader {
            call: Arc::clone(&self.call),
            stream: self.stream,
            gap: Mutex::new(None),
        }))
    }
}

/// One reader of a log.
struct LogReader {
    call: Arc<Call>,
    stream: Option<Stream>,
    gap: Mutex<Option<Gap>>,
}

/// A piece of the stream that is not kept, as one reader met it: a line stands
/// in its place, and the reader's offsets go on from that line.
#[derive(Clone)]
struct Gap {
    /// The reader's offset of the line.
    at: u64,
    line: Bytes,
    /// The stream's offset of what follows.
    next: u64,
}

impl Gap {
    fn new(at: u64, from: u64, next: u64) -> Self {
        let line = format!("\n[... {} bytes are not kept ...]\n", next - from);
        Self {
            at,
            line: line.into(),
            next,
        }
    }

    fn end(&self) -> u64 {
        self.at + self.line.len() as u64
    }
}

impl LogReader {
    /// What a reader gets at its offset; `None`: nothing yet.
    fn look(&self, offset: u64, count: usize) -> Option<Bytes> {
        let mut gap = self.gap.lock().unwrap_or_else(PoisonError::into_inner);
        // Going back behind the gap means to start anew.
        if gap.as_ref().is_some_and(|gap| offset < gap.at) {
            *gap = None;
        }
        loop {
            let place = match &*gap {
                Some(gap) if offset < gap.end() => {
                    let start = usize::try_from(offset - gap.at).unwrap_or(usize::MAX);
                    let end = start.saturating_add(count).min(gap.line.len());
                    return Some(gap.line.slice(start..end));
                }
                Some(gap) => gap.next + (offset - gap.end()),
                None => offset,
            };
            match self.call.with_log(self.stream, |log| log.at(place, count)) {
                At::Bytes(bytes) => return Some(bytes),
                At::Dropped(next) => *gap = Some(Gap::new(offset, place, next)),
                At::End => return None,
            }
        }
    }
}

impl File for LogReader {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            loop {
                // Asked for before the log is looked at, so that what comes
                // in between wakes this.
                let changed = self.call.changed();
                let finished = self.call.is_finished();
                match self.look(offset, count) {
                    Some(bytes) => return Ok(bytes),
                    None if finished => return Ok(Bytes::new()),
                    None => changed.await,
                }
            }
        })
    }
}
