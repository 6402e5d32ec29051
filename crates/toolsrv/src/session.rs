use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use ninep_rs::Refusal;
use ollie_exec::Spawner;
use ollie_protocol::auth::{AGENT, OWNER};
use ollie_protocol::{Boot, Key, Octets, SandboxReport, VersionRecord, limits};
use ollie_sandbox::{Enforcement, Policy};
use tokio::sync::{Notify, SetOnce};

use crate::Error;
use crate::calls::Calls;
use crate::facts::Environment;
use crate::ground::Ground;
use crate::lobby::Lobby;
use crate::logind::Logind;
use crate::places::Places;
use crate::project::{Project, Watched};
use crate::registry::Registry;
use crate::store::Store;
use crate::turns::Turns;

/// What all connections of a session share.
pub(crate) struct Session {
    /// Its name, the uname of its connections.
    pub(crate) name: String,
    /// Working directory of its calls, absolute.
    pub(crate) cwd: PathBuf,
    /// The environment toolsrv was started with.
    pub(crate) environment: Environment,
    /// The project's own policy file.
    pub(crate) project: Project,
    /// Starts commands.
    pub(crate) spawner: Spawner,
    /// This very program, if it knows where it lies.
    pub(crate) program: Option<PathBuf>,
    /// What can be called.
    pub(crate) registry: Registry,
    /// The order in which calls run.
    pub(crate) turns: Turns,
    /// Calls by their ids.
    pub(crate) calls: Calls,
    /// Numbers for calls that toolsrv names itself.
    pub(crate) started_processes: AtomicU64,
    /// Who is connected to the socket.
    pub(crate) lobby: Arc<Lobby>,
    /// Set when the session is to end.
    pub(crate) ending: Notify,
    /// Numbers for qids, unique for the life of this process.
    pub(crate) paths: AtomicU64,
    keys: Mutex<Keys>,
    sandbox: SetOnce<Arc<Sandbox>>,
    /// See [`Session::outside`]; 0 before.
    outside: AtomicU32,
    places: Places,
    yolo: bool,
    lease: Mutex<Option<Duration>>,
    started: SystemTime,
    build: OnceLock<String>,
}

/// The policy of a session on this host. Once there is one it stays.
pub(crate) struct Sandbox {
    /// This host's own name.
    pub(crate) hostname: String,
    /// The project's policy file as it was.
    pub(crate) watched: Option<Watched>,
    /// The policy, resolved against this host.
    pub(crate) policy: Policy,
    /// What of it is enforced; or why nothing may run.
    pub(crate) confinement: Result<Confinement, String>,
}

/// A policy that can be applied.
pub(crate) struct Confinement {
    /// Its number at the companion.
    pub(crate) policy: u32,
    /// What is in force.
    pub(crate) report: SandboxReport,
    /// The environment of calls, `NAME=value`.
    pub(crate) env: Vec<Octets>,
}

impl Sandbox {
    /// What calls are held to; refused where nothing may run.
    pub(crate) fn confinement(&self) -> Result<&Confinement, Refusal> {
        let confinement = self.confinement.as_ref();
        confinement
            .map_err(|reason| Refusal::new(format!("no call is run without a sandbox: {reason}")))
    }
}

/// Whose key a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The secret, which only who wrote the boot record has, or the owner's
    /// token.
    Person,
    /// The token that agents are given.
    Agent,
}

struct Keys {
    /// Good for one connection, then forgotten.
    secret: Option<Key>,
    agent: Key,
    owner: Key,
}

impl Session {
    /// A session without a policy: nothing runs before [`Session::settle`].
    pub(crate) fn new(
        boot: Boot,
        cwd: PathBuf,
        places: Places,
        environment: Environment,
        project: Project,
        spawner: Spawner,
        store: Option<Store>,
    ) -> Arc<Self> {
        let secret = boot.secret;
        Arc::new(Self {
            name: boot.session,
            cwd,
            environment,
            project,
            spawner,
            program: std::env::current_exe().ok(),
            registry: Registry::new(store),
            turns: Turns::default(),
            calls: Calls::default(),
            started_processes: AtomicU64::new(1),
            lobby: Lobby::new(),
            ending: Notify::new(),
            paths: AtomicU64::new(100),
            keys: Mutex::new(Keys {
                agent: secret.token(AGENT),
                owner: secret.token(OWNER),
                secret: Some(secret),
            }),
            sandbox: SetOnce::new(),
            outside: AtomicU32::new(0),
            places,
            yolo: boot.yolo,
            lease: Mutex::new(None),
            started: SystemTime::now(),
            build: OnceLock::new(),
        })
    }

    /// Where its policy comes to hold.
    pub(crate) fn ground(&self) -> Ground<'_> {
        Ground {
            cwd: &self.cwd,
            environment: &self.environment,
            places: &self.places,
            scripts: self.registry.store.as_ref().map(Store::directory),
            yolo: self.yolo,
        }
    }

    /// Holds every call to this policy from now on.
    pub(crate) async fn settle(&self, policy: Policy) -> Result<(), Error> {
        let confinement = self.ground().confine(&policy, &self.spawner).await?;
        let hostname = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let sandbox = Sandbox {
            hostname,
            watched: self.project.watched(),
            policy,
            confinement,
        };
        // Whoever came first stays: a policy is frozen.
        let _ = self.sandbox.set(Arc::new(sandbox));
        Ok(())
    }

    /// The policy of calls that the person lets out of the sandbox: none. It
    /// is there once it was needed; the first policy, number 0, is the
    /// session's.
    pub(crate) async fn outside(&self) -> Result<u32, ollie_exec::Error> {
        let mut number = self.outside.load(Ordering::Relaxed);
        if number == 0 {
            number = self.spawner.add_policy(&Enforcement::nothing()).await?;
            self.outside.store(number, Ordering::Relaxed);
        }
        Ok(number)
    }

    /// What every call is held to, once that is decided.
    pub(crate) fn sandbox(&self) -> Option<&Arc<Sandbox>> {
        self.sandbox.get()
    }

    /// The same; waits for the decision.
    pub(crate) async fn decided(&self) -> &Arc<Sandbox> {
        self.sandbox.wait().await
    }

    /// The key for which `fits` holds, among those that may prove `aname`, and
    /// whose it is. The secret is forgotten when it was the one.
    pub(crate) fn unlock(&self, aname: &str, fits: impl Fn(&Key) -> bool) -> Option<(Key, Side)> {
        let mut keys = self.keys();
        if keys.secret.as_ref().is_some_and(&fits) {
            return keys.secret.take().map(|key| (key, Side::Person));
        }
        if fits(&keys.owner) {
            return Some((keys.owner.clone(), Side::Person));
        }
        (aname != OWNER && fits(&keys.agent)).then(|| (keys.agent.clone(), Side::Agent))
    }

    /// A variable as calls see it.
    pub(crate) fn call_variable(&self, name: &str) -> Option<Vec<u8>> {
        let confinement = self.sandbox()?.confinement.as_ref().ok()?;
        let value = |entry: &Octets| {
            let value = entry.as_bytes().strip_prefix(name.as_bytes())?;
            value.strip_prefix(b"=").map(<[u8]>::to_vec)
        };
        confinement.env.iter().find_map(value)
    }

    /// The directory that a call names, or the session's.
    pub(crate) fn directory(&self, named: Option<&Octets>) -> Octets {
        let directory = match named {
            None => self.cwd.clone(),
            Some(named) => self.cwd.join(named.as_os_str()),
        };
        directory.into_os_string().into()
    }

    /// The first of `count` qid paths that nothing else has.
    pub(crate) fn fresh_paths(&self, count: u64) -> u64 {
        self.paths.fetch_add(count, Ordering::Relaxed)
    }

    /// The file `version`.
    pub(crate) fn version(&self) -> VersionRecord {
        VersionRecord {
            protocol: limits::PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: self.build.get_or_init(build_id).clone(),
            pid: std::process::id(),
            started: self
                .started
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        }
    }

    /// Seconds since the session began.
    pub(crate) fn uptime(&self) -> u64 {
        self.started.elapsed().map_or(0, |up| up.as_secs())
    }

    /// For how long it lives on without a client, if at all.
    pub(crate) fn lease(&self) -> Option<Duration> {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the lease; no time at all ends it. Refused where the host would
    /// not let the session live on.
    pub(crate) fn set_lease(&self, lease: Duration) -> Result<(), Refusal> {
        if lease > limits::LEASE_MAX {
            return Err(Refusal::new(format!(
                "a lease has at most {} seconds",
                limits::LEASE_MAX.as_secs()
            )));
        }
        let lease = (!lease.is_zero()).then_some(lease);
        if lease.is_some() {
            let facts = crate::facts::gather(&self.environment, &self.cwd);
            let logind = Logind {
                root: "/".as_ref(),
                uid: facts.uid,
                user: &facts.user,
            };
            if let Some(reason) = logind.obstacle(&self.places.run) {
                return Err(Refusal::new(format!("no lease here: {reason}")));
            }
        }
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
        Ok(())
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SHA-256 of the running executable. It is read through /proc, so it is the
/// file that runs even if another one has its name by now. `unknown` where it
/// cannot be read.
#[must_use]
pub fn build_id() -> String {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let copied = std::fs::File::open("/proc/self/exe").and_then(|mut file| {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match std::io::Read::read(&mut file, &mut buffer)? {
                0 => return Ok(()),
                read => hash.update(&buffer[..read]),
            }
        }
    });
    match copied {
        Ok(()) => ollie_protocol::auth::to_hex(&hash.finalize()),
        Err(_) => "unknown".to_owned(),
    }
}
