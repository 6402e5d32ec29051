use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ninep_rs::ClientConfig;
use ollie_client::ToolsrvConn;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::{Channel, Error, Plan, Process, Remote, SshFailure, Step, install, spawn_local};

/// The first pause after a failed start; it doubles with each.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Where a session's toolsrv runs.
#[derive(Debug, Clone)]
pub enum Place {
    /// On this machine, installed below this root.
    Here(PathBuf),
    /// On another host.
    There(Box<Remote>),
}

impl Place {
    /// Starts a toolsrv there.
    ///
    /// # Errors
    /// As [`spawn_local`] and [`crate::spawn_remote`].
    pub async fn start(
        &self,
        plan: &Plan,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<(Process, Channel), Error> {
        match self {
            Self::Here(root) => spawn_local(&install(&plan.bundle, root)?, plan).await,
            Self::There(remote) => crate::spawn_remote(remote, plan, tell).await,
        }
    }
}

/// Keeps a session's toolsrv running: started when it is first needed, and
/// started again for later calls when it or the way to it is gone.
///
/// A call in flight at such a moment ends with an error of its own; it is
/// never sent again from here. However many ask at once, one start is made.
/// After a failed start the next waits, 250 ms at first and 30 s at most; a
/// refused authentication, an unknown host key and a refused session are
/// final.
#[derive(Debug)]
pub struct ProcessKeeper {
    place: Place,
    plan: Plan,
    agent: String,
    config: ClientConfig,
    state: Mutex<State>,
}

/// A toolsrv that was alive when it was asked for.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Counts the starts of this session, from 1. A process of another
    /// generation is gone, with all its calls and tools.
    pub generation: u64,
    live: Arc<Live>,
}

#[derive(Debug)]
struct Live {
    conn: ToolsrvConn,
    process: Process,
}

#[derive(Debug)]
struct State {
    generation: u64,
    live: Option<Kept>,
    failures: u32,
    not_before: Option<Instant>,
    /// A failure that another attempt would repeat.
    end: Option<Arc<Error>>,
}

impl ProcessKeeper {
    /// Starts nothing yet. `agent` is the name it attaches with.
    #[must_use]
    pub fn new(place: Place, plan: Plan, agent: impl Into<String>, config: ClientConfig) -> Self {
        Self {
            place,
            plan,
            agent: agent.into(),
            config,
            state: Mutex::new(State {
                generation: 0,
                live: None,
                failures: 0,
                not_before: None,
                end: None,
            }),
        }
    }

    /// The living toolsrv; starts one if there is none. Whoever gets a
    /// generation that is not the last one's has to load again what it had
    /// loaded.
    ///
    /// # Errors
    /// That of the start; [`Error::Final`] for every later caller if it was
    /// final.
    pub async fn get(&self, tell: &(dyn Fn(&Step) + Sync)) -> Result<Kept, Error> {
        // Whoever comes while another starts waits here, and finds it started.
        let mut state = self.state.lock().await;
        if let Some(kept) = &state.live
            && !kept.is_over().await
        {
            return Ok(kept.clone());
        }
        state.live = None;
        if let Some(error) = &state.end {
            return Err(Error::Final(Arc::clone(error)));
        }
        if let Some(moment) = state.not_before {
            tokio::time::sleep_until(moment).await;
        }
        match self.start(tell).await {
            Ok(live) => {
                state.generation += 1;
                state.failures = 0;
                state.not_before = None;
                let kept = Kept {
                    generation: state.generation,
                    live: Arc::new(live),
                };
                state.live = Some(kept.clone());
                Ok(kept)
            }
            Err(error) if is_final(&error) => {
                let error = Arc::new(error);
                state.end = Some(Arc::clone(&error));
                Err(Error::Final(error))
            }
            Err(error) => {
                let pause = PAUSE * 2_u32.saturating_pow(state.failures.min(16));
                state.failures += 1;
                state.not_before = Some(Instant::now() + pause.min(PAUSE_MAX));
                Err(error)
            }
        }
    }

    /// Gives a generation up, because it is known to be of no use: its host
    /// was silent. If there is a later one already, that one stays.
    pub async fn abandon(&self, generation: u64) {
        let mut state = self.state.lock().await;
        if state.generation == generation {
            state.live = None;
        }
    }

    async fn start(&self, tell: &(dyn Fn(&Step) + Sync)) -> Result<Live, Error> {
        let (mut process, channel) = self.place.start(&self.plan, tell).await?;
        let conn = process
            .connect(channel, &self.agent, self.config.clone())
            .await?;
        Ok(Live { conn, process })
    }

    /// Ends the session: closes the connection and waits until everything it
    /// started is gone. Returns whether that was seen; it is not while
    /// somebody holds a [`Kept`], which ends the session when it is dropped.
    pub async fn end(self) -> bool {
        let state = self.state.into_inner();
        let Some(kept) = state.live else { return true };
        match Arc::try_unwrap(kept.live) {
            Ok(Live { conn, process }) => {
                drop(conn);
                process.ended().await
            }
            Err(_) => false,
        }
    }
}

impl Kept {
    /// The connection.
    #[must_use]
    pub fn conn(&self) -> &ToolsrvConn {
        &self.live.conn
    }

    /// The process behind it.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.live.process
    }

    /// Returns when the host was silent for too long ([`Process::silence`]).
    pub async fn silence(&self) -> Duration {
        self.live.process.silence(&self.live.conn).await
    }

    /// Whether the connection had ended when this was called.
    async fn is_over(&self) -> bool {
        tokio::select! {
            biased;
            _ = self.live.conn.closed() => true,
            () = std::future::ready(()) => false,
        }
    }
}

/// Whether the same would be answered again.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Ssh { failure, .. } => {
            matches!(failure, SshFailure::Authentication | SshFailure::HostKey)
        }
        Error::Refused { .. } | Error::Bundle { .. } | Error::Platform { .. } => true,
        Error::Connect(error) => matches!(error, ollie_client::Error::Impostor),
        _ => false,
    }
}
