use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ninep_rs::Error;
use ollie_protocol::{NotLetIn, TurnedAway};

/// Lines kept at most.
const LINES_MAX: usize = 64;

/// The other end of a connection, as the kernel knows it (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    /// Not known where it lives in another PID namespace.
    pub(crate) pid: Option<u32>,
}

/// Who was not let in, for a person to look up: the file `door`.
///
/// One line for each reason and user, with a count, so that no number of
/// attempts makes it longer or displaces what else is in it. What a stranger
/// has sent is nowhere in it: it may be a key.
#[derive(Default)]
pub(crate) struct Doorbook {
    lines: Mutex<BTreeMap<(u32, NotLetIn), TurnedAway>>,
}

impl Doorbook {
    /// Notes one more, now.
    pub(crate) fn note(&self, reason: NotLetIn, peer: Peer) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut lines = self.lines();
        let line = lines.entry((peer.uid, reason)).or_insert(TurnedAway {
            reason,
            uid: peer.uid,
            pid: None,
            count: 0,
            first: now,
            last: now,
        });
        line.pid = peer.pid;
        line.count += 1;
        line.last = now;
        if lines.len() > LINES_MAX {
            let oldest = lines.iter().min_by_key(|(_, line)| line.last);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                lines.remove(&key);
            }
        }
    }

    /// All of them, the latest last.
    pub(crate) fn read(&self) -> Vec<TurnedAway> {
        let mut lines: Vec<_> = self.lines().values().cloned().collect();
        lines.sort_by_key(|line| line.last);
        lines
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<(u32, NotLetIn), TurnedAway>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a connection ended that never attached, where its door has not said so.
pub(crate) fn reason_of(end: &Result<(), Error>) -> NotLetIn {
    match end {
        Err(Error::AttachDeadline) => NotLetIn::TooSlow,
        Err(Error::FrameTooLong { .. }) => NotLetIn::TooLong,
        Err(Error::FrameTooShort(_) | Error::Malformed(_)) => NotLetIn::Malformed,
        // The one that the engine makes by itself.
        Err(Error::Refused(_)) => NotLetIn::ForeignAfid,
        _ => NotLetIn::Left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_attempts_make_one_line_and_many_users_no_more_than_fit() {
        let book = Doorbook::default();
        let peer = |uid| Peer {
            uid,
            pid: Some(uid + 1),
        };
        for _ in 0..1000 {
            book.note(NotLetIn::Left, peer(7));
        }
        book.note(NotLetIn::WrongProof, peer(7));
        let lines = book.read();
        let counts: Vec<_> = lines.iter().map(|line| (line.reason, line.count)).collect();
        assert!(counts.contains(&(NotLetIn::Left, 1000)), "{counts:?}");
        assert!(counts.contains(&(NotLetIn::WrongProof, 1)), "{counts:?}");
        assert_eq!(lines[0].pid, Some(8));
        for uid in 0..1000 {
            book.note(NotLetIn::Left, peer(uid));
        }
        assert_eq!(book.read().len(), LINES_MAX);
    }
}
