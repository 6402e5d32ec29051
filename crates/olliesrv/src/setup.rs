use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ollie_client::{Call, ToolsrvConn};
use ollie_deploy::{
    Askpass, Channel, Connections, Installed, Leases, Place, Plan, Process, ProcessKeeper, Remote,
    Step, Target,
};
use ollie_protocol::{CallId, Nonce, Octets, ToolCall, auth};
use ollie_sandbox::{Layer, Layered, Links, MAX_POLICY_BYTES, Source, read_plain};

use crate::askpass::Asker;
use crate::config::Config;
use crate::error::Error;
use crate::options::SessionOptions;
use crate::paths::Paths;
use crate::project::{Base, Decided};
use crate::trust::Trusted;
use crate::verbose::Verbose;

/// The name under which the command line attaches.
pub(crate) const AGENT: &str = "cli";

/// The profile that policies start from.
pub(crate) const PROFILE: &str = "default";

/// A session's tools: a connection, and the process behind it.
#[derive(Debug)]
pub(crate) struct ToolServer {
    pub(crate) conn: ToolsrvConn,
    process: Process,
    /// What became of the project's own policy file, if there is one.
    pub(crate) project: Option<Decided>,
}

impl ToolServer {
    /// Closes the connection and waits until everything of the session is
    /// gone. Returns whether that was seen.
    pub(crate) async fn end(self) -> bool {
        drop(self.conn);
        self.process.ended().await
    }

    /// Returns when the other host was silent too long: what is in flight then
    /// has an unknown outcome. Never on this machine.
    pub(crate) async fn silence(&self) -> Error {
        let quiet = self.process.silence(&self.conn).await;
        Error::Silent {
            seconds: quiet.as_secs(),
        }
    }

    /// The process behind the connection.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

/// Starts and connects the toolsrv of a session, on this machine or on `host`,
/// and says what the project asks for and does not have.
pub(crate) async fn setup_tool_server(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
) -> Result<ToolServer, Error> {
    let (server, _) = start(options, host, verbose, None).await?;
    server.project.iter().for_each(Decided::tell);
    Ok(server)
}

/// The same without a word.
pub(crate) async fn open(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
) -> Result<ToolServer, Error> {
    let (server, _) = start(options, host, verbose, None).await?;
    Ok(server)
}

/// Starts a call as soon as may be as well: on its way together with the
/// handshake. Where there is a project's policy file it waits there until that
/// is decided.
pub(crate) async fn setup_with_call(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
    call: &ToolCall,
) -> Result<(ToolServer, Call), Error> {
    let (server, running) = start(options, host, verbose, Some(call)).await?;
    server.project.iter().for_each(Decided::tell);
    let running = match running {
        Some(running) => running,
        None => server.conn.call(call)?,
    };
    Ok((server, running))
}

/// This is the one function that knows where a session runs.
async fn start(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
    call: Option<&ToolCall>,
) -> Result<(ToolServer, Option<Call>), Error> {
    let paths = own_paths()?;
    let (process, channel, base) = match host {
        Some(host) => {
            let mut there = There::new(options, host, &paths)?;
            // It lives until ssh has nothing more to ask.
            let asker = Asker::start(&paths.runtime)?;
            there.remote.askpass = asker.as_ref().map(Asker::askpass);
            there.remote.connections = Some(Arc::new(Connections::borrowed(&paths.doorway)));
            let tell = |step: &Step| verbose.on_the_way(step);
            let (process, channel) =
                ollie_deploy::spawn_remote(&there.remote, &there.plan, &tell).await?;
            (process, channel, there.base)
        }
        None => {
            let (plan, base) = plan_here(options, &paths)?;
            let installed = install(&plan, &paths)?;
            verbose.step(&format!(
                "toolsrv {} {}",
                if installed.fresh {
                    "installed as"
                } else {
                    "is there:"
                },
                installed.program.display()
            ));
            let (process, channel) = ollie_deploy::spawn_local(&installed, &plan).await?;
            (process, channel, base)
        }
    };
    connect_and_call(process, channel, verbose, Some(&base), call).await
}

/// Proves both sides to each other, and decides about the project's file, for
/// which `base` is needed if the plan asked for it.
pub(crate) async fn connect(
    process: Process,
    channel: Channel,
    verbose: &Verbose,
    base: Option<&Base>,
) -> Result<ToolServer, Error> {
    let (server, _) = connect_and_call(process, channel, verbose, base, None).await?;
    Ok(server)
}

async fn connect_and_call(
    mut process: Process,
    channel: Channel,
    verbose: &Verbose,
    base: Option<&Base>,
    call: Option<&ToolCall>,
) -> Result<(ToolServer, Option<Call>), Error> {
    let opened = process.open(channel, AGENT, verbose.client_config()).await;
    let running = match (&opened, call) {
        (Ok(opening), Some(call)) => opening.call(call)?,
        _ => None,
    };
    let conn = process.proved(opened).await?;
    verbose.step(&format!(
        "toolsrv is ready, process {}; both sides have proved who they are",
        process.server().unwrap_or_default()
    ));
    let decided = match base {
        Some(base) => base.decide(&conn, process.project.as_ref()).await,
        None => Ok(None),
    };
    match decided {
        Ok(project) => {
            let server = ToolServer {
                conn,
                process,
                project,
            };
            Ok((server, running))
        }
        Err(error) => {
            // It waits for what was not decided, and never starts.
            drop(running);
            drop(conn);
            process.ended().await;
            Err(error)
        }
    }
}

/// Where a session runs that is started later, on this machine or on `host`,
/// over which connections, what is started there, and what its project's file
/// is laid on.
pub(crate) fn place(
    options: &SessionOptions,
    host: Option<&Target>,
    askpass: Option<Askpass>,
    connections: Arc<Connections>,
) -> Result<(Place, Plan, Base), Error> {
    let paths = own_paths()?;
    match host {
        Some(host) => {
            let mut there = There::new(options, host, &paths)?;
            there.remote.askpass = askpass;
            there.remote.connections = Some(connections);
            Ok((Place::There(Box::new(there.remote)), there.plan, there.base))
        }
        None => {
            let (plan, base) = plan_here(options, &paths)?;
            Ok((Place::Here(paths.cache), plan, base))
        }
    }
}

/// A session on another host: how to go there, and what to start.
#[derive(Debug)]
pub(crate) struct There {
    pub(crate) remote: Remote,
    pub(crate) plan: Plan,
    pub(crate) base: Base,
}

impl There {
    /// `host` is a remote of the configuration, or a target. The command line
    /// goes before the configuration.
    pub(crate) fn new(
        options: &SessionOptions,
        host: &Target,
        paths: &Paths,
    ) -> Result<Self, Error> {
        let name = host.to_string();
        let config = Config::read(&paths.config_file())?;
        let known = config.remotes.get(&name);
        let target = known
            .and_then(|known| known.target.as_ref())
            .unwrap_or(host);
        let mut remote = Remote::new(target.clone());
        if let Some(transport) = options
            .transport
            .or(known.and_then(|known| known.transport))
        {
            remote.transport = transport;
        }
        let timeout = known.and_then(|known| known.answer_timeout);
        if let Some(timeout) = options.ground.answer_timeout.or(timeout) {
            remote.answer_timeout = timeout;
        }
        remote.ssh.clone_from(&options.ground.ssh);
        remote.runtime = Some(paths.runtime.clone());
        remote.packed = Some(paths.cache.join("packed"));
        // They stay here, whatever SendEnv says.
        remote.withheld = keys_of_models(&config);
        let profile = known.and_then(|known| known.profile.as_deref());
        // What is relative there is relative to where toolsrv starts, which is
        // the home directory.
        let cwd = known.and_then(|known| known.cwd.as_ref());
        let cwd = options.cwd.as_ref().or(cwd).cloned();
        let profile = options.profile.as_deref().or(profile).unwrap_or(PROFILE);
        let layered = layers(profile, &paths.policy())?;
        let plan = plan(options, &layered, cwd, paths)?;
        let trusted = Trusted::at(paths);
        let place = Some((name, remote.clone()));
        let base = Base::new(layered, options, trusted, place);
        Ok(Self { remote, plan, base })
    }
}

/// A session that lives on without a connection, and who asks for passwords
/// when one is made again.
pub(crate) struct Lasting {
    pub(crate) keeper: ProcessKeeper,
    pub(crate) _asker: Option<Asker>,
}

/// The keeper of a session with a lease; nothing is started yet. `name` is
/// that of a session that lives on already; `note` is what lists show.
pub(crate) fn setup_lasting(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
    time: Duration,
    name: Option<&str>,
    note: &str,
) -> Result<Lasting, Error> {
    let paths = own_paths()?;
    let asker = match host {
        Some(_) => Asker::start(&paths.runtime)?,
        None => None,
    };
    let leases = Leases::new(paths.leases());
    let askpass = asker.as_ref().map(Asker::askpass);
    let connections = Arc::new(Connections::borrowed(&paths.doorway));
    let (place, mut plan, base) = self::place(options, host, askpass, connections)?;
    plan.lease = Some(time);
    if let Some(name) = name {
        name.clone_into(&mut plan.session);
    }
    let base = Arc::new(base);
    let keeper = ProcessKeeper::new(place, plan, AGENT, verbose.client_config());
    let keeper = keeper.prepare(move |conn, found| {
        let base = Arc::clone(&base);
        Box::pin(async move {
            if let Some(project) = base.decide(conn, found).await? {
                project.tell();
            }
            Ok(())
        })
    });
    Ok(Lasting {
        keeper: keeper.leases(leases, note),
        _asker: asker,
    })
}

/// Where ollie's files are, for this process.
pub(crate) fn own_paths() -> Result<Paths, Error> {
    Paths::new(&|name| std::env::var_os(name), std::env::current_exe().ok())
}

/// What to start on this machine.
pub(crate) fn plan_here(options: &SessionOptions, paths: &Paths) -> Result<(Plan, Base), Error> {
    let cwd = match &options.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => std::env::current_dir(),
    }
    .map_err(|source| Error::Io {
        action: "find the working directory",
        source,
    })?;
    let profile = options.profile.as_deref().unwrap_or(PROFILE);
    let layered = layers(profile, &paths.policy())?;
    let mut plan = plan(options, &layered, Some(cwd), paths)?;
    plan.withheld = keys_of_models(&Config::read(&paths.config_file())?);
    // Somebody's tests may need one: who writes it out gets it.
    (plan.withheld).retain(|name| !name.to_str().is_some_and(|name| layered.names(name)));
    let base = Base::new(layered, options, Trusted::at(paths), None);
    Ok((plan, base))
}

fn plan(
    options: &SessionOptions,
    layered: &Layered,
    cwd: Option<PathBuf>,
    paths: &Paths,
) -> Result<Plan, Error> {
    let policy = layered.to_json().map_err(Error::Policy)?;
    Ok(Plan {
        bundle: paths.bundle(options.ground.bundle.as_ref())?,
        policy: String::from_utf8_lossy(&policy).into_owned(),
        cwd: cwd.map(|cwd| Octets::from(cwd.into_os_string())),
        yolo: options.yolo,
        project: true,
        session: format!("s-{}", fresh_word()?),
        lease: None,
        withheld: Vec::new(),
    })
}

/// Variables of this process that hold keys of models: none of them is a
/// tool's business.
fn keys_of_models(config: &Config) -> Vec<OsString> {
    let keys: Vec<&str> = (config.backends.values())
        .filter_map(|backend| backend.key_env.as_deref())
        .collect();
    std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| {
            let name = name.to_string_lossy();
            name.ends_with("_API_KEY") || keys.contains(&&*name)
        })
        .collect()
}

/// Puts toolsrv in its place on this machine.
pub(crate) fn install(plan: &Plan, paths: &Paths) -> Result<Installed, Error> {
    Ok(ollie_deploy::install(&plan.bundle, &paths.cache)?)
}

/// The profile and, on top of it, the user's file if there is one.
pub(crate) fn layers(profile: &str, file: &Path) -> Result<Layered, Error> {
    let text = policy_text(file)?;
    let documents = text
        .map(|text| {
            let source = Source::new(Layer::User, file.display().to_string());
            ollie_sandbox::parse(&text, &source).map_err(Error::Policy)
        })
        .transpose()?;
    let documents = documents.as_slice();
    ollie_sandbox::layer(profile, documents).map_err(Error::Policy)
}

/// A policy file of the user's as text, if it is there.
pub(crate) fn policy_text(file: &Path) -> Result<Option<String>, Error> {
    read_plain(file, MAX_POLICY_BYTES, Links::Followed).map_err(|source| Error::PolicyFile {
        path: file.to_owned(),
        source,
    })
}

/// A fresh id for a call.
pub(crate) fn call_id() -> Result<CallId, Error> {
    let word = format!("c-{}", fresh_word()?);
    CallId::new(word).map_err(|error| Error::Usage(error.to_string()))
}

fn fresh_word() -> Result<String, Error> {
    let nonce = Nonce::random().map_err(|error| Error::Io {
        action: "get random numbers",
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(auth::to_hex(&nonce.as_bytes()[..8]))
}
