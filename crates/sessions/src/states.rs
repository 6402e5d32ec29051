use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ollie_agent::State;
use tokio::sync::watch;

/// How many changes are kept for those who come late.
const KEPT: usize = 1000;

/// A session's state and how it came to it, each change with its number, from
/// 1 up in the life of a daemon.
#[derive(Debug, Default)]
pub(crate) struct States {
    past: Mutex<Past>,
    /// Told of every change.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Past {
    /// The number of the last change.
    last: u64,
    recent: VecDeque<State>,
    now: State,
    over: bool,
}

/// What comes after a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This one.
    State(u64, State),
    /// Nothing yet.
    NotYet,
    /// Nothing ever: the session was removed.
    Over,
    /// It is not kept any more; what comes after this number is.
    Forgotten(u64),
}

impl States {
    /// The present one.
    pub(crate) fn now(&self) -> State {
        self.past().now.clone()
    }

    /// Changes into this one; whether it was another before.
    pub(crate) fn set(&self, state: State) -> bool {
        let mut past = self.past();
        if past.now == state || past.over {
            return false;
        }
        past.last += 1;
        past.now = state.clone();
        past.recent.push_back(state);
        if past.recent.len() > KEPT {
            past.recent.pop_front();
        }
        let last = past.last;
        drop(past);
        self.last.send_replace(last);
        true
    }

    /// No change comes any more.
    pub(crate) fn close(&self) {
        self.past().over = true;
        self.last.send_modify(|_| ());
    }

    /// The number of the last change; 0 before the first.
    pub(crate) fn last(&self) -> u64 {
        self.past().last
    }

    /// The change after this number.
    pub(crate) fn next(&self, after: u64) -> Next {
        let past = self.past();
        let first = past.last - past.recent.len() as u64;
        if after >= past.last {
            return if past.over { Next::Over } else { Next::NotYet };
        }
        let at = after
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| past.recent.get(at)) {
            Some(state) => Next::State(after + 1, state.clone()),
            None => Next::Forgotten(first),
        }
    }

    /// Tells of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_misses_a_change_and_nobody_gets_one_twice() {
        let states = States::default();
        assert_eq!(states.next(0), Next::NotYet);
        assert!(states.set(State::Thinking));
        assert!(!states.set(State::Thinking), "it is no change");
        assert!(states.set(State::Idle));
        assert_eq!(states.next(0), Next::State(1, State::Thinking));
        assert_eq!(states.next(1), Next::State(2, State::Idle));
        assert_eq!(states.next(2), Next::NotYet);
        states.close();
        assert_eq!(states.next(1), Next::State(2, State::Idle));
        assert_eq!(states.next(2), Next::Over);
        assert!(!states.set(State::Thinking));
    }

    #[test]
    fn who_comes_too_late_is_told() {
        let states = States::default();
        for _ in 0..KEPT {
            states.set(State::Thinking);
            states.set(State::Idle);
        }
        let first = states.last() - KEPT as u64;
        assert_eq!(states.next(0), Next::Forgotten(first));
        assert_eq!(states.next(first), Next::State(first + 1, State::Thinking));
    }
}
