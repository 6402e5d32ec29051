use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ninep_rs::Refusal;
use ollie_protocol::{CallId, limits};

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
}

#[derive(Default)]
struct Book {
    list: VecDeque<Arc<Call>>,
    used: UsedIds,
}

impl Book {
    /// Whether there was a call of this id, or never may be one. Of a call
    /// that runs for long the list alone may still know.
    fn knows(&self, id: &CallId) -> bool {
        self.used.contains(id) || self.list.iter().any(|call| call.id() == id)
    }
}

impl Calls {
    /// Takes a call in, before anything of it is started: a second one of its
    /// id must not run, not even for a moment.
    pub(crate) fn admit(&self, call: &Arc<Call>) -> Result<(), Refusal> {
        let mut book = self.book();
        if book.knows(call.id()) {
            return Err(used(call.id()));
        }
        let unfinished = book.list.iter().filter(|call| !call.is_finished()).count();
        if unfinished >= limits::CALLS_MAX {
            return Err(Refusal::new(format!(
                "{} calls are running: end some first",
                limits::CALLS_MAX
            )));
        }
        book.used.add(call.id().clone());
        forget(&mut book.list);
        book.list.push_back(Arc::clone(call));
        Ok(())
    }

    /// Sees to it that no call of this id ever starts; refused if one has.
    pub(crate) fn bar(&self, id: CallId) -> Result<(), Refusal> {
        let mut book = self.book();
        if book.knows(&id) {
            return Err(used(&id));
        }
        book.used.add(id);
        Ok(())
    }

    /// Whether this id may still be given to a call.
    pub(crate) fn is_free(&self, id: &CallId) -> bool {
        !self.book().knows(id)
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
