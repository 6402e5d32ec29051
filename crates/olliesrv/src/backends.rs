//! The model back ends of this person, and where their keys are.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use ollie_agent::Backend;
use ollie_agent::backends::{ApiKey, BackendConfig, BackendKind, KeySource, Replay};
use ollie_sandbox::{Links, read_plain};
use ollie_sessions::BackendFacts;
use zeroize::Zeroizing;

use crate::config::Config;
use crate::error::Error;

/// What is built in, what the configuration says, and recordings by their
/// files.
#[derive(Debug)]
pub(crate) struct Backends {
    known: BTreeMap<String, BackendConfig>,
    default: Option<String>,
    open: Arc<OpenBackends>,
}

/// Back ends that can serve many sessions, once they were asked for, and what
/// each was opened with.
#[derive(Debug, Default)]
pub(crate) struct OpenBackends(Mutex<BTreeMap<String, Opened>>);

type Opened = (BackendConfig, Arc<dyn Backend>);

impl Backends {
    /// Those of a configuration; `open` outlives it.
    pub(crate) fn new(config: &Config, open: Arc<OpenBackends>) -> Self {
        let built_in = BackendConfig::built_in().into_iter();
        let mut known: BTreeMap<String, BackendConfig> = built_in
            .map(|(name, config)| (name.to_owned(), config))
            .collect();
        known.extend(config.backends.clone());
        Self {
            known,
            default: config.backend.clone(),
            open,
        }
    }

    /// That of a session which names none; empty if there is none.
    pub(crate) fn default_name(&self) -> String {
        self.default.clone().unwrap_or_default()
    }

    /// A line about each.
    pub(crate) fn described(&self) -> BTreeMap<String, String> {
        let line = |(name, config): (&String, &BackendConfig)| {
            let about = format!(
                "{}\t{}\t{}",
                kind(config.kind),
                config.url.as_deref().unwrap_or_default(),
                config.model.as_deref().unwrap_or_default()
            );
            (name.clone(), about)
        };
        self.known.iter().map(line).collect()
    }

    /// What is known of one. A recording that cannot be played is none.
    pub(crate) fn about(&self, name: &str) -> Result<BackendFacts, Error> {
        let config = self.config(name)?;
        let model = match config.kind {
            BackendKind::Replay => {
                self.open(name)?;
                Some(Replay::MODEL.to_owned())
            }
            _ => config.model,
        };
        Ok(BackendFacts {
            model: model.unwrap_or_default(),
            context_window: config.context,
        })
    }

    /// Opens one, with its key.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn Backend>, Error> {
        let config = self.config(name)?;
        // A recording serves one session.
        let shared = config.kind != BackendKind::Replay;
        let mut open = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some((with, backend))) = (shared, open.get(name))
            && *with == config
        {
            return Ok(Arc::clone(backend));
        }
        let failed = |problem: String| Error::Backend {
            name: name.to_owned(),
            problem,
        };
        let source = config
            .key_source()
            .map_err(|error| failed(error.to_string()))?;
        let key = key(source).map_err(failed)?;
        let backend = config
            .open(name, key)
            .map_err(|error| failed(chain(&error)))?;
        if shared {
            open.insert(name.to_owned(), (config, Arc::clone(&backend)));
        }
        Ok(backend)
    }

    fn config(&self, name: &str) -> Result<BackendConfig, Error> {
        if name.is_empty() {
            return Err(Error::NoBackend);
        }
        let known = self.known.get(name).cloned();
        known
            .or_else(|| BackendConfig::replay(name))
            .ok_or_else(|| Error::Backend {
                name: name.to_owned(),
                problem: format!(
                    "there is no such back end; there are {}, and replay:FILE",
                    self.known.keys().cloned().collect::<Vec<_>>().join(", ")
                ),
            })
    }
}

fn kind(kind: BackendKind) -> &'static str {
    match kind {
        BackendKind::OpenAi => "openai",
        BackendKind::Anthropic => "anthropic",
        BackendKind::Ollama => "ollama",
        BackendKind::Replay => "replay",
        _ => "other",
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Looks a key up. What goes wrong is told without a byte of it.
fn key(source: KeySource<'_>) -> Result<Option<ApiKey>, String> {
    let text = match source {
        KeySource::None => return Ok(None),
        KeySource::Env(name) => Zeroizing::new(
            std::env::var(name).map_err(|_| format!("its key is missing: set {name}"))?,
        ),
        KeySource::File(path) => Zeroizing::new(read(path)?),
        KeySource::Command(command) => ask(command)?,
    };
    ApiKey::new(text.as_str())
        .map(Some)
        .map_err(|error| format!("its key cannot be used: {error}"))
}

fn read(path: &Path) -> Result<String, String> {
    match read_plain(path, ApiKey::SIZE_MAX, Links::Followed) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(format!("its key is missing: {path:?} is not there")),
        Err(error) => Err(format!("cannot read its key from {path:?}: {error}")),
    }
}

/// Runs the program that prints a key.
fn ask(command: &[String]) -> Result<Zeroizing<String>, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("key_command is empty".to_owned());
    };
    let output = std::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {program:?} for its key: {error}"))?;
    let text = Zeroizing::new(output.stdout);
    if !output.status.success() {
        return Err(format!("{program:?} gave no key: {}", output.status));
    }
    std::str::from_utf8(&text)
        .map(|text| Zeroizing::new(text.to_owned()))
        .map_err(|_| format!("what {program:?} printed is no key"))
}
