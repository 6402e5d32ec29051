//! What sessions need of this program: where their tools run, which back ends
//! there are, where they are kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ollie_deploy::{Askpass, Connections, ProcessKeeper, Target, Transport};
use ollie_sessions::{Configured, House, Settings, Store, Tell};

use crate::backends::{Backends, OpenBackends};
use crate::config::Config;
use crate::error::Error;
use crate::options::{GroundOptions, SessionOptions};
use crate::{output, setup};

/// The house of a daemon, or of a chat without one.
pub(crate) fn house(
    options: &GroundOptions,
    defaults: Settings,
    askpass: Option<Askpass>,
    connections: Arc<Connections>,
    asks: bool,
) -> Result<House, Error> {
    let paths = setup::own_paths()?;
    let now = present(paths.config_file());
    // What is wrong with the configuration now is told now.
    now()?;
    let now = Arc::new(now);
    let (known, opened, listed) = (Arc::clone(&now), Arc::clone(&now), now);
    let ground = options.clone();
    Ok(House {
        store: Store::in_directory(&paths.state).map_err(Error::Sessions)?,
        ground: Box::new(move |_, settings, tell| {
            let connections = Arc::clone(&connections);
            ground_of(&ground, settings, askpass.clone(), connections, tell)
        }),
        about_backend: Box::new(move |name| {
            let about = known().and_then(|(_, backends)| backends.about(name));
            about.map_err(|error| setting(&error))
        }),
        open_backend: Box::new(move |name| {
            let backend = opened().and_then(|(_, backends)| backends.open(name));
            backend.map_err(|error| setting(&error))
        }),
        configured: Box::new(move || {
            let (config, backends) = listed().map_err(|error| setting(&error))?;
            Ok(Configured {
                backend: backends.default_name(),
                backends: backends.described(),
                remotes: remotes(&config),
            })
        }),
        defaults: Settings {
            cwd: Some(match defaults.cwd {
                Some(cwd) => cwd,
                None => present_directory()?,
            }),
            ..defaults
        },
        config: paths.config,
        asks,
        tell: Box::new(|text| output::note(&crate::printable::printable(text))),
    })
}

/// The connections that the sessions of this process share.
pub(crate) fn connections() -> Result<Arc<Connections>, Error> {
    let paths = setup::own_paths()?;
    Ok(Arc::new(Connections::kept(&paths.doorway)))
}

/// The configuration as it is each time: a daemon lives longer than it.
fn present(file: PathBuf) -> impl Fn() -> Result<(Config, Backends), Error> {
    let open = Arc::new(OpenBackends::default());
    move || {
        let config = Config::read(&file)?;
        let backends = Backends::new(&config, Arc::clone(&open));
        Ok((config, backends))
    }
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
    connections: Arc<Connections>,
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
    let (place, plan, base) = setup::place(&session, host.as_ref(), askpass, connections)
        .map_err(|error| wrong(error.chain()))?;
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
