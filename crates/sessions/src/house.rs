use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ollie_agent::Backend;
use ollie_deploy::ProcessKeeper;

use crate::persona::Persona;
use crate::settings::Key;
use crate::{Error, SessionId, Settings, Store};

/// What sessions need of the world around them.
pub struct House {
    /// Where they are kept.
    pub store: Store,
    /// Makes the keeper of a session's toolsrv, and starts nothing. It knows
    /// where that runs; nothing in this crate does.
    pub ground: Box<GroundOf>,
    /// What is known of a back end; an error if there is none of this name.
    pub about_backend: Box<AboutBackend>,
    /// Opens a back end by its name. Its key is looked up here and stays here.
    pub open_backend: Box<OpenBackend>,
    /// What the configuration has, as it is now.
    pub configured: Box<ConfiguredNow>,
    /// The directory of the user's configuration, with `agents`, `prompts` and
    /// `skills` in it.
    pub config: PathBuf,
    /// What a new session has where it was not said.
    pub defaults: Settings,
    /// Whether somebody can be asked to let a call out of the sandbox.
    pub asks: bool,
    /// Tells the person who runs this of what no client could be told.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

/// See [`House::ground`].
pub type GroundOf =
    dyn Fn(&SessionId, &Settings, Tell) -> Result<ProcessKeeper, Error> + Send + Sync;
/// Tells the person of a session, in its logs, of something about its tools.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;
/// See [`House::about_backend`].
pub type AboutBackend = dyn Fn(&str) -> Result<BackendFacts, Error> + Send + Sync;
/// See [`House::open_backend`].
pub type OpenBackend = dyn Fn(&str) -> Result<Arc<dyn Backend>, Error> + Send + Sync;

/// See [`House::configured`].
pub type ConfiguredNow = dyn Fn() -> Result<Configured, Error> + Send + Sync;

/// What sessions need of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configured {
    /// The back end of a session that names none; empty if there is none.
    pub backend: String,
    /// The back ends there are, with a line about each.
    pub backends: BTreeMap<String, String>,
    /// The hosts, with a text about each.
    pub remotes: BTreeMap<String, String>,
}

/// What is known of a back end without asking it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendFacts {
    /// Its model, where a session names none.
    pub model: String,
    /// That model's context in tokens, if it is known.
    pub context_window: Option<u64>,
}

impl House {
    /// Fills in what was not said, from the agent's file first. `before` are
    /// the settings that a session has already.
    pub(crate) fn filled(
        &self,
        said: &[(Key, String)],
        before: Option<&Settings>,
    ) -> Result<Settings, Error> {
        let mut settings = before.cloned().unwrap_or_default();
        for (key, value) in said {
            settings.set(*key, value.clone())?;
        }
        let is_said = |key| said.iter().any(|(said, _)| *said == key);
        let defaults = before.is_none().then_some(&self.defaults);
        if let Some(defaults) = defaults {
            let known = &mut settings;
            fill(&mut known.agent, &defaults.agent);
            known.yolo |= defaults.yolo && !is_said(Key::Yolo);
            known.trust = known.trust.take().or(defaults.trust.clone());
            known.transport = known.transport.take().or(defaults.transport.clone());
            known.remote = known.remote.take().or(defaults.remote.clone());
            if known.remote == defaults.remote {
                known.cwd = known.cwd.take().or(defaults.cwd.clone());
            }
        }
        let file = Persona::read(&self.config, &settings.agent)?.file;
        // Another agent brings its own.
        if before.is_none() || is_said(Key::Agent) {
            for (key, value) in [
                (Key::Backend, &file.backend),
                (Key::Model, &file.model),
                (Key::Sandbox, &file.sandbox),
            ] {
                if let (Some(value), false) = (value, is_said(key)) {
                    settings.set(key, value.clone())?;
                }
            }
        }
        if let Some(defaults) = defaults {
            settings.sandbox = settings.sandbox.take().or(defaults.sandbox.clone());
            fill(&mut settings.backend, &defaults.backend);
            if settings.backend.is_empty() {
                settings.backend = (self.configured)()?.backend;
            }
            if settings.backend == defaults.backend {
                fill(&mut settings.model, &defaults.model);
            }
        }
        if before.is_some_and(|before| {
            before.backend != settings.backend && before.model == settings.model
        }) {
            // The other back end has other models.
            settings.model.clear();
        }
        Ok(settings)
    }

    /// Settings of which each was checked; with the back end's own model,
    /// where there is none.
    pub(crate) fn checked(
        &self,
        id: &SessionId,
        mut settings: Settings,
    ) -> Result<Settings, Error> {
        let about = (self.about_backend)(&settings.backend)?;
        fill(&mut settings.model, &about.model);
        if let (None, Some(cwd)) = (&settings.remote, &settings.cwd)
            && !cwd.starts_with('/')
        {
            return Err(Error::Setting(format!(
                "cwd={cwd}: write an absolute path of this machine"
            )));
        }
        (self.ground)(id, &settings, Arc::new(|_: &str| ()))?;
        Ok(settings)
    }

    /// The file `backends`.
    pub(crate) fn backends_text(&self) -> Result<String, Error> {
        let line = |(name, about): (&String, &String)| format!("{name}\t{about}\n");
        Ok((self.configured)()?.backends.iter().map(line).collect())
    }

    /// Where the user's own sandbox policy is, or would be.
    pub(crate) fn policy(&self) -> PathBuf {
        self.config.join("sandbox.yaml")
    }

    /// Directories of the configuration that the tree shows.
    pub(crate) fn folders(&self) -> [(&'static str, PathBuf); 3] {
        ["agents", "prompts", "skills"].map(|name| (name, self.config.join(name)))
    }
}

fn fill(value: &mut String, from: &str) {
    if value.is_empty() {
        from.clone_into(value);
    }
}

impl std::fmt::Debug for House {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("House")
            .field("store", &self.store)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
