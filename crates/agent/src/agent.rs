use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::driver::drive;
use crate::machine::Machine;
use crate::{Backend, Checkpoint, Config, Error, Hands, History, Notice, Queued, State, Usage};

/// Starts agents.
#[derive(Debug)]
pub struct Agent;

impl Agent {
    /// Starts an agent on the current tokio runtime, from a checkpoint or from
    /// nothing ([`Checkpoint::default`]). It waits for a command: a restored
    /// one does not go on by itself.
    ///
    /// `sink` is told everything in order, from the agent's task; it should
    /// return soon. It is dropped when the agent has ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn(
        backend: Arc<dyn Backend>,
        hands: Arc<dyn Hands>,
        config: Config,
        from: Checkpoint,
        sink: impl FnMut(Notice) + Send + 'static,
    ) -> Handle {
        let machine = Machine::new(backend, config, from, fastrand::u64(..));
        let shared = Arc::new(Shared {
            machine: Mutex::new(machine),
            wake: Notify::new(),
        });
        let (ended, wait) = watch::channel(());
        let driven = Driven {
            shared: Arc::clone(&shared),
            _ended: ended,
        };
        tokio::spawn(async move { drive(&driven.shared, hands, sink).await });
        Handle {
            owner: Arc::new(Owner { shared }),
            ended: wait,
        }
    }
}

/// The machine, and how its driver is woken.
pub(crate) struct Shared {
    machine: Mutex<Machine>,
    pub(crate) wake: Notify,
}

impl Shared {
    /// The machine. It is never held while something is waited for.
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever drives the machine has it. Should a panic of a back end or of hands
/// end the driver, later commands are refused instead of waiting for nobody.
struct Driven {
    shared: Arc<Shared>,
    /// Tells those who wait that nothing happens any more.
    _ended: watch::Sender<()>,
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.shared.machine().end();
    }
}

/// The last one ends the agent.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.machine().end();
        self.shared.wake.notify_one();
    }
}

/// A running agent. Every command takes effect before it returns: after
/// [`prompt`](Self::prompt) the prompt is in the queue, or its turn has begun.
/// Dropping the last handle is [`end`](Self::end) without waiting.
#[derive(Clone)]
pub struct Handle {
    owner: Arc<Owner>,
    ended: watch::Receiver<()>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Gives a prompt. Its turn begins at once, or when those before it are
    /// over. Returns the number it has in the queue.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::LongPrompt`], [`Error::QueueFull`],
    /// [`Error::Ended`].
    pub fn prompt(&self, text: impl Into<String>) -> Result<u64, Error> {
        self.command(|machine| machine.prompt(text.into()))
    }

    /// The prompts that wait, oldest first. Reading takes none of them.
    #[must_use]
    pub fn queue(&self) -> Vec<Queued> {
        self.machine().queue()
    }

    /// Takes a prompt out of the queue.
    ///
    /// # Errors
    /// [`Error::NotQueued`], [`Error::Ended`].
    pub fn remove(&self, number: u64) -> Result<(), Error> {
        self.command(|machine| machine.remove(number))
    }

    /// Stops what runs: the reply so far stays, finished calls keep their
    /// results, running ones are ended. Then the next prompt of the queue
    /// begins. Returns whether something ran.
    pub fn stop(&self) -> bool {
        self.command(Machine::stop)
    }

    /// Goes on with a turn that a stop, a failure, a limit or a restart has
    /// ended before the model was done; else with the queue, which a failure,
    /// a limit and a restart leave waiting.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NothingToResume`], [`Error::Ended`].
    pub fn resume(&self) -> Result<(), Error> {
        self.command(Machine::resume)
    }

    /// Has the model summarise the older part of the history: at once, or
    /// before the next request if a turn runs.
    ///
    /// # Errors
    /// [`Error::NothingToCompact`], [`Error::Ended`].
    pub fn compact(&self) -> Result<(), Error> {
        self.command(Machine::compact)
    }

    /// Forgets the history.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Ended`].
    pub fn clear(&self) -> Result<(), Error> {
        self.command(Machine::clear)
    }

    /// Changes how the agent works, from its next request on.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn configure(&self, config: Config) -> Result<(), Error> {
        self.command(|machine| machine.configure(config))
    }

    /// Has another model make the replies, from the next request on.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn set_backend(&self, backend: Arc<dyn Backend>, model: String) -> Result<(), Error> {
        self.command(|machine| machine.set_backend(backend, model))
    }

    /// How the agent works now.
    #[must_use]
    pub fn config(&self) -> Config {
        self.machine().config().clone()
    }

    /// Everything that a restart would need now.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        self.machine().checkpoint()
    }

    /// What was said and done. A round in flight is not in it.
    #[must_use]
    pub fn history(&self) -> History {
        self.machine().history().clone()
    }

    /// Tokens of all requests so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.machine().usage()
    }

    /// What it is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.machine().state().clone()
    }

    /// How many tokens the next request holds: as the provider has counted
    /// them, and an estimate of what came since.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.machine().context_tokens()
    }

    /// Ends the agent: what runs is stopped, a last checkpoint is told, the
    /// sink is dropped. Returns when that is done; every later command is
    /// refused.
    pub async fn end(&self) {
        self.command(Machine::end);
        self.ended().await;
    }

    /// Waits until the agent has ended.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // Nothing is ever sent: the error says that the sender is gone.
        while ended.changed().await.is_ok() {}
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.owner.shared.machine()
    }

    fn command<T>(&self, command: impl FnOnce(&mut Machine) -> T) -> T {
        let result = command(&mut self.machine());
        self.owner.shared.wake.notify_one();
        result
    }
}
