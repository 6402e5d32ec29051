use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ninep_rs::Refusal;
use ollie_protocol::limits;

use crate::call::Call;

/// How many finished calls are remembered.
const FINISHED_MAX: usize = 64;
/// How many bytes of finished calls' output are remembered.
const FINISHED_BYTES: usize = 8 * 1024 * 1024;

/// The calls of a session by their ids, oldest first.
///
/// Finished ones are forgotten when there are too many, or their output is
/// too much; running ones never.
#[derive(Default)]
pub(crate) struct Calls {
    list: Mutex<VecDeque<Arc<Call>>>,
}

impl Calls {
    /// Takes a new call in.
    pub(crate) fn add(&self, call: &Arc<Call>) -> Result<(), Refusal> {
        let mut list = self.list();
        if list.iter().any(|known| known.id() == call.id()) {
            return Err(Refusal::new(format!(
                "call id {} was used before: choose a new one",
                call.id()
            )));
        }
        if list.iter().filter(|known| !known.is_finished()).count() >= limits::CALLS_MAX {
            return Err(Refusal::new(format!(
                "{} calls are running: end some first",
                limits::CALLS_MAX
            )));
        }
        forget(&mut list);
        list.push_back(Arc::clone(call));
        Ok(())
    }

    /// The call of this name.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Call>> {
        self.list()
            .iter()
            .find(|call| call.id().as_str() == id)
            .cloned()
    }

    /// All that are remembered.
    pub(crate) fn all(&self) -> Vec<Arc<Call>> {
        self.list().iter().cloned().collect()
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Arc<Call>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
