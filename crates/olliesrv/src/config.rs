use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_agent::backends::BackendConfig;
use ollie_agent::duration;
use ollie_deploy::{Target, Transport};
use serde::{Deserialize, Deserializer, de};

use crate::error::Error;

/// Bytes of a configuration file: far above what a person writes.
const SIZE_MAX: usize = 1024 * 1024;

/// `config.yaml` of ollie's configuration directory. All of it is optional,
/// and a key that is not known is an error.
///
/// ```yaml
/// remotes:
///   devbox:
///     target: me@devbox.example.org:2222
///     cwd: /home/me/src
///     profile: strict
/// ```
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Hosts by the names under which commands know them.
    #[serde(default)]
    pub(crate) remotes: BTreeMap<String, RemoteConfig>,
    /// The back end of a session that names none.
    pub(crate) backend: Option<String>,
    /// Model back ends by their names, beside those that are built in.
    #[serde(default)]
    pub(crate) backends: BTreeMap<String, BackendConfig>,
}

/// What is kept of a host. The command line goes before all of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoteConfig {
    /// `[user@]host[:port]`. Default: the remote's name.
    #[serde(default, deserialize_with = "target")]
    pub(crate) target: Option<Target>,
    /// `auto`, `stdio` or `forward`.
    #[serde(default, deserialize_with = "transport")]
    pub(crate) transport: Option<Transport>,
    /// Directory to work in there.
    pub(crate) cwd: Option<PathBuf>,
    /// Profile that the policy starts from.
    pub(crate) profile: Option<String>,
    /// How long it may take to answer: `90`, `1.5s`, `2m`.
    #[serde(default, deserialize_with = "time")]
    pub(crate) answer_timeout: Option<Duration>,
}

impl Config {
    /// Reads the file; nothing if there is none.
    pub(crate) fn read(file: &Path) -> Result<Self, Error> {
        let read = ollie_sandbox::read_plain(file, SIZE_MAX, ollie_sandbox::Links::Followed);
        let Some(text) = read.map_err(|source| Error::ConfigFile {
            path: file.to_owned(),
            source,
        })?
        else {
            return Ok(Self::default());
        };
        Self::parse(&text).map_err(|problem| Error::Config {
            path: file.to_owned(),
            problem,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for (name, remote) in &config.remotes {
            if remote.target.is_none() {
                let target: Result<Target, _> = name.parse();
                target.map_err(|error| format!("remote {name:?}: {error}"))?;
            }
        }
        Ok(config)
    }
}

fn target<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Target>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

fn transport<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Transport>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_has_what_was_written_and_nothing_else() {
        let text = "remotes:\n  box:\n    target: me@box:2222\n    transport: forward\n    \
                    answer_timeout: 2m\n  other: {}\n";
        let config = Config::parse(text).unwrap();
        let remote = &config.remotes["box"];
        assert_eq!(remote.target.as_ref().unwrap().port(), Some(2222));
        assert_eq!(remote.transport, Some(Transport::Forward));
        assert_eq!(remote.answer_timeout, Some(Duration::from_secs(120)));
        assert_eq!(remote.cwd, None);
        assert!(config.remotes["other"].target.is_none());
        assert!(Config::parse("").unwrap().remotes.is_empty());
    }

    #[test]
    fn what_is_misspelt_or_twice_or_no_target_is_an_error() {
        for (text, says) in [
            ("remote: {}", "remote"),
            ("remotes: { a: { traget: b } }", "traget"),
            ("remotes: { a: { target: -oX } }", "dash"),
            ("remotes: { -a: {} }", "dash"),
            ("remotes: { a: { transport: pigeon } }", "pigeon"),
            ("remotes: { a: { answer_timeout: soon } }", "soon"),
            ("remotes:\n  a: {}\n  a: {}\n", "duplicate"),
        ] {
            let problem = Config::parse(text).unwrap_err();
            assert!(problem.contains(says), "{text}: {problem}");
        }
    }
}
