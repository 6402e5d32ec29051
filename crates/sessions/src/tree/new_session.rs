use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat, answer};

use super::order::truncation;
use super::{refused, slice};
use crate::Sessions;

/// The clone file `session/new`: the write makes a session, a read of the same
/// fid gives its name.
pub(super) struct NewSession {
    sessions: Arc<Sessions>,
    stat: Stat,
}

impl NewSession {
    pub(super) fn node(sessions: &Arc<Sessions>, path: u64) -> Arc<dyn Node> {
        Arc::new(Self {
            sessions: Arc::clone(sessions),
            stat: Stat::new("new", Qid::file(path), 0o666),
        })
    }
}

impl Node for NewSession {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Opened {
            sessions: Arc::clone(&self.sessions),
            made: Mutex::new(Bytes::new()),
        }))
    }

    fn wstat(&self, change: &Stat) -> Result<(), Refusal> {
        truncation(change)
    }
}

struct Opened {
    sessions: Arc<Sessions>,
    /// The line with the name, once there is one.
    made: Mutex<Bytes>,
}

impl Opened {
    fn made(&self) -> MutexGuard<'_, Bytes> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, data: &[u8]) -> Result<(), Refusal> {
        let mut made = self.made();
        if !made.is_empty() {
            return Err(Refusal::new("one open makes one session: open new again"));
        }
        let text = std::str::from_utf8(data).map_err(|_| Refusal::new("write text in UTF-8"))?;
        let session = self.sessions.create(text).map_err(refused)?;
        *made = format!("{}\n", session.id()).into();
        Ok(())
    }
}

impl File for Opened {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        let made = self.made().clone();
        answer(Ok(slice(&made, offset, count)))
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        answer(self.make(&data).map(|()| length))
    }
}
