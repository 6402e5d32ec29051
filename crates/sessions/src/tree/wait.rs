use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat, answer};

use super::order::truncation;
use crate::session::Session;
use crate::states::Next;

/// The file `wait`: each read waits for the next change of the session's
/// state and gives it as a line, its number and the state. The first one is
/// the first after the open; after a number was written, the first after that
/// number, which may have been already. So nobody misses one, and nobody gets
/// one twice.
pub(super) struct Wait {
    session: Arc<Session>,
    stat: Stat,
}

impl Wait {
    pub(super) fn node(session: &Arc<Session>, path: u64) -> Arc<dyn Node> {
        Arc::new(Self {
            session: Arc::clone(session),
            stat: Stat::new("wait", Qid::file(path), 0o666),
        })
    }
}

impl Node for Wait {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Waiter {
            session: Arc::clone(&self.session),
            after: Mutex::new(self.session.states().last()),
        }))
    }

    fn wstat(&self, change: &Stat) -> Result<(), Refusal> {
        truncation(change)
    }
}

struct Waiter {
    session: Arc<Session>,
    /// The number of the last change that was given.
    after: Mutex<u64>,
}

impl Waiter {
    fn after(&self) -> std::sync::MutexGuard<'_, u64> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for Waiter {
    fn read(self: Arc<Self>, _offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let states = self.session.states();
            let mut changes = states.changes();
            loop {
                let after = *self.after();
                match states.next(after) {
                    Next::State(number, state) => {
                        let line = Bytes::from(format!("{number} {state}\n"));
                        if line.len() > count as usize {
                            return Err(Refusal::new("count is too small for a state: read more"));
                        }
                        *self.after() = number;
                        return Ok(line);
                    }
                    Next::Over => return Ok(Bytes::new()),
                    Next::Forgotten(first) => {
                        return Err(Refusal::new(format!(
                            "what came after {after} is not kept: read the state, and write {first} or \
                             a later number"
                        )));
                    }
                    // The sender lives in the session.
                    Next::NotYet => {
                        let _ = changes.changed().await;
                    }
                }
            }
        })
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        let number = std::str::from_utf8(data.trim_ascii())
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .filter(|number| *number <= self.session.states().last());
        let Some(number) = number else {
            return answer(Err(Refusal::new(
                "write the number of a change that has been, as a read gives it",
            )));
        };
        *self.after() = number;
        answer(Ok(u32::try_from(data.len()).unwrap_or(u32::MAX)))
    }
}
