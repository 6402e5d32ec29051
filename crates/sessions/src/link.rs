use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ollie_deploy::{Kept, ProcessKeeper, Step};
use ollie_protocol::{HostFacts, chain};
use serde::Serialize;
use serde_json::Value;

use crate::user_tools::UserTools;
use crate::{Error, Tell};

/// How long a toolsrv has to hear that its session ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Makes the keeper of a session's toolsrv; starts nothing.
pub(crate) type Ground = Box<dyn Fn(Tell) -> Result<ProcessKeeper, Error> + Send + Sync>;
/// Is told of every change.
pub(crate) type Told = Arc<dyn Fn(&Status) + Send + Sync>;

/// A session's connection to its toolsrv: made when it is first needed, made
/// again when it was lost.
pub(crate) struct Link {
    ground: Ground,
    kept: Mutex<Keeping>,
    /// Only one asks what the host is.
    asking: tokio::sync::Mutex<()>,
    status: Mutex<Status>,
    tools: UserTools,
    told: Told,
}

#[derive(Default)]
struct Keeping {
    keeper: Option<Arc<ProcessKeeper>>,
    /// The last toolsrv that was met, and what it said of itself.
    met: Option<Met>,
}

#[derive(Clone)]
struct Met {
    kept: Kept,
    about: Arc<About>,
}

/// What a toolsrv says of itself and its host.
#[derive(Debug, Serialize)]
pub(crate) struct About {
    /// Counts the starts of this session's toolsrv.
    pub(crate) generation: u64,
    /// SHA-256 of the program.
    pub(crate) build: String,
    /// Which way 9P goes.
    pub(crate) transport: String,
    /// Whose ssh connection it is; none on this machine.
    pub(crate) connection: Option<String>,
    /// The host's facts.
    pub(crate) host: HostFacts,
    /// What the kernel there enforces.
    pub(crate) enforcement: Value,
}

/// Whether there is a connection.
#[derive(Debug, Clone, Default)]
pub(crate) enum Status {
    /// Nobody needed one yet, or the last one was given up.
    #[default]
    Unused,
    /// One is being made; the last step.
    Connecting(String),
    /// One is being made, and the person should know this.
    Note(String),
    /// There is one, or there was when it was last used.
    Connected(Arc<About>),
    /// It could not be made.
    Failed(String),
}

impl Link {
    /// `tools` is the directory of the user's tools.
    pub(crate) fn new(ground: Ground, tools: PathBuf, told: Told) -> Self {
        let note = {
            let told = Arc::clone(&told);
            move |text: &str| told(&Status::Note(text.to_owned()))
        };
        Self {
            ground,
            tools: UserTools::new(tools, Arc::new(note)),
            kept: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            status: Mutex::default(),
            told,
        }
    }

    /// The living toolsrv; starts one if there is none.
    pub(crate) async fn get(&self) -> Result<(Kept, Arc<About>), Error> {
        let keeper = self.keeper().inspect_err(|error| {
            self.set(Status::Failed(error.to_string()));
        })?;
        let tell = |step: &Step| self.set(Status::Connecting(step.to_string()));
        let got = keeper.get(&tell).await;
        let kept = got.map_err(|error| self.failed(&error))?;
        let _one = self.asking.lock().await;
        if let Some(met) = &mut self.keeping().met
            && met.about.generation == kept.generation
        {
            // There may be a new way to the same one.
            met.kept = kept.clone();
            return Ok((kept, Arc::clone(&met.about)));
        }
        let about = match about(&kept, &self.tools).await {
            Ok(about) => Arc::new(about),
            Err(error) => {
                keeper.abandon(&kept).await;
                return Err(self.failed(&error));
            }
        };
        self.keeping().met = Some(Met {
            kept: kept.clone(),
            about: Arc::clone(&about),
        });
        self.set(Status::Connected(Arc::clone(&about)));
        Ok((kept, about))
    }

    /// Brings the user's tools there as they are now.
    pub(crate) async fn refresh(&self, kept: &Kept) -> Result<(), ollie_client::Error> {
        self.tools.bring(kept).await
    }

    /// The toolsrv that was met last, if there is one still.
    pub(crate) fn met(&self) -> Option<(Kept, Arc<About>)> {
        let keeping = self.keeping();
        let met = keeping.met.as_ref()?;
        Some((met.kept.clone(), Arc::clone(&met.about)))
    }

    /// A toolsrv is known to be of no use.
    pub(crate) async fn abandon(&self, kept: &Kept) {
        let keeper = self.keeping().keeper.clone();
        if let Some(keeper) = keeper {
            keeper.abandon(kept).await;
        }
        let mut keeping = self.keeping();
        if keeping
            .met
            .as_ref()
            .is_some_and(|met| met.about.generation == kept.generation)
        {
            keeping.met = None;
        }
    }

    /// Tells the person something about the hands.
    pub(crate) fn note(&self, text: &str) {
        (self.told)(&Status::Note(text.to_owned()));
    }

    /// Whether there is a connection.
    pub(crate) fn status(&self) -> Status {
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Ends the toolsrv with all it runs, and forgets what failed. The next
    /// use starts anew.
    pub(crate) async fn end(&self) {
        let keeping = std::mem::take(&mut *self.keeping());
        self.set(Status::Unused);
        self.tools.forget().await;
        if let Some(met) = keeping.met {
            // Somebody else may hold the connection: closing it is not enough.
            let _ = tokio::time::timeout(FAREWELL, met.kept.conn().shut_down()).await;
        }
        if let Some(keeper) = keeping.keeper
            && let Ok(keeper) = Arc::try_unwrap(keeper)
        {
            keeper.end().await;
        }
    }

    fn keeper(&self) -> Result<Arc<ProcessKeeper>, Error> {
        let mut keeping = self.keeping();
        if let Some(keeper) = &keeping.keeper {
            return Ok(Arc::clone(keeper));
        }
        let told = Arc::clone(&self.told);
        let tell = move |note: &str| told(&Status::Note(note.to_owned()));
        let keeper = Arc::new((self.ground)(Arc::new(tell))?);
        keeping.keeper = Some(Arc::clone(&keeper));
        Ok(keeper)
    }

    fn failed(&self, error: &dyn std::error::Error) -> Error {
        let text = chain(error);
        self.set(Status::Failed(text.clone()));
        Error::Hands(text)
    }

    fn set(&self, status: Status) {
        (self.told)(&status);
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn keeping(&self) -> MutexGuard<'_, Keeping> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl About {
    /// A sentence about a host that was reached; none for this machine the
    /// first time.
    pub(crate) fn arrived(&self) -> Option<String> {
        let again = if self.generation > 1 {
            "; it was started anew, and what ran there before is gone"
        } else if self.transport == "local" {
            return None;
        } else {
            ""
        };
        let host = &self.host;
        Some(format!(
            "connected to {} ({} {}, {}, Landlock ABI {}), works in {}{again}",
            host.hostname,
            host.distribution,
            host.arch,
            self.transport,
            host.landlock.abi,
            host.cwd.to_string_lossy()
        ))
    }
}

/// Offers the user's tools, and asks for all three at once: one round trip.
async fn about(kept: &Kept, tools: &UserTools) -> Result<About, ollie_client::Error> {
    let conn = kept.conn();
    let asking = async {
        tools.bring(kept).await?;
        tokio::try_join!(conn.version(), conn.host(), conn.policy::<Value>())
    };
    let (version, host, mut policy) = tokio::select! {
        answers = asking => answers?,
        _ = kept.silence() => {
            return Err(ollie_client::Error::Protocol("it does not say what it is"));
        }
    };
    let arrival = kept.process().arrival.as_ref();
    Ok(About {
        generation: kept.generation,
        build: version.build,
        transport: arrival.map_or("local".to_owned(), |arrival| arrival.transport.to_string()),
        connection: arrival.map(|arrival| arrival.connection.to_string()),
        host,
        enforcement: match policy.get_mut("enforcement") {
            Some(enforcement) => enforcement.take(),
            None => policy.get_mut("refused").map_or(Value::Null, Value::take),
        },
    })
}
