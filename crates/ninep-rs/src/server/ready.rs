use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};

use crate::Fid;

/// Whether reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Read,
    Write,
}

/// One of the two lanes of an open fid.
///
/// A wake may come late and find another file under the same number: that costs one poll more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LaneKey {
    pub(super) fid: Fid,
    pub(super) way: Way,
}

/// Lanes whose request asked to be polled, and the task to wake for them.
///
/// Any thread may wake; only the connection's task takes. So of a hundred waiting requests only those are polled that
/// have something to say.
#[derive(Debug, Default)]
pub(super) struct Ready {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    lanes: Vec<Arc<LaneWaker>>,
    task: Option<Waker>,
}

impl Ready {
    /// Whom to wake from now on.
    pub(super) fn register(&self, task: &Waker) {
        let mut inner = self.lock();
        match &inner.task {
            Some(known) if known.will_wake(task) => {}
            _ => inner.task = Some(task.clone()),
        }
    }

    /// Moves out the lanes that woke since the last call.
    pub(super) fn take(&self) -> Vec<LaneKey> {
        let woken = std::mem::take(&mut self.lock().lanes);
        woken
            .iter()
            .map(|lane| {
                // Cleared before the poll: a wake during the poll counts for the next one.
                lane.queued.store(false, Ordering::Release);
                lane.key
            })
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().lanes.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker of a lane. A lane polls one request at a time, so they all share it.
#[derive(Debug)]
pub(super) struct LaneWaker {
    key: LaneKey,
    /// The list that this stands in once it was woken: owned by the connection alone, or the two would keep each other.
    ready: Weak<Ready>,
    queued: AtomicBool,
}

impl LaneWaker {
    pub(super) fn new(key: LaneKey, ready: &Arc<Ready>) -> Arc<Self> {
        Arc::new(LaneWaker {
            key,
            ready: Arc::downgrade(ready),
            queued: AtomicBool::new(false),
        })
    }
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        // The connection may have ended.
        let Some(ready) = self.ready.upgrade() else {
            return;
        };
        let task = {
            let mut inner = ready.lock();
            inner.lanes.push(self);
            inner.task.clone()
        };
        // Outside of the lock: waking may run the task's own drop code.
        if let Some(task) = task {
            task.wake();
        }
    }
}
