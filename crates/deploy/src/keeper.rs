use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ninep_rs::ClientConfig;
use ollie_client::ToolsrvConn;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::lease::CONTACT;
use crate::local::attach_local;
use crate::spawn_remote::spawn_or_attach;
use crate::{
    Channel, Error, Lease, Leases, Plan, Process, Project, Remote, SshFailure, Step, install,
    spawn_local,
};

/// The first pause after a failed start; it doubles with each.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long an older session may take to end when it is asked to.
const SHUTDOWN: Duration = Duration::from_secs(20);

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
        self.reach(plan, None, tell).await
    }

    /// Leads to the session of `lease` if it lives on; else starts a toolsrv.
    async fn reach(
        &self,
        plan: &Plan,
        lease: Option<&Lease>,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<(Process, Channel), Error> {
        match (self, lease) {
            (Self::Here(_), Some(lease)) => attach_local(lease).await,
            (Self::Here(root), None) => spawn_local(&install(&plan.bundle, root)?, plan).await,
            (Self::There(remote), lease) => spawn_or_attach(remote, plan, lease, tell).await,
        }
    }
}

/// What a new toolsrv needs before anybody calls it.
type Prepare = dyn for<'a> Fn(&'a ToolsrvConn, Option<&'a Project>) -> Preparing<'a> + Send + Sync;
type Preparing<'a> = Pin<Box<dyn Future<Output = Result<(), Unprepared>> + Send + 'a>>;
type Unprepared = Box<dyn std::error::Error + Send + Sync>;

/// Keeps a session's toolsrv running: started when it is first needed, and
/// started again for later calls when it or the way to it is gone.
///
/// A call in flight at such a moment is never sent again from here. Without a
/// lease its outcome is unknown, and the next toolsrv is a new one. With
/// [`Plan::lease`] the next connection leads to the same one, where its calls
/// went on: see [`ProcessKeeper::call`].
///
/// However many ask at once, one start is made. After a failed start the next
/// waits, 250 ms at first and 30 s at most; a refused authentication, an
/// unknown host key and a refused session are final.
pub struct ProcessKeeper {
    place: Place,
    plan: Plan,
    agent: String,
    config: ClientConfig,
    leases: Option<Leases>,
    note: String,
    prepare: Option<Box<Prepare>>,
    state: Mutex<State>,
}

/// A toolsrv that was alive when it was asked for.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Counts the toolsrvs of this session, from 1. One of another generation
    /// is gone, with all its calls and tools. A new way to the same one, under
    /// a lease, leaves it as it is.
    pub generation: u64,
    live: Arc<Live>,
}

/// Whether a session lives on without a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased {
    /// It was not asked to.
    No,
    /// For so long.
    For(Duration),
    /// It cannot, and why: that host ends a user's processes at logout.
    Refused(String),
}

#[derive(Debug)]
struct Live {
    conn: ToolsrvConn,
    process: Process,
    leased: Leased,
    _contact: Option<Contact>,
}

/// A task that notes now and then that somebody is connected.
#[derive(Debug)]
struct Contact(JoinHandle<()>);

impl Contact {
    fn keep(leases: Leases, session: String) -> Self {
        Self(tokio::spawn(async move {
            loop {
                leases.contact(&session);
                tokio::time::sleep(CONTACT).await;
            }
        }))
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
struct State {
    generation: u64,
    live: Option<Kept>,
    lease: Option<Lease>,
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
            leases: None,
            note: String::new(),
            prepare: None,
            state: Mutex::new(State {
                generation: 0,
                live: None,
                lease: None,
                failures: 0,
                not_before: None,
                end: None,
            }),
        }
    }

    /// Where the leases of sessions are kept, so that another process finds
    /// them; `note` is what lists show. A lease of this session that is there
    /// already is taken up. Default: in memory only.
    #[must_use]
    pub fn leases(mut self, leases: Leases, note: impl Into<String>) -> Self {
        self.state.get_mut().lease = leases.find(&self.plan.session);
        self.leases = Some(leases);
        self.note = note.into();
        self
    }

    /// What every new toolsrv of this session needs before anybody gets it,
    /// such as the tools that were loaded in the one before, and what becomes of
    /// the project's policy file, if [`Plan::project`] is set and there is one.
    /// It is not done again for a new way to the same toolsrv. If it fails, the start has.
    #[must_use]
    pub fn prepare(
        mut self,
        prepare: impl for<'a> Fn(&'a ToolsrvConn, Option<&'a Project>) -> Preparing<'a>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// The session's name.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.plan.session
    }

    /// The living toolsrv; starts one if there is none. Whoever gets a
    /// generation that is not the last one's has to load again what it had
    /// loaded, unless [`ProcessKeeper::prepare`] does.
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
        match self.start(&mut state, tell).await {
            Ok(live) => {
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

    /// Gives a connection up, because it is known to be of no use: its host
    /// was silent. If there is a later one already, that one stays.
    pub async fn abandon(&self, kept: &Kept) {
        let mut state = self.state.lock().await;
        let current = state.live.as_ref();
        if current.is_some_and(|live| Arc::ptr_eq(&live.live, &kept.live)) {
            state.live = None;
        }
    }

    async fn start(&self, state: &mut State, tell: &(dyn Fn(&Step) + Sync)) -> Result<Live, Error> {
        if let Some(lease) = state.lease.clone() {
            match self.connect(Some(&lease), tell).await {
                Ok((conn, process)) if process.is_again() => {
                    // The first one of this process is a generation too.
                    state.generation = state.generation.max(1);
                    let leased = Leased::For(lease.time);
                    return Ok(self.live(conn, process, leased));
                }
                Ok((conn, process)) => {
                    self.forget(state);
                    return self.begin(state, conn, process).await;
                }
                Err(Error::Gone(_)) => self.forget(state),
                // It may live on, and this key may be all that leads to it.
                Err(error) => return Err(error),
            }
        }
        let (conn, process) = self.connect(None, tell).await?;
        self.begin(state, conn, process).await
    }

    async fn connect(
        &self,
        lease: Option<&Lease>,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<(ToolsrvConn, Process), Error> {
        let (mut process, channel) = self.place.reach(&self.plan, lease, tell).await?;
        let conn = process
            .connect(channel, &self.agent, self.config.clone())
            .await?;
        Ok((conn, process))
    }

    /// Makes a new toolsrv what the session needs.
    async fn begin(
        &self,
        state: &mut State,
        conn: ToolsrvConn,
        process: Process,
    ) -> Result<Live, Error> {
        if let Some(prepare) = &self.prepare {
            prepare(&conn, process.project.as_ref())
                .await
                .map_err(Error::Prepare)?;
        }
        let leased = match self.plan.lease {
            None => Leased::No,
            Some(time) => self.take_lease(state, &conn, &process, time).await?,
        };
        state.generation += 1;
        Ok(self.live(conn, process, leased))
    }

    /// Asks for a lease. The key is kept first: of a session that lives on
    /// without a key nobody would know.
    async fn take_lease(
        &self,
        state: &mut State,
        conn: &ToolsrvConn,
        process: &Process,
        time: Duration,
    ) -> Result<Leased, Error> {
        state.lease = process.lease(&self.agent, time, &self.note);
        if let (Some(leases), Some(lease)) = (&self.leases, &state.lease) {
            leases.keep(lease)?;
        }
        match conn.lease(time).await {
            Ok(()) => Ok(Leased::For(time)),
            Err(ollie_client::Error::Refused(reason)) => {
                self.forget(state);
                Ok(Leased::Refused(reason))
            }
            // It may have been given: the key stays.
            Err(error) => Err(Error::Connect(error)),
        }
    }

    fn live(&self, conn: ToolsrvConn, process: Process, leased: Leased) -> Live {
        let leases = self.leases.clone();
        let contact = leases
            .filter(|_| matches!(leased, Leased::For(_)))
            .map(|leases| Contact::keep(leases, self.plan.session.clone()));
        Live {
            conn,
            process,
            leased,
            _contact: contact,
        }
    }

    /// The session is gone, and its key is of no use any more.
    fn forget(&self, state: &mut State) {
        state.lease = None;
        if let Some(leases) = &self.leases {
            leases.forget(&self.plan.session);
        }
    }

    /// Ends the session, a lease or not: closes the connection and waits until
    /// everything it started is gone. Returns whether that was seen; it is not
    /// while somebody holds a [`Kept`], which ends the session when it is
    /// dropped. Without this, a session with a lease lives on.
    pub async fn end(self) -> bool {
        let mut state = self.state.into_inner();
        let lasted = state.lease.take().is_some();
        if let Some(leases) = self.leases.filter(|_| lasted) {
            leases.forget(&self.plan.session);
        }
        let Some(kept) = state.live else { return true };
        if lasted {
            // It ends the calls first, and answers no more.
            let _ = tokio::time::timeout(SHUTDOWN, kept.conn().shut_down()).await;
            let _ = tokio::time::timeout(SHUTDOWN, kept.conn().closed()).await;
        }
        match Arc::try_unwrap(kept.live) {
            Ok(Live { conn, process, .. }) => {
                drop(conn);
                process.ended().await
            }
            Err(_) => false,
        }
    }
}

impl std::fmt::Debug for ProcessKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessKeeper")
            .field("place", &self.place)
            .field("session", &self.plan.session)
            .finish_non_exhaustive()
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

    /// Whether the session lives on when this connection ends.
    #[must_use]
    pub fn leased(&self) -> &Leased {
        &self.live.leased
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
pub(crate) fn is_final(error: &Error) -> bool {
    match error {
        Error::Ssh { failure, .. } => {
            matches!(failure, SshFailure::Authentication | SshFailure::HostKey)
        }
        Error::Refused { .. }
        | Error::Bundle { .. }
        | Error::Platform { .. }
        | Error::Lacks { .. } => true,
        Error::Connect(error) => {
            use ollie_client::Error as Client;
            matches!(
                error,
                Client::Impostor | Client::NotAccepted(ninep_rs::Error::Remote(_))
            )
        }
        _ => false,
    }
}
