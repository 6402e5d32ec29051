use std::sync::Arc;

use ollie_agent::Backend;

use super::{Session, lock};
use crate::settings::Key;
use crate::{Error, Settings};

/// What the words of `ctl` are, for whoever writes another.
const WORDS: &str = "stop, kill, resume, save, compact, clear, connect, reconnect, model M, \
                     backend B, agent A, rename NAME, trust SHA256, \
                     approve ID DIGEST, deny ID";

/// What is asked of a session. Each is checked before it is accepted.
impl Session {
    /// Submits a prompt, or queues it if a turn runs.
    pub(crate) fn prompt(self: &Arc<Self>, text: String) -> Result<(), Error> {
        let agent = self.agent()?;
        agent.prompt(text)?;
        // Whoever was told that it is taken may rely on it.
        self.save(&agent.checkpoint())
    }

    /// Does one command of `ctl`.
    pub(crate) async fn command(self: &Arc<Self>, word: &str, rest: &str) -> Result<(), Error> {
        match (word, rest) {
            ("stop", "") => {
                self.stop();
            }
            ("kill", "") => {
                self.stop();
                self.link.end().await;
            }
            ("resume", "") => self.agent()?.resume()?,
            ("compact", "") => self.agent()?.compact()?,
            ("clear", "") => self.agent()?.clear()?,
            ("save", "") => self.save(&self.agent()?.checkpoint())?,
            ("connect", "") => self.connect(),
            ("reconnect", "") => {
                self.link.end().await;
                self.connect();
            }
            ("model", model) if !model.is_empty() => {
                self.configure(Key::Model, model)?;
            }
            ("backend", backend) if !backend.is_empty() => {
                self.configure(Key::Backend, backend)?;
            }
            ("agent", agent) if !agent.is_empty() => {
                self.configure(Key::Agent, agent)?;
            }
            ("trust", digest) if !digest.is_empty() => {
                self.configure(Key::Trust, digest)?;
            }
            ("approve", rest) if !rest.is_empty() => {
                let (id, digest) = rest.split_once(' ').unwrap_or((rest, ""));
                self.answer(id, Some(digest)).await?;
            }
            ("deny", id) if !id.is_empty() => self.answer(id, None).await?,
            _ => {
                return Err(Error::Setting(format!(
                    "{:?} is no command; there are {WORDS}",
                    format!("{word} {rest}").trim_end()
                )));
            }
        }
        Ok(())
    }

    /// Ends what runs and keeps what is finished.
    fn stop(&self) {
        if let Some(agent) = &*lock(&self.agent) {
            agent.stop();
        }
    }

    /// Changes the queue: `remove NUMBER`.
    pub(crate) fn edit_queue(self: &Arc<Self>, text: &str) -> Result<(), Error> {
        let number = text
            .trim_end_matches('\n')
            .strip_prefix("remove ")
            .and_then(|number| number.parse().ok());
        let Some(number) = number else {
            return Err(Error::Setting(
                "write `remove NUMBER`, with a number that a read shows; prompts are written to \
                 prompt"
                    .to_owned(),
            ));
        };
        self.agent()?.remove(number)?;
        Ok(())
    }

    fn configure(self: &Arc<Self>, key: Key, value: &str) -> Result<(), Error> {
        let change = self.prepare(&[(key, value.to_owned())])?;
        self.apply(change)
    }

    /// Checks other settings, all of them.
    pub(crate) fn prepare(&self, said: &[(Key, String)]) -> Result<Change, Error> {
        let before = self.settings();
        let after = self.house.filled(said, Some(&before))?;
        if after.remote != before.remote || after.cwd != before.cwd {
            return Err(Error::NotNow(
                "where a session works is said when it is made: make another one".to_owned(),
            ));
        }
        let settings = self.house.checked(&self.id(), after)?;
        let moves = other_hands(&before, &settings);
        if moves {
            self.check_idle()?;
        }
        let awake = lock(&self.agent).is_some();
        let backend = if awake && settings.backend != before.backend {
            Some((self.house.open_backend)(&settings.backend)?)
        } else {
            None
        };
        Ok(Change {
            settings,
            backend,
            moves,
        })
    }

    /// Changes the settings.
    pub(crate) fn apply(self: &Arc<Self>, change: Change) -> Result<(), Error> {
        let settings = change.settings;
        self.keep(|record| record.settings = settings)?;
        let agent = lock(&self.agent).clone();
        if let Some(agent) = agent {
            let config = self.config(&self.persona()?)?;
            if let Some(backend) = change.backend {
                agent.set_backend(backend, config.model.clone())?;
            }
            agent.configure(config)?;
        }
        if change.moves {
            let link = Arc::clone(&self.link);
            tokio::spawn(async move { link.end().await });
        }
        Ok(())
    }
}

/// Settings that were checked.
#[derive(Debug)]
pub(crate) struct Change {
    settings: Settings,
    /// Another one than before.
    backend: Option<Arc<dyn Backend>>,
    /// The toolsrv has to be started anew.
    moves: bool,
}

/// Whether the tools run under other conditions.
fn other_hands(one: &Settings, other: &Settings) -> bool {
    let conditions = |settings: &Settings| {
        (
            settings.sandbox.clone(),
            settings.transport.clone(),
            settings.trust.clone(),
            settings.yolo,
        )
    };
    conditions(one) != conditions(other)
}
