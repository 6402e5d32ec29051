//! One session: its settings, its agent, its hands, its logs.

mod asks;
mod orders;
mod shown;
mod told;

pub(crate) use told::blocking;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ollie_agent::{Agent, Checkpoint, Handle, SkilledHands, State};

use crate::chat::Scribe;
use crate::hands::SessionHands;
use crate::link::{Link, Status};
use crate::log::{Broken, Log};
use crate::record::Record;
use crate::states::States;
use crate::store::Held;
use crate::{Error, House, SessionId, Settings};

/// A session. Idle ones hold no process, no descriptor and no history: the
/// agent comes with the first prompt, the toolsrv with the first call.
pub struct Session {
    house: Arc<House>,
    number: u64,
    link: Arc<Link>,
    chat: Log,
    events: Log,
    scribe: Mutex<Scribe>,
    states: States,
    /// What the agent is doing; [`States`] also knows of connecting without
    /// it.
    doing: Mutex<State>,
    known: Arc<Mutex<Known>>,
    /// What the person is asked.
    asks: Mutex<asks::Asks>,
    /// The agent, once there was something for it to do.
    agent: Mutex<Option<Handle>>,
    /// Its directory, from the first change on until its end.
    held: Mutex<Option<Held>>,
}

/// What a session is called and set to.
#[derive(Debug)]
struct Known {
    id: SessionId,
    record: Record,
    removed: bool,
}

impl Session {
    /// One that is stored already.
    pub(crate) fn new(
        house: &Arc<House>,
        number: u64,
        id: SessionId,
        record: Record,
    ) -> Result<Arc<Self>, Error> {
        let [chat, events] = house.store.logs(&id);
        let chat = Log::at(chat, Broken::Ended)?;
        let events = Log::at(events, Broken::Removed)?;
        let known = Arc::new(Mutex::new(Known {
            id,
            record,
            removed: false,
        }));
        let ground = {
            let (house, known) = (Arc::clone(house), Arc::clone(&known));
            move |tell| {
                let (id, settings) = {
                    let known = lock(&known);
                    (known.id.clone(), known.record.settings.clone())
                };
                (house.ground)(&id, &settings, tell)
            }
        };
        Ok(Arc::new_cyclic(|me: &Weak<Self>| {
            let me = me.clone();
            let told = move |status: &Status| {
                if let Some(session) = me.upgrade() {
                    session.link_changed(status);
                }
            };
            Self {
                house: Arc::clone(house),
                number,
                link: Arc::new(Link::new(
                    Box::new(ground),
                    house.config.join("tools"),
                    Arc::new(told),
                )),
                chat,
                events,
                scribe: Mutex::default(),
                states: States::default(),
                doing: Mutex::default(),
                known,
                asks: Mutex::default(),
                agent: Mutex::default(),
                held: Mutex::default(),
            }
        }))
    }

    /// Says in the logs if a turn was cut off by the end of the last olliesrv.
    pub(crate) fn mend(&self, _held: &Held) {
        if self.was_cut_off() {
            self.tell_state(State::Failed);
            self.tell(&ollie_agent::Event::Info {
                text: "olliesrv was ended during a turn; what had not finished is not part of \
                       the history, and `resume` goes on"
                    .to_owned(),
            });
            self.rest();
        }
    }

    /// What follows the making of a session: another host is connected to
    /// meanwhile.
    pub(crate) fn begin(self: &Arc<Self>) {
        if self.settings().remote.is_some() {
            self.connect();
        }
    }

    /// Connects in the background.
    pub(crate) fn connect(self: &Arc<Self>) {
        let session = Arc::clone(self);
        // At once: whoever ordered it may wait for the end of this state.
        session.tell_unless_busy(ollie_agent::State::Connecting);
        tokio::spawn(async move {
            if let Err(error) = session.link.get().await {
                session.tell(&ollie_agent::Event::Error {
                    text: error.to_string(),
                });
            }
            let doing = lock(&session.doing).clone();
            session.tell_unless_busy(doing);
        });
    }

    /// The agent; it is made of what is stored if there is none yet.
    pub(crate) fn agent(self: &Arc<Self>) -> Result<Handle, Error> {
        let mut agent = lock(&self.agent);
        if let Some(agent) = &*agent {
            return Ok(agent.clone());
        }
        let checkpoint = self.take()?;
        let name = self.settings().backend;
        let backend = told::blocking(|| (self.house.open_backend)(&name))?;
        let persona = self.persona()?;
        let config = self.config(&persona)?;
        let hands = SessionHands::new(self, self.house.policy())?;
        let hands = Arc::new(hands);
        let hands = Arc::new(SkilledHands::new(hands, persona.into_skills()));
        let me = Arc::downgrade(self);
        let sink = move |notice| {
            if let Some(session) = me.upgrade() {
                session.notice(notice);
            }
        };
        let made = Agent::spawn(backend, hands, config, checkpoint, sink);
        Ok(agent.insert(made).clone())
    }

    /// Takes the session's directory, and gives what is stored in it.
    fn take(&self) -> Result<Checkpoint, Error> {
        let mut held = lock(&self.held);
        let held = match &mut *held {
            Some(held) => held,
            none => none.insert(self.house.store.hold(&self.id())?),
        };
        let (checkpoint, told) = held.history::<Checkpoint>()?;
        if let Some(text) = told {
            (self.house.tell)(&text);
            self.tell(&ollie_agent::Event::Info { text });
        }
        Ok(checkpoint.unwrap_or_default())
    }

    /// Changes what is kept of the session, on the disk first.
    fn keep(&self, change: impl FnOnce(&mut Record)) -> Result<(), Error> {
        let mut held = lock(&self.held);
        let mut known = lock(&self.known);
        let held = match &mut *held {
            Some(held) => held,
            none => none.insert(self.house.store.hold(&known.id)?),
        };
        let mut record = known.record.clone();
        change(&mut record);
        held.save_record(&record)?;
        known.record = record;
        Ok(())
    }

    pub(crate) fn rename(&self, to: SessionId) -> Result<(), Error> {
        self.check_idle()?;
        let mut held = lock(&self.held);
        let mut known = lock(&self.known);
        let held = match &mut *held {
            Some(held) => held,
            none => none.insert(self.house.store.hold(&known.id)?),
        };
        self.house.store.rename(held, &to)?;
        let [chat, events] = self.house.store.logs(&to);
        self.chat.moved(chat);
        self.events.moved(events);
        known.id = to;
        Ok(())
    }

    /// Removes what is stored; what runs is ended meanwhile.
    pub(crate) fn remove(self: &Arc<Self>) -> Result<(), Error> {
        {
            let mut held = lock(&self.held);
            let mut known = lock(&self.known);
            if known.removed {
                return Err(Error::Unknown(known.id.to_string()));
            }
            let held = match &mut *held {
                Some(held) => held,
                none => none.insert(self.house.store.hold(&known.id)?),
            };
            self.house.store.remove(held)?;
            known.removed = true;
        }
        self.states.close();
        self.chat.close();
        self.events.close();
        let session = Arc::clone(self);
        tokio::spawn(async move { session.end().await });
        Ok(())
    }

    /// Stops what runs, saves it, and ends the toolsrv.
    pub(crate) async fn end(&self) {
        let agent = lock(&self.agent).take();
        if let Some(agent) = agent {
            agent.end().await;
        }
        self.link.end().await;
        self.rest();
        *lock(&self.held) = None;
    }

    /// Idle sessions hold no descriptors for their logs.
    fn rest(&self) {
        self.chat.rest();
        self.events.rest();
    }

    pub(crate) fn check_idle(&self) -> Result<(), Error> {
        if lock(&self.doing).is_busy() {
            return Err(Error::NotNow(
                "a turn is running: write stop to ctl first".to_owned(),
            ));
        }
        Ok(())
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> SessionId {
        lock(&self.known).id.clone()
    }

    /// What it is set to.
    #[must_use]
    pub fn settings(&self) -> Settings {
        lock(&self.known).record.settings.clone()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    pub(crate) fn chat(&self) -> &Log {
        &self.chat
    }

    pub(crate) fn events(&self) -> &Log {
        &self.events
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.id())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
