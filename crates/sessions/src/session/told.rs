use ollie_agent::{Checkpoint, Event, Handle, Notice, State, Variables};

use super::{Session, lock};
use crate::link::{About, Status};
use crate::log::piece;
use crate::{Error, prime};

/// How far from the end of `events` the last state is looked for, bytes.
const LOOK_BACK: u64 = 1024 * 1024;

/// What happens in a session, and who is told.
impl Session {
    /// Takes what the agent says.
    pub(super) fn notice(&self, notice: Notice) {
        match notice {
            Notice::Event(Event::State { state }) => {
                *lock(&self.doing) = state.clone();
                self.tell_state(state);
            }
            Notice::Event(event) => self.tell(&event),
            Notice::Checkpoint(checkpoint) => {
                if let Err(error) = self.save(&checkpoint) {
                    let text = format!("the session is not saved: {error}");
                    (self.house.tell)(&format!("session {}: {text}", self.id()));
                    self.tell(&Event::Error { text });
                }
            }
        }
    }

    /// Saves what the agent has by now, which is `checkpoint` or later.
    pub(super) fn save(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let agent = lock(&self.agent).clone();
        let mut held = lock(&self.held);
        // Taken while nobody else saves: what is on the disk only grows.
        let now = agent.as_ref().map(Handle::checkpoint);
        match &mut *held {
            Some(held) if !lock(&self.known).removed => {
                blocking(|| held.save_history(now.as_ref().unwrap_or(checkpoint)))
            }
            _ => Ok(()),
        }
    }

    /// Writes an event into both logs.
    pub(super) fn tell(&self, event: &Event) {
        let chat = lock(&self.scribe).write(event);
        self.write(event, &chat);
    }

    /// Another state, if it is one.
    pub(super) fn tell_state(&self, state: State) {
        // The log first: whoever is woken by the state finds it there.
        if self.states.now() == state {
            return;
        }
        let event = Event::State {
            state: state.clone(),
        };
        self.write(&event, "");
        let rests = !state.is_busy();
        self.states.set(state);
        if rests {
            self.rest();
        }
    }

    fn write(&self, event: &Event, chat: &str) {
        if lock(&self.known).removed {
            return;
        }
        // An event has no map with keys that are not text, which is the one
        // thing that JSON cannot hold.
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        // The chat first: whoever reads the event finds it there.
        let written = match chat {
            "" => Ok(()),
            chat => self.chat.append(chat.as_bytes()),
        };
        if let Err(error) = written.and(self.events.append(&line)) {
            (self.house.tell)(&format!("session {}: {error}", self.id()));
        }
    }

    /// Takes what the way to toolsrv says.
    pub(super) fn link_changed(&self, status: &Status) {
        let doing = lock(&self.doing).clone();
        match status {
            Status::Connecting(step) => {
                // For programs only: a person sees the state.
                let text = format!("connecting: {step}");
                self.write(&Event::Info { text }, "");
                self.tell_unless_busy(State::Connecting);
                return;
            }
            Status::Note(text) => {
                self.tell(&Event::Info { text: text.clone() });
                return;
            }
            Status::Connected(about) => {
                if let Some(text) = about.arrived() {
                    self.tell(&Event::Info { text });
                }
                self.met(about);
            }
            Status::Unused => {}
            // Whoever needed it tells why, and then the state.
            Status::Failed(_) => return,
        }
        self.tell_unless_busy(doing);
    }

    /// Tells a state of the connection; that of a turn comes before it.
    pub(super) fn tell_unless_busy(&self, state: State) {
        if !lock(&self.doing).is_busy() {
            self.tell_state(state);
        }
    }

    /// A prompt is told what the tool host says of itself, from the next
    /// request on and after a restart.
    fn met(&self, about: &About) {
        let told = prime::told(about);
        {
            let known = lock(&self.known);
            let before = known.record.prime.as_ref();
            // Another day makes no other prompt.
            if before.is_some_and(|before| {
                Variables {
                    date: told.date.clone(),
                    ..before.clone()
                } == told
            }) {
                return;
            }
        }
        let changed = self
            .keep(|record| record.prime = Some(told))
            .and_then(|()| {
                let Some(agent) = lock(&self.agent).clone() else {
                    return Ok(());
                };
                let config = self.config(&self.persona()?)?;
                Ok(agent.configure(config)?)
            });
        if let Err(error) = changed {
            (self.house.tell)(&format!("session {}: {error}", self.id()));
        }
    }

    /// Whether the events end inside a turn.
    pub(super) fn was_cut_off(&self) -> bool {
        let length = self.events.length();
        let Ok(Some(file)) = self.events.open() else {
            return false;
        };
        let start = length.saturating_sub(LOOK_BACK);
        let count = u32::try_from(length - start).unwrap_or(u32::MAX);
        let Ok(bytes) = piece(&file, start, count, length) else {
            return false;
        };
        let last = bytes
            .rsplit(|&byte| byte == b'\n')
            .filter(|line| line.starts_with(br#"{"type":"state""#))
            .find_map(|line| serde_json::from_slice::<Event>(line).ok());
        match last {
            Some(Event::State { state }) => state.is_busy(),
            // Longer than this is only the output of a call.
            _ => start > 0,
        }
    }
}

/// Waits for the disk without keeping other sessions waiting, where there is
/// more than one thread.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
