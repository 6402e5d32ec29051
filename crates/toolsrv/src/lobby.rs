use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ollie_protocol::{NotLetIn, TurnedAway};
use tokio::sync::{Notify, watch};

use crate::doorbook::{Doorbook, Peer};

/// Connections to the socket that have not proved yet who they are, at a time.
/// One more sends the oldest of them away.
const STRANGERS_MAX: usize = 32;
/// Connections to the socket that have, at a time.
const GUESTS_MAX: usize = 64;

/// Who may be connected to the socket.
///
/// Strangers only displace each other, so that no number of them keeps those
/// out who know the session's key; they cost a bounded number of descriptors.
pub(crate) struct Lobby {
    strangers: Mutex<VecDeque<Arc<Notify>>>,
    guests: watch::Sender<usize>,
    turned_away: AtomicU64,
    book: Doorbook,
}

impl Lobby {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            strangers: Mutex::default(),
            guests: watch::Sender::new(0),
            turned_away: AtomicU64::new(0),
            book: Doorbook::default(),
        })
    }

    /// Somebody was not let in.
    pub(crate) fn turn_away(&self, reason: NotLetIn, peer: Peer) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        self.book.note(reason, peer);
    }

    /// Who they were.
    pub(crate) fn book(&self) -> Vec<TurnedAway> {
        self.book.read()
    }

    /// How many were not let in so far.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// A stranger comes in.
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer) -> Arc<Visit> {
        let dismissed = Arc::new(Notify::new());
        let mut strangers = self.strangers();
        strangers.push_back(Arc::clone(&dismissed));
        if strangers.len() > STRANGERS_MAX
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.notify_one();
        }
        drop(strangers);
        Arc::new(Visit {
            lobby: Arc::clone(self),
            peer,
            dismissed,
            admitted: Mutex::new(false),
        })
    }

    /// A receiver that sees how many have proved who they are.
    pub(crate) fn guests(&self) -> watch::Receiver<usize> {
        self.guests.subscribe()
    }

    fn leave(&self, dismissed: &Arc<Notify>) {
        self.strangers()
            .retain(|known| !Arc::ptr_eq(known, dismissed));
    }

    fn strangers(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, from its start to its end.
pub(crate) struct Visit {
    lobby: Arc<Lobby>,
    peer: Peer,
    dismissed: Arc<Notify>,
    admitted: Mutex<bool>,
}

impl Visit {
    /// The stranger has proved who it is. False if there is no place.
    pub(crate) fn admit(&self) -> bool {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        if !*admitted {
            *admitted = self.lobby.guests.send_if_modified(|count| {
                let free = *count < GUESTS_MAX;
                *count += usize::from(free);
                free
            });
        }
        self.lobby.leave(&self.dismissed);
        *admitted
    }

    /// The connection has ended; why, if it was not let in.
    pub(crate) fn ended(&self, reason: NotLetIn) {
        if !*self.admitted.lock().unwrap_or_else(PoisonError::into_inner) {
            self.lobby.turn_away(reason, self.peer);
        }
    }

    /// Returns when a stranger has to go.
    pub(crate) fn dismissed(&self) -> impl Future<Output = ()> + use<> {
        let dismissed = Arc::clone(&self.dismissed);
        async move { dismissed.notified().await }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.lobby.leave(&self.dismissed);
        let admitted = self
            .admitted
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if *admitted {
            self.lobby.guests.send_modify(|count| *count -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer { uid: 0, pid: None };

    fn must_go(visit: &Visit) -> bool {
        // A permit is there exactly if somebody has sent it away.
        let waiting = std::pin::pin!(visit.dismissed());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.poll(&mut context).is_ready()
    }

    #[test]
    fn strangers_displace_each_other_and_no_guest() {
        let lobby = Lobby::new();
        let guest = lobby.enter(PEER);
        assert!(guest.admit());
        let strangers: Vec<_> = (0..=STRANGERS_MAX).map(|_| lobby.enter(PEER)).collect();
        assert!(!must_go(&guest));
        let gone = strangers.iter().filter(|visit| must_go(visit)).count();
        assert_eq!(gone, 1);
    }

    #[test]
    fn the_place_of_one_who_leaves_is_free() {
        let lobby = Lobby::new();
        let mut guests: Vec<_> = (0..GUESTS_MAX).map(|_| lobby.enter(PEER)).collect();
        assert!(guests.iter().all(|visit| visit.admit()));
        let late = lobby.enter(PEER);
        assert!(!late.admit());
        guests.pop();
        lobby.enter(PEER).ended(NotLetIn::Left);
        assert_eq!(lobby.turned_away(), 1);
        late.ended(NotLetIn::Full);
        assert_eq!(lobby.book().len(), 2);
        assert!(late.admit());
        assert!(lobby.strangers().is_empty());
    }
}
