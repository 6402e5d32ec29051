use ollie_agent::{Checkpoint, Config, Handle, Queued, Usage, Variables};
use serde::Serialize;
use serde_json::json;

use super::{Session, lock};
use crate::Error;
use crate::link::Status;
use crate::persona::Persona;
use crate::prime;
use crate::settings::Key;

/// What the files of a session show. Showing changes nothing.
impl Session {
    /// Its line of `idx`.
    pub(crate) fn index_line(&self) -> String {
        let known = lock(&self.known);
        let settings = &known.record.settings;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        format!(
            "{}\t{}\t{}\t{}\t{}\t{}\n",
            known.id,
            self.states.now(),
            text(&settings.cwd),
            settings.backend,
            settings.model,
            text(&settings.remote),
        )
    }

    /// The file `cfg`.
    pub(crate) fn cfg(&self) -> String {
        let known = lock(&self.known);
        let line = |(key, name)| match key {
            Key::Name => format!("{name}={}\n", known.id),
            key => format!("{name}={}\n", known.record.settings.get(key)),
        };
        Key::ALL.into_iter().map(line).collect()
    }

    /// The file `queue`.
    pub(crate) fn queue(&self) -> Result<Vec<u8>, Error> {
        let queue = match &*lock(&self.agent) {
            Some(agent) => agent.queue(),
            None => {
                let texts = self.stored()?.queue.into_iter();
                let queued = |(number, text)| Queued { number, text };
                (1..).zip(texts).map(queued).collect()
            }
        };
        Ok(lines(&queue))
    }

    /// The file `context`.
    pub(crate) fn context(&self) -> Result<Vec<u8>, Error> {
        let history = match &*lock(&self.agent) {
            Some(agent) => agent.history(),
            None => self.stored()?.history,
        };
        Ok(lines(history.entries()))
    }

    /// The file `systemprompt`.
    pub(crate) fn system_prompt(&self) -> Result<Vec<u8>, Error> {
        Ok(self.config(&self.persona()?)?.system.into_bytes())
    }

    /// The file `usage`.
    pub(crate) fn usage(&self) -> Result<Vec<u8>, Error> {
        Ok(lines([self.spent()?]))
    }

    fn spent(&self) -> Result<Usage, Error> {
        match &*lock(&self.agent) {
            Some(agent) => Ok(agent.usage()),
            None => Ok(self.stored()?.usage),
        }
    }

    /// The file `ctxsz`: tokens that the next request holds, and that the model
    /// takes.
    pub(crate) fn context_size(&self) -> Result<Vec<u8>, Error> {
        let about = (self.house.about_backend)(&self.settings().backend)?;
        // Only an agent counts; without one nothing was said since the start.
        let used = lock(&self.agent).as_ref().map(Handle::context_tokens);
        Ok(lines([
            json!({ "used": used, "window": about.context_window }),
        ]))
    }

    /// The file `env`: what a prompt is told of the place where tools run.
    pub(crate) fn env(&self) -> Result<Vec<u8>, Error> {
        let prime = self.prime();
        let text = format!(
            "PRIME_CWD={}\nPRIME_PLATFORM={}\nPRIME_IS_GIT_REPO={}\nPRIME_DATE={}\n",
            prime.cwd, prime.platform, prime.is_git_repo, prime.date
        );
        Ok(text.into_bytes())
    }

    fn prime(&self) -> Variables {
        let known = lock(&self.known);
        let record = &known.record;
        let prime = record.prime.clone();
        prime.unwrap_or_else(|| prime::guessed(&record.settings))
    }

    /// How its agent works.
    pub(super) fn config(&self, persona: &Persona) -> Result<Config, Error> {
        let settings = self.settings();
        let about = (self.house.about_backend)(&settings.backend)?;
        persona.config(self.id().as_str(), &settings, &about, &self.prime())
    }

    /// What its agent is.
    pub(super) fn persona(&self) -> Result<Persona, Error> {
        Persona::read(&self.house.config, &self.settings().agent)
    }

    /// The file `models`.
    pub(crate) async fn models(&self) -> Result<Vec<u8>, Error> {
        let backend = (self.house.open_backend)(&self.settings().backend)?;
        let models = backend.models().await;
        Ok(lines(
            models.map_err(|error| Error::NotNow(error.to_string()))?,
        ))
    }

    /// The file `remote`.
    pub(crate) fn remote(&self) -> Result<Vec<u8>, Error> {
        let status = self.link.status();
        let (word, detail) = match &status {
            Status::Unused => ("unused", None),
            Status::Connecting(step) | Status::Note(step) => ("connecting", Some(step.clone())),
            Status::Connected(_) => ("connected", None),
            Status::Failed(error) => ("failed", Some(error.clone())),
        };
        let about = self.link.met().map(|(_, about)| about);
        Ok(lines([json!({
            "target": self.settings().remote,
            "status": word,
            "detail": detail,
            "toolsrv": about.as_deref(),
        })]))
    }

    /// What is stored, of a session whose agent does not run.
    fn stored(&self) -> Result<Checkpoint, Error> {
        let stored = self.house.store.history(&self.id())?;
        Ok(stored.unwrap_or_default())
    }
}

/// A JSON record a line.
pub(super) fn lines<T: Serialize>(records: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut lines = Vec::new();
    for record in records {
        lines.extend(serde_json::to_vec(&record).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}
