use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use super::{Session, lock};
use crate::question::ROWS_MAX;
use crate::{Error, question};
use ollie_agent::{Event, Place, RuledBy, State};
use ollie_deploy::Kept;
use ollie_protocol::{Ask, CallId, HostFacts, Ruling};

/// Digits of a digest that an approval names at least.
const DIGITS_MIN: usize = 8;

/// Questions that wait for the person, by the names of their calls in toolsrv.
pub(super) type Asks = BTreeMap<CallId, Waiting>;

/// One of them.
pub(super) struct Waiting {
    /// The call as the model named it.
    call: String,
    ask: Ask,
    place: Place,
    /// Seconds since 1970.
    at: u64,
    until: Instant,
    /// Where the answer goes.
    kept: Kept,
    /// Whether one is on its way: toolsrv may act on it before it answers.
    answered: bool,
}

impl Waiting {
    fn event(&self) -> Event {
        let left = self.until.saturating_duration_since(Instant::now());
        Event::Ask {
            id: self.call.clone(),
            at: self.at,
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            digest: self.ask.call.digest(),
            call: Box::new(self.ask.call.clone()),
            place: self.place.clone(),
        }
    }
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

    /// A call of the model's asks, on this toolsrv, whose host is `host`. What
    /// is too long to be judged is denied at once, and why is returned.
    ///
    /// # Errors
    /// That the answer did not reach toolsrv.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        (call, tool): (&str, &str),
        ask: Ask,
        host: &HostFacts,
        kept: &Kept,
    ) -> Result<Result<Asking, String>, ollie_client::Error> {
        let id = ask.call.id.clone();
        let place = Place {
            host: self.settings().remote,
            user: host.user.clone(),
            root: host.uid == 0,
        };
        let rows = question(&ask.call, &place).len();
        if rows > ROWS_MAX {
            let ruling = Ruling {
                id,
                digest: ask.call.digest(),
                approve: false,
            };
            kept.conn().rule(&ruling).await?;
            let why = format!("too long to be judged: {rows} rows, and {ROWS_MAX} are the most");
            self.tell(&Event::Info {
                text: format!(
                    "a command asks to run outside of the sandbox, and was denied: it is {why}"
                ),
            });
            return Ok(Err(why));
        }
        let waiting = Waiting {
            call: call.to_owned(),
            place,
            at: now(),
            until: Instant::now() + Duration::from_millis(ask.left_ms),
            ask,
            kept: kept.clone(),
            answered: false,
        };
        let event = waiting.event();
        // It can be answered as soon as it is told.
        lock(&self.asks).insert(id.clone(), waiting);
        self.tell(&event);
        self.tell_state(State::Asking(tool.to_owned()));
        Ok(Ok(Asking {
            session: Arc::downgrade(self),
            id,
        }))
    }

    /// The person's answer to one that waits: approved are those whose digest
    /// begins so, else it is denied.
    pub(super) async fn answer(&self, id: &str, approved: Option<&str>) -> Result<(), Error> {
        let approve = approved.is_some();
        let means = |waiting: &Waiting| {
            approved.is_none_or(|said| {
                let digest = waiting.ask.call.digest();
                said.len() >= DIGITS_MIN && digest.starts_with(&said.to_ascii_lowercase())
            })
        };
        let asked = lock(&self.asks)
            .iter_mut()
            .find(|(known, _)| known.as_str() == id)
            .map(|(id, waiting)| {
                if !means(waiting) {
                    return Err(Error::NotNow(format!(
                        "write `approve {id} DIGEST`, with {DIGITS_MIN} or more digits of the \
                         digest that asks shows for what you approve of"
                    )));
                }
                waiting.answered = true;
                Ok((id.clone(), waiting.ask.call.digest(), waiting.kept.clone()))
            })
            .transpose()?;
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
        super::shown::lines(asks.values().map(Waiting::event))
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
