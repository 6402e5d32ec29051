use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use ollie_agent::{Event, RuledBy, State};
use ollie_deploy::Kept;
use ollie_protocol::{Ask, CallId, Ruling};
use serde_json::json;

use super::{Session, lock};
use crate::Error;

/// Questions that wait for the person, by the names of their calls in toolsrv.
pub(super) type Asks = BTreeMap<CallId, Waiting>;

/// One of them.
pub(super) struct Waiting {
    /// The call as the model named it.
    call: String,
    ask: Ask,
    until: Instant,
    /// Where the answer goes.
    kept: Kept,
    /// Whether one is on its way: toolsrv may act on it before it answers.
    answered: bool,
}

/// A question for as long as it waits.
pub(crate) struct Asking {
    session: Weak<Session>,
    id: CallId,
}

impl Asking {
    /// It waits no more, as toolsrv says.
    pub(crate) fn over(self, approved: bool) {
        if let Some(session) = self.session.upgrade() {
            session.ruled(&self.id, approved, None);
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.ruled(&self.id, false, Some(RuledBy::End));
        }
    }
}

/// What calls ask of the person.
impl Session {
    /// Whether a call may ask, and it would make a difference.
    pub(crate) fn may_ask(&self) -> bool {
        self.house.asks && !self.settings().yolo
    }

    /// A call of the model's asks, on this toolsrv.
    pub(crate) fn ask(self: &Arc<Self>, call: &str, tool: &str, ask: Ask, kept: Kept) -> Asking {
        let id = ask.call.id.clone();
        let event = Event::Ask {
            id: call.to_owned(),
            at: now(),
            left_ms: ask.left_ms,
            digest: ask.call.digest(),
            call: Box::new(ask.call.clone()),
        };
        let waiting = Waiting {
            call: call.to_owned(),
            until: Instant::now() + Duration::from_millis(ask.left_ms),
            ask,
            kept,
            answered: false,
        };
        // It can be answered as soon as it is told.
        lock(&self.asks).insert(id.clone(), waiting);
        self.tell(&event);
        self.tell_state(State::Asking(tool.to_owned()));
        Asking {
            session: Arc::downgrade(self),
            id,
        }
    }

    /// The person's answer to one that waits.
    pub(super) async fn answer(&self, id: &str, approve: bool) -> Result<(), Error> {
        let asked = lock(&self.asks)
            .iter_mut()
            .find(|(known, _)| known.as_str() == id)
            .map(|(id, waiting)| {
                waiting.answered = true;
                (id.clone(), waiting.ask.call.digest(), waiting.kept.clone())
            });
        let Some((id, digest, kept)) = asked else {
            return Err(Error::NotNow(format!(
                "no question {id:?} waits: read asks for those that do"
            )));
        };
        let ruling = Ruling {
            id,
            digest,
            approve,
        };
        let ruled = tokio::select! {
            ruled = kept.conn().rule(&ruling) => ruled,
            quiet = kept.silence() => {
                let seconds = quiet.as_secs();
                return Err(Error::NotNow(format!("the host was silent for {seconds} s")));
            }
        };
        ruled.map_err(|error| Error::NotNow(ollie_protocol::chain(&error)))?;
        self.ruled(&ruling.id, approve, Some(RuledBy::Ctl));
        Ok(())
    }

    /// A question waits no more; told once. Without a `by` toolsrv knows no
    /// more than the answer.
    fn ruled(&self, id: &CallId, approved: bool, by: Option<RuledBy>) {
        let (waiting, more) = {
            let mut asks = lock(&self.asks);
            (asks.remove(id), !asks.is_empty())
        };
        let Some(waiting) = waiting else {
            return;
        };
        let late = !approved && waiting.until <= Instant::now() + Duration::from_secs(1);
        let by = by.unwrap_or(match (waiting.answered, late) {
            (true, _) => RuledBy::Ctl,
            (_, true) => RuledBy::Time,
            _ => RuledBy::Toolsrv,
        });
        self.tell(&Event::Ruling {
            id: waiting.call,
            ask: id.clone(),
            at: now(),
            approved,
            by,
        });
        if !more {
            let doing = lock(&self.doing).clone();
            self.tell_state(doing);
        }
    }

    /// The file `asks`.
    pub(crate) fn asks(&self) -> Vec<u8> {
        let asks = lock(&self.asks);
        let records = asks.values().map(|waiting| {
            let left = waiting.until.saturating_duration_since(Instant::now());
            json!({
                "id": waiting.call,
                "left_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
                "digest": waiting.ask.call.digest(),
                "call": waiting.ask.call,
            })
        });
        super::shown::lines(records)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
