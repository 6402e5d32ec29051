use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_client::{Call, ToolsrvConn};
use ollie_deploy::{
    Channel, Installed, Leases, Place, Plan, Process, ProcessKeeper, Remote, Step, Target,
};
use ollie_protocol::{CallId, Nonce, Octets, ToolCall, auth};
use ollie_sandbox::{Layer, Layered, MAX_POLICY_BYTES, Source};

use crate::askpass::Asker;
use crate::config::Config;
use crate::error::Error;
use crate::options::SessionOptions;
use crate::paths::Paths;
use crate::plain_file::{self, Links};
use crate::printable::printable;
use crate::project::{Project, Standing, digest_now};
use crate::verbose::Verbose;

/// The name under which the command line attaches.
const AGENT: &str = "cli";

/// The profile that policies start from.
pub(crate) const PROFILE: &str = "default";

/// A session's tools: a connection, and the process behind it.
#[derive(Debug)]
pub(crate) struct ToolServer {
    pub(crate) conn: ToolsrvConn,
    process: Process,
    /// The project's directory on this machine, and its policy file's digest
    /// when it was read.
    project: Option<(PathBuf, Option<String>)>,
}

impl ToolServer {
    /// Closes the connection and waits until everything of the session is
    /// gone. Returns whether that was seen.
    pub(crate) async fn end(self) -> bool {
        drop(self.conn);
        let gone = self.process.ended().await;
        if let Some((directory, before)) = self.project
            && digest_now(&directory) != before
        {
            crate::output::note(
                "the project's .ollie-sandbox.yaml changed during this session; that had no \
                 effect, and what it asks for now has to be trusted anew",
            );
        }
        gone
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

/// Starts and connects the toolsrv of a session, on this machine or on `host`.
/// This is the one function that knows where it runs.
pub(crate) async fn setup_tool_server(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
) -> Result<ToolServer, Error> {
    let (server, _) = start(options, host, verbose, None).await?;
    Ok(server)
}

/// The same, and starts a call as soon as may be: on its way together with
/// the handshake.
pub(crate) async fn setup_with_call(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
    call: &ToolCall,
) -> Result<(ToolServer, Call), Error> {
    let (server, running) = start(options, host, verbose, Some(call)).await?;
    let running = match running {
        Some(running) => running,
        None => server.conn.call(call)?,
    };
    Ok((server, running))
}

async fn start(
    options: &SessionOptions,
    host: Option<&Target>,
    verbose: &Verbose,
    call: Option<&ToolCall>,
) -> Result<(ToolServer, Option<Call>), Error> {
    let paths = own_paths()?;
    let mut project = None;
    let (process, channel) = match host {
        Some(host) => {
            let mut there = There::new(options, host, &paths)?;
            // It lives until ssh has nothing more to ask.
            let asker = Asker::start(&paths.runtime)?;
            there.remote.askpass = asker.as_ref().map(Asker::askpass);
            let tell = |step: &Step| verbose.step(&step.to_string());
            ollie_deploy::spawn_remote(&there.remote, &there.plan, &tell).await?
        }
        None => {
            let plan = plan_here(options, &paths)?;
            project = plan.cwd.as_ref().map(|cwd| {
                let directory = PathBuf::from(cwd.as_os_str());
                let digest = digest_now(&directory);
                (directory, digest)
            });
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
            ollie_deploy::spawn_local(&installed, &plan).await?
        }
    };
    let (mut server, running) = connect_and_call(process, channel, verbose, call).await?;
    server.project = project;
    Ok((server, running))
}

/// Proves both sides to each other.
pub(crate) async fn connect(
    process: Process,
    channel: Channel,
    verbose: &Verbose,
) -> Result<ToolServer, Error> {
    let (server, _) = connect_and_call(process, channel, verbose, None).await?;
    Ok(server)
}

async fn connect_and_call(
    mut process: Process,
    channel: Channel,
    verbose: &Verbose,
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
    let server = ToolServer {
        conn,
        process,
        project: None,
    };
    Ok((server, running))
}

/// A session on another host: how to go there, and what to start.
#[derive(Debug)]
pub(crate) struct There {
    /// The host, as the person calls it.
    pub(crate) name: String,
    pub(crate) remote: Remote,
    pub(crate) plan: Plan,
}

impl There {
    /// `host` is a remote of the configuration, or a target. The command line
    /// goes before the configuration.
    pub(crate) fn new(
        options: &SessionOptions,
        host: &Target,
        paths: &Paths,
    ) -> Result<Self, Error> {
        if options.trust_project.is_some() {
            return Err(Error::Usage(
                "--trust-project: the file of a project on another host is not read".to_owned(),
            ));
        }
        let name = host.to_string();
        let config = Config::read(&paths.config_file())?.remotes.remove(&name);
        let known = config.as_ref();
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
        if let Some(timeout) = options.answer_timeout.or(timeout) {
            remote.answer_timeout = timeout;
        }
        remote.ssh.clone_from(&options.ssh);
        remote.runtime = Some(paths.runtime.clone());
        remote.packed = Some(paths.cache.join("packed"));
        // The keys of models stay here, whatever SendEnv says.
        remote.withheld = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| name.to_string_lossy().ends_with("_API_KEY"))
            .collect();
        let profile = known.and_then(|known| known.profile.as_deref());
        // What is relative there is relative to where toolsrv starts, which is
        // the home directory.
        let cwd = known.and_then(|known| known.cwd.as_ref());
        let cwd = options.cwd.as_ref().or(cwd).cloned();
        let profile = options.profile.as_deref().or(profile).unwrap_or(PROFILE);
        let plan = plan(options, &layers(profile, &paths.policy())?, cwd, paths)?;
        Ok(Self { name, remote, plan })
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
    let (place, mut plan) = match host {
        Some(host) => {
            let mut there = There::new(options, host, &paths)?;
            there.remote.askpass = asker.as_ref().map(Asker::askpass);
            (Place::There(Box::new(there.remote)), there.plan)
        }
        None => {
            let plan = plan_here(options, &paths)?;
            (Place::Here(paths.cache), plan)
        }
    };
    plan.lease = Some(time);
    if let Some(name) = name {
        name.clone_into(&mut plan.session);
    }
    let keeper = ProcessKeeper::new(place, plan, AGENT, verbose.client_config());
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
pub(crate) fn plan_here(options: &SessionOptions, paths: &Paths) -> Result<Plan, Error> {
    let cwd = match &options.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => std::env::current_dir(),
    }
    .map_err(|source| Error::Io {
        action: "find the working directory",
        source,
    })?;
    let layered = layers(
        options.profile.as_deref().unwrap_or(PROFILE),
        &paths.policy(),
    )?;
    let project = Project::read(&cwd)?;
    let named = options.trust_project.as_deref();
    let found = project.as_ref().map(|project| project.digest.as_str());
    if let Some(named) = named
        && found != Some(named)
    {
        return Err(Error::Usage(format!(
            "--trust-project {named}: the SHA-256 of the project's file is {}",
            found.unwrap_or("none, there is no such file")
        )));
    }
    let layered = match project {
        Some(project) => {
            let requests = project.requests(&layered);
            let (layered, standing) = project.lay_on(layered, paths, named)?;
            if standing == Standing::Untrusted {
                crate::output::note(&printable(&project.summary(&requests)));
            }
            layered
        }
        None => layered,
    };
    plan(options, &layered.project_read(), Some(cwd), paths)
}

fn plan(
    options: &SessionOptions,
    layered: &Layered,
    cwd: Option<PathBuf>,
    paths: &Paths,
) -> Result<Plan, Error> {
    let policy = layered.to_json().map_err(Error::Policy)?;
    Ok(Plan {
        bundle: paths.bundle(options.bundle.as_ref())?,
        policy: String::from_utf8_lossy(&policy).into_owned(),
        cwd: cwd.map(|cwd| Octets::from(cwd.into_os_string())),
        yolo: options.yolo,
        session: format!("s-{}", fresh_word()?),
        lease: None,
    })
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
    plain_file::read(file, MAX_POLICY_BYTES, Links::Followed).map_err(|source| Error::PolicyFile {
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
