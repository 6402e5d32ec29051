use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ninep_rs::Refusal;
use ollie_protocol::{CallId, limits};
use tokio::sync::Notify;

use crate::call::Call;
use crate::used_ids::UsedIds;

/// How many finished calls are remembered.
const FINISHED_MAX: usize = 64;
/// How many bytes of finished calls' output are remembered.
const FINISHED_BYTES: usize = 8 * 1024 * 1024;

/// The calls of a session by their ids, oldest first.
///
/// Finished ones are forgotten when there are too many, or their output is
/// too much; running ones never. The ids of those that are forgotten are known
/// for longer ([`UsedIds`]), so that none runs twice.
#[derive(Default)]
pub(crate) struct Calls {
    book: Mutex<Book>,
    /// A claim was redeemed or given up.
    settled: Notify,
}

#[derive(Default)]
struct Book {
    list: VecDeque<Arc<Call>>,
    /// Ids whose calls are being started.
    claimed: HashSet<CallId>,
    used: UsedIds,
}

impl Book {
    /// Whether a call of this id was started, is being started, or never may
    /// be. Of a call that runs for long the list alone may still know.
    fn knows(&self, id: &CallId) -> bool {
        self.used.contains(id) || self.list.iter().any(|call| call.id() == id)
    }
}

/// The right to start the one call of an id.
pub(crate) struct Claim<'a> {
    calls: &'a Calls,
    id: CallId,
}

impl Calls {
    /// Reserves an id.
    pub(crate) fn claim(&self, id: &CallId) -> Result<Claim<'_>, Refusal> {
        let mut book = self.book();
        if book.knows(id) {
            return Err(used(id));
        }
        let unfinished = book.list.iter().filter(|call| !call.is_finished()).count();
        if unfinished + book.claimed.len() >= limits::CALLS_MAX {
            return Err(Refusal::new(format!(
                "{} calls are running: end some first",
                limits::CALLS_MAX
            )));
        }
        book.used.add(id.clone());
        book.claimed.insert(id.clone());
        Ok(Claim {
            calls: self,
            id: id.clone(),
        })
    }

    /// Sees to it that no call of this id ever starts; refused if one has.
    pub(crate) async fn bar(&self, id: CallId) -> Result<(), Refusal> {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            {
                let mut book = self.book();
                if !book.claimed.contains(&id) {
                    if book.knows(&id) {
                        return Err(used(&id));
                    }
                    book.used.add(id);
                    return Ok(());
                }
            }
            settled.await;
        }
    }

    /// The call of this name.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Call>> {
        self.book()
            .list
            .iter()
            .find(|call| call.id().as_str() == id)
            .cloned()
    }

    /// All that are remembered.
    pub(crate) fn all(&self) -> Vec<Arc<Call>> {
        self.book().list.iter().cloned().collect()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    /// The call has been started.
    pub(crate) fn redeem(self, call: &Arc<Call>) {
        let mut book = self.calls.book();
        book.claimed.remove(&self.id);
        forget(&mut book.list);
        book.list.push_back(Arc::clone(call));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut book = self.calls.book();
        if book.claimed.remove(&self.id) {
            // Nothing was started, so the id is as good as new.
            book.used.remove(&self.id);
        }
        drop(book);
        self.calls.settled.notify_waiters();
    }
}

fn used(id: &CallId) -> Refusal {
    Refusal::new(format!("call id {id} was used before: choose a new one"))
}

fn forget(list: &mut VecDeque<Arc<Call>>) {
    let finished = |call: &Arc<Call>| call.is_finished();
    let mut count = list.iter().filter(|call| finished(call)).count();
    let mut bytes: usize = list
        .iter()
        .filter(|call| finished(call))
        .map(|call| call.kept())
        .sum();
    list.retain(|call| {
        let over = count >= FINISHED_MAX || bytes > FINISHED_BYTES;
        if over && finished(call) {
            count -= 1;
            bytes -= call.kept();
        }
        !(over && finished(call))
    });
}
