use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{Anthropic, ApiKey, Endpoint, Ollama, OpenAi, Replay, SetupError, Thinking};
use crate::{Backend, duration};

/// What a configuration file says about a back end. A key that is not known is
/// an error.
///
/// ```yaml
/// backends:
///   work:
///     kind: openai
///     url: https://models.example.org/v1
///     key_command: [pass, show, models]
///     model: large
///     context: 128000
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendConfig {
    /// Which API it speaks.
    pub kind: BackendKind,
    /// Its base. Default: that of the provider.
    pub url: Option<String>,
    /// Name of the environment variable with the key.
    pub key_env: Option<String>,
    /// Program, with arguments and without a shell, that prints the key.
    pub key_command: Option<Vec<String>>,
    /// File with the key.
    pub key_file: Option<PathBuf>,
    /// The model of a session that names none.
    pub model: Option<String>,
    /// Context of the model in tokens. With Ollama, it is loaded with that.
    /// Default: what the provider tells, if it tells it.
    pub context: Option<u64>,
    /// How the model thinks before it speaks. `openai`: a word, which is sent
    /// as `reasoning_effort`. `anthropic`: `adaptive`, or tokens, 1024 at
    /// least. `ollama`: `true`, `false`, or a word that the model knows.
    /// Default: as the provider does.
    pub thinking: Option<Value>,
    /// Time for a connection: `10`, `1.5s`, `2m`. Default: 10 s.
    #[serde(default, deserialize_with = "time")]
    pub connect_timeout: Option<Duration>,
    /// The longest silence. Default: 5 min.
    #[serde(default, deserialize_with = "time")]
    pub idle_timeout: Option<Duration>,
    /// An HTTP proxy. Default: none, whatever the environment says.
    pub proxy: Option<String>,
    /// PEM file with certificates of authorities to trust as well.
    pub ca_file: Option<PathBuf>,
    /// The recording of a back end of the kind `replay`.
    pub file: Option<PathBuf>,
}

/// Which API a back end speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BackendKind {
    /// Chat Completions: OpenAI, OpenRouter, llama.cpp, vLLM.
    OpenAi,
    /// Messages.
    Anthropic,
    /// Ollama's own.
    Ollama,
    /// None: a recorded transcript.
    Replay,
}

/// Where the key of a back end is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource<'a> {
    /// It needs none.
    None,
    /// In this environment variable.
    Env(&'a str),
    /// This program prints it.
    Command(&'a [String]),
    /// In this file.
    File(&'a Path),
}

impl BackendConfig {
    /// What there is without a configuration, and what a back end of the same
    /// name in a configuration replaces as a whole.
    #[must_use]
    pub fn built_in() -> Vec<(&'static str, Self)> {
        let with = |kind, url: &str, key_env: Option<&str>| Self {
            url: Some(url.to_owned()),
            key_env: key_env.map(str::to_owned),
            ..Self::of(kind)
        };
        let openai = BackendKind::OpenAi;
        vec![
            (
                "anthropic",
                with(
                    BackendKind::Anthropic,
                    Anthropic::URL,
                    Some("ANTHROPIC_API_KEY"),
                ),
            ),
            ("ollama", with(BackendKind::Ollama, Ollama::URL, None)),
            ("openai", with(openai, OpenAi::URL, Some("OPENAI_API_KEY"))),
            (
                "openrouter",
                with(
                    openai,
                    "https://openrouter.ai/api/v1",
                    Some("OPENROUTER_API_KEY"),
                ),
            ),
        ]
    }

    /// The back end of `--backend replay:FILE`; nothing if the argument does
    /// not begin like that.
    #[must_use]
    pub fn replay(argument: &str) -> Option<Self> {
        let file = argument.strip_prefix("replay:")?;
        Some(Self {
            file: Some(file.into()),
            ..Self::of(BackendKind::Replay)
        })
    }

    fn of(kind: BackendKind) -> Self {
        Self {
            kind,
            url: None,
            key_env: None,
            key_command: None,
            key_file: None,
            model: None,
            context: None,
            thinking: None,
            connect_timeout: None,
            idle_timeout: None,
            proxy: None,
            ca_file: None,
            file: None,
        }
    }

    /// Where its key is kept.
    ///
    /// # Errors
    /// If more than one place is named.
    pub fn key_source(&self) -> Result<KeySource<'_>, SetupError> {
        match (&self.key_env, &self.key_command, &self.key_file) {
            (None, None, None) => Ok(KeySource::None),
            (Some(name), None, None) => Ok(KeySource::Env(name)),
            (None, Some(command), None) if command.is_empty() => Err(setting(
                "key_command",
                "expected a program and its arguments",
            )),
            (None, Some(command), None) => Ok(KeySource::Command(command)),
            (None, None, Some(file)) => Ok(KeySource::File(file)),
            _ => Err(setting(
                "key_env",
                "a key has one place: key_env, key_command or key_file",
            )),
        }
    }

    /// Makes the back end. Sends nothing; a recording is read. HTTP back ends
    /// can serve many sessions at once, a recorded one serves one.
    ///
    /// # Errors
    /// If a setting cannot be used, or a file cannot be read.
    pub fn open(&self, name: &str, key: Option<ApiKey>) -> Result<Arc<dyn Backend>, SetupError> {
        self.check()?;
        Ok(match self.kind {
            BackendKind::OpenAi => {
                let back_end = OpenAi::new(name, &self.endpoint(OpenAi::URL, key))?;
                match self.thinking()? {
                    Some(Mode::Word(word)) => Arc::new(back_end.with_effort(word)),
                    _ => Arc::new(back_end),
                }
            }
            BackendKind::Anthropic => {
                let back_end = Anthropic::new(name, &self.endpoint(Anthropic::URL, key))?;
                match self.thinking()? {
                    Some(Mode::Word(_)) => Arc::new(back_end.with_thinking(Thinking::Adaptive)),
                    Some(Mode::Tokens(tokens)) => {
                        Arc::new(back_end.with_thinking(Thinking::Budget(tokens)))
                    }
                    _ => Arc::new(back_end),
                }
            }
            BackendKind::Ollama => {
                let mut back_end = Ollama::new(name, &self.endpoint(Ollama::URL, key))?;
                if let Some(tokens) = self.context {
                    back_end = back_end.with_context(tokens);
                }
                match self.thinking()? {
                    Some(Mode::Word(word)) => Arc::new(back_end.with_think(word.into())),
                    Some(Mode::Switch(on)) => Arc::new(back_end.with_think(on.into())),
                    _ => Arc::new(back_end),
                }
            }
            BackendKind::Replay => {
                let file = self.file.as_deref();
                let file = file.ok_or_else(|| setting("file", "expected a recording"))?;
                let text = read(file)?;
                let source = file.display().to_string();
                Arc::new(Replay::parse(name, &source, &text)?)
            }
        })
    }

    /// Whether it can be used at all, without a look at any file or at the
    /// network. A setting without effect is an error.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn check(&self) -> Result<(), SetupError> {
        self.key_source()?;
        let http = [
            ("url", self.url.is_some()),
            ("key_env", self.key_env.is_some()),
            ("key_command", self.key_command.is_some()),
            ("key_file", self.key_file.is_some()),
            ("thinking", self.thinking.is_some()),
            ("connect_timeout", self.connect_timeout.is_some()),
            ("idle_timeout", self.idle_timeout.is_some()),
            ("proxy", self.proxy.is_some()),
            ("ca_file", self.ca_file.is_some()),
        ];
        if self.kind == BackendKind::Replay {
            if let Some((key, _)) = http.into_iter().find(|(_, set)| *set) {
                return Err(setting(key, "a recording has no such setting"));
            }
            if self.file.is_none() {
                return Err(setting("file", "expected a recording"));
            }
        } else if self.file.is_some() {
            return Err(setting("file", "only the kind replay has one"));
        }
        let expected = match (self.kind, self.thinking()?) {
            (_, None)
            | (BackendKind::OpenAi, Some(Mode::Word(_)))
            | (BackendKind::Anthropic, Some(Mode::Word("adaptive") | Mode::Tokens(1024..)))
            | (BackendKind::Ollama, Some(Mode::Word(_) | Mode::Switch(_)))
            | (BackendKind::Replay, _) => return Ok(()),
            (BackendKind::OpenAi, _) => "expected a word, such as high",
            (BackendKind::Anthropic, _) => "expected \"adaptive\", or tokens, 1024 at least",
            (BackendKind::Ollama, _) => "expected true, false or a word",
        };
        Err(setting("thinking", expected))
    }

    fn endpoint(&self, url: &str, key: Option<ApiKey>) -> Endpoint {
        let defaults = Endpoint::new(self.url.as_deref().unwrap_or(url), key);
        Endpoint {
            connect_timeout: self.connect_timeout.unwrap_or(defaults.connect_timeout),
            idle_timeout: self.idle_timeout.unwrap_or(defaults.idle_timeout),
            proxy: self.proxy.clone(),
            ca_file: self.ca_file.clone(),
            ..defaults
        }
    }

    fn thinking(&self) -> Result<Option<Mode<'_>>, SetupError> {
        Ok(Some(match &self.thinking {
            None => return Ok(None),
            Some(Value::Bool(on)) => Mode::Switch(*on),
            Some(Value::String(word)) => Mode::Word(word),
            Some(Value::Number(tokens)) if tokens.is_u64() => {
                Mode::Tokens(tokens.as_u64().unwrap_or(0))
            }
            Some(_) => return Err(setting("thinking", "expected a word, a number or a switch")),
        }))
    }
}

enum Mode<'a> {
    Switch(bool),
    Word(&'a str),
    Tokens(u64),
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Replay => "replay",
        })
    }
}

fn setting(key: &'static str, problem: &str) -> SetupError {
    SetupError::Setting {
        key,
        problem: problem.to_owned(),
    }
}

fn read(path: &Path) -> Result<String, SetupError> {
    use std::io::Read as _;
    let error = |source| SetupError::File {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let most = Replay::SIZE_MAX as u64;
    // A FIFO would be waited at for ever.
    if !std::fs::metadata(path).map_err(error)?.is_file() {
        return Err(error(std::io::Error::other("it is not a regular file")));
    }
    let file = std::fs::File::open(path).map_err(error)?;
    let length = file
        .take(most + 1)
        .read_to_string(&mut text)
        .map_err(error)?;
    if length > Replay::SIZE_MAX {
        let too_long = format!("it has more than {most} bytes");
        return Err(error(std::io::Error::other(too_long)));
    }
    Ok(text)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map(Some).map_err(de::Error::custom)
}
