use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

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
    guests: Arc<Semaphore>,
    turned_away: AtomicU64,
}

impl Lobby {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            strangers: Mutex::default(),
            guests: Arc::new(Semaphore::new(GUESTS_MAX)),
            turned_away: AtomicU64::new(0),
        })
    }

    /// Somebody was not let in.
    pub(crate) fn turn_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were not let in so far.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// A stranger comes in.
    pub(crate) fn enter(self: &Arc<Self>) -> Visit {
        let dismissed = Arc::new(Notify::new());
        let mut strangers = self.strangers();
        strangers.push_back(Arc::clone(&dismissed));
        if strangers.len() > STRANGERS_MAX
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.notify_one();
        }
        drop(strangers);
        Visit {
            lobby: Arc::clone(self),
            dismissed,
            place: Mutex::new(None),
        }
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
    dismissed: Arc<Notify>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Visit {
    /// The stranger has proved who it is. False if there is no place.
    pub(crate) fn admit(&self) -> bool {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            *place = Arc::clone(&self.lobby.guests).try_acquire_owned().ok();
        }
        self.lobby.leave(&self.dismissed);
        place.is_some()
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
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            self.lobby.turn_away();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must_go(visit: &Visit) -> bool {
        // A permit is there exactly if somebody has sent it away.
        let waiting = std::pin::pin!(visit.dismissed());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.poll(&mut context).is_ready()
    }

    #[test]
    fn strangers_displace_each_other_and_no_guest() {
        let lobby = Lobby::new();
        let guest = lobby.enter();
        assert!(guest.admit());
        let strangers: Vec<_> = (0..=STRANGERS_MAX).map(|_| lobby.enter()).collect();
        assert!(!must_go(&guest));
        let gone = strangers.iter().filter(|visit| must_go(visit)).count();
        assert_eq!(gone, 1);
    }

    #[test]
    fn the_place_of_one_who_leaves_is_free() {
        let lobby = Lobby::new();
        let mut guests: Vec<_> = (0..GUESTS_MAX).map(|_| lobby.enter()).collect();
        assert!(guests.iter().all(Visit::admit));
        let late = lobby.enter();
        assert!(!late.admit());
        guests.pop();
        drop(lobby.enter());
        assert_eq!(lobby.turned_away(), 1);
        assert!(late.admit());
        assert!(lobby.strangers().is_empty());
    }
}
