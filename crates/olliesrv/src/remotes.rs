//! The commands that only look at the configuration.

use serde_json::{Value, json};

use crate::backends::Backends;
use crate::config::{Config, RemoteConfig};
use crate::error::Error;
use crate::options::RemotesOptions;
use crate::printable::printable;
use crate::{output, setup};

/// Lists the remotes of the configuration.
pub(crate) fn list(options: &RemotesOptions) -> Result<u8, Error> {
    let file = setup::own_paths()?.config_file();
    let config = Config::read(&file)?;
    if options.json {
        let records: Vec<Value> = config.remotes.iter().map(record).collect();
        output::print(&format!("{:#}\n", Value::Array(records)))?;
        return Ok(0);
    }
    if config.remotes.is_empty() {
        output::note(&format!("no remotes in {}", file.display()));
    }
    for (name, remote) in &config.remotes {
        let mut line = format!("{name:<16} {}", target(name, remote));
        if let Some(transport) = remote.transport {
            line.push_str(&format!("  transport {transport}"));
        }
        if let Some(cwd) = &remote.cwd {
            line.push_str(&format!("  cwd {}", cwd.display()));
        }
        if let Some(profile) = &remote.profile {
            line.push_str(&format!("  profile {profile}"));
        }
        output::print(&printable(&format!("{line}\n")))?;
    }
    Ok(0)
}

/// Checks the configuration and the user's policy file as commands would.
pub(crate) fn check() -> Result<u8, Error> {
    let paths = setup::own_paths()?;
    let file = paths.config_file();
    let config = Config::read(&file)?;
    for (name, remote) in &config.remotes {
        if let Some(profile) = &remote.profile {
            setup::layers(profile, &paths.policy()).map_err(|error| Error::Config {
                path: file.clone(),
                problem: format!("remote {name:?}: {}", error.chain()),
            })?;
        }
    }
    for (name, backend) in &config.backends {
        backend.check().map_err(|error| Error::Config {
            path: file.clone(),
            problem: format!("back end {name:?}: {error}"),
        })?;
    }
    if let Some(name) = &config.backend
        && let Err(error) = Backends::new(&config, std::sync::Arc::default()).about(name)
    {
        return Err(Error::Config {
            path: file,
            problem: format!("backend: {}", error.chain()),
        });
    }
    setup::layers(setup::PROFILE, &paths.policy())?;
    for file in [file, paths.policy()] {
        let found = if file.exists() { "right" } else { "not there" };
        output::print(&printable(&format!("{}: {found}\n", file.display())))?;
    }
    Ok(0)
}

fn target(name: &str, remote: &RemoteConfig) -> String {
    remote
        .target
        .as_ref()
        .map_or_else(|| name.to_owned(), ToString::to_string)
}

pub(crate) fn record((name, remote): (&String, &RemoteConfig)) -> Value {
    json!({
        "name": name,
        "target": target(name, remote),
        "transport": remote.transport.unwrap_or_default().to_string(),
        "cwd": remote.cwd,
        "profile": remote.profile.as_deref().unwrap_or(setup::PROFILE),
    })
}
