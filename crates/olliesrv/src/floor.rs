//! Who may ask on the terminal: one question at a time, and none while the
//! person writes a line.

use tokio::sync::watch;

/// The terminal as questions see it; free at first. A chat closes it while its
/// editor reads.
#[derive(Debug, Default)]
pub(crate) struct Floor(watch::Sender<Held>);

#[derive(Debug, Default)]
struct Held {
    /// Questions of ssh are refused.
    closed: bool,
    /// ssh asks.
    taken: bool,
    /// Something else asks; ssh's question waits.
    lent: bool,
}

/// ssh has the terminal until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'f>(&'f Floor);

impl Floor {
    /// Lets ssh ask.
    pub(crate) fn open(&self) {
        self.0.send_modify(|held| held.closed = false);
    }

    /// Refuses what ssh asks now and from now on, and waits until it has left
    /// the terminal.
    pub(crate) async fn close(&self) {
        self.0.send_modify(|held| held.closed = true);
        self.quiet().await;
    }

    /// Whether ssh asks just now.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.borrow().taken
    }

    /// Returns as soon as ssh asks nothing.
    pub(crate) async fn quiet(&self) {
        self.until(|held| !held.taken).await;
    }

    /// Returns as soon as questions are refused.
    pub(crate) async fn closed(&self) {
        self.until(|held| held.closed).await;
    }

    /// Waits until ssh asks nothing, and keeps it from asking until
    /// [`Floor::give_back`]. It is not lent if this is dropped while it waits.
    pub(crate) async fn lend(&self) {
        let lend = |held: &mut Held| {
            held.lent |= !held.taken;
            held.lent
        };
        while !self.0.send_if_modified(lend) {
            self.quiet().await;
        }
    }

    /// Lets ssh ask after another question.
    pub(crate) fn give_back(&self) {
        self.0.send_modify(|held| held.lent = false);
    }

    /// Waits for room, and takes it.
    pub(crate) async fn take(&self) -> Taken<'_> {
        let take = |held: &mut Held| {
            let free = !(held.closed || held.taken || held.lent);
            held.taken |= free;
            free
        };
        while !self.0.send_if_modified(take) {
            self.until(|held| !(held.closed || held.taken || held.lent))
                .await;
        }
        Taken(self)
    }

    async fn until(&self, is: impl Fn(&Held) -> bool) {
        // The sender is ours, so it lives.
        let _ = self.0.subscribe().wait_for(|held| is(held)).await;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|held| held.taken = false);
    }
}
