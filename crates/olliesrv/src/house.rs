//! What sessions need of this program: where their tools run, which back ends
//! there are, where they are kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ollie_deploy::{Askpass, ProcessKeeper, Target, Transport};
use ollie_sessions::{House, Settings, Store, Tell};

use crate::backends::Backends;
use crate::config::Config;
use crate::error::Error;
use crate::options::{GroundOptions, SessionOptions};
use crate::{output, setup};

/// The house of a daemon, or of a chat without one.
pub(crate) fn house(
    options: &GroundOptions,
    defaults: Settings,
    askpass: Option<Askpass>,
) -> Result<House, Error> {
    let paths = setup::own_paths()?;
    let config = Config::read(&paths.config_file())?;
    let backends = Arc::new(Backends::new(&config));
    let remotes = remotes(&config);
    let (known, opened) = (Arc::clone(&backends), Arc::clone(&backends));
    let ground = options.clone();
    Ok(House {
        store: Store::in_directory(&paths.state).map_err(Error::Sessions)?,
        ground: Box::new(move |_, settings, tell| {
            ground_of(&ground, settings, askpass.clone(), tell)
        }),
        about_backend: Box::new(move |name| known.about(name).map_err(|error| setting(&error))),
        open_backend: Box::new(move |name| opened.open(name).map_err(|error| setting(&error))),
        backends: backends.described(),
        remotes,
        defaults: Settings {
            backend: or(defaults.backend, || backends.default_name()),
            cwd: Some(match defaults.cwd {
                Some(cwd) => cwd,
                None => present_directory()?,
            }),
            ..defaults
        },
        config: paths.config,
        tell: Box::new(|text| output::note(&crate::printable::printable(text))),
    })
}

fn or(value: String, other: impl FnOnce() -> String) -> String {
    if value.is_empty() { other() } else { value }
}

fn present_directory() -> Result<String, Error> {
    let directory = std::env::current_dir().map_err(|source| Error::Io {
        action: "find the working directory",
        source,
    })?;
    Ok(directory.display().to_string())
}

/// Where the tools of a session run.
fn ground_of(
    options: &GroundOptions,
    settings: &Settings,
    askpass: Option<Askpass>,
    tell: Tell,
) -> Result<ProcessKeeper, ollie_sessions::Error> {
    let wrong = ollie_sessions::Error::Setting;
    let transport: Option<Transport> = settings
        .transport
        .as_ref()
        .map(|word| {
            word.parse()
                .map_err(|error| wrong(format!("transport={error}")))
        })
        .transpose()?;
    let host: Option<Target> = settings
        .remote
        .as_ref()
        .map(|host| host.parse())
        .transpose()
        .map_err(|error: ollie_deploy::Error| wrong(error.to_string()))?;
    let session = SessionOptions {
        cwd: settings.cwd.as_ref().map(PathBuf::from),
        profile: settings.sandbox.clone(),
        trust_project: settings.trust.clone(),
        yolo: settings.yolo,
        transport,
        ground: options.clone(),
        verbose: false,
        trace_9p: false,
    };
    let (place, plan, base) =
        setup::place(&session, host.as_ref(), askpass).map_err(|error| wrong(error.chain()))?;
    let base = Arc::new(base);
    let config = ninep_rs::ClientConfig::default();
    let keeper = ProcessKeeper::new(place, plan, setup::AGENT, config);
    Ok(keeper.prepare(move |conn, found| {
        let (base, tell) = (Arc::clone(&base), Arc::clone(&tell));
        Box::pin(async move {
            if let Some(project) = base.decide(conn, found).await?
                && let Some(summary) = project.untrusted()
            {
                tell(summary);
            }
            Ok(())
        })
    }))
}

fn setting(error: &Error) -> ollie_sessions::Error {
    ollie_sessions::Error::Setting(error.chain())
}

/// The hosts of the configuration, as the tree shows them.
fn remotes(config: &Config) -> BTreeMap<String, String> {
    let text = |(name, remote): (&String, &crate::config::RemoteConfig)| {
        let record = crate::remotes::record((name, remote));
        (name.clone(), format!("{record:#}\n"))
    };
    config.remotes.iter().map(text).collect()
}
