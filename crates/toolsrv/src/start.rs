use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ollie_exec::{Companion, Litter, Spawner};
use ollie_protocol::{Boot, Nonce, Octets, Ready, limits};
use ollie_sandbox::Layered;
use tokio::net::UnixListener;
use zeroize::Zeroizing;

use crate::Error;
use crate::collect::{collect, hold, version_directory};
use crate::directory_lock::Holder;
use crate::facts::Environment;
use crate::places::Places;
use crate::project::Project;
use crate::serve::serve;
use crate::session::Session;
use crate::stale::sweep;
use crate::stdio::Stdio;
use crate::store::Store;

/// How long the companion has to end what is left.
const COMPANION_WAIT: Duration = Duration::from_secs(10);

/// Runs toolsrv from the boot record on standard input to the end of the
/// session. `variables` is the environment it was started with; `lasting` says
/// that the session may be given a lease that outlives the login.
///
/// # Errors
/// [`Error`], if nothing could be started. Once the boot record was read, the
/// other side is told the same in the ready line.
pub fn start(variables: Vec<(OsString, OsString)>, lasting: bool) -> Result<(), Error> {
    // Keys will be in memory: no core dump, no ptrace by others (prctl(2)).
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(Error::system("become undumpable"))?;
    // What toolsrv makes is for nobody else; what tools make is as the user
    // has it.
    let private = rustix::fs::Mode::from_raw_mode(0o077);
    let users = rustix::process::umask(private);
    let environment = Environment::new(variables);
    let places = Places::make(&|name| environment.var(name), lasting)?;
    // Between bind(2) and listen(2) a connection is refused as if nobody lived
    // here; this says to another session's sweep that somebody does.
    let _alive = Holder::User.lock(&places.run);
    let litter = Litter::new(vec![places.run.clone(), places.tmp.clone()]);
    rustix::process::umask(users);
    let forked = Companion::fork(&litter);
    rustix::process::umask(private);
    let companion = match forked {
        Ok(companion) => companion,
        Err(error) => {
            let _ = litter.remove();
            return Err(Error::Companion(error));
        }
    };
    let pid = companion.pid;
    let result = with_companion(environment, &places, companion);
    // The companion has read end-of-file by now, ends what is left and goes.
    // If it was killed, what it watched over has become this process's own.
    ollie_exec::wait_for(pid, COMPANION_WAIT);
    ollie_exec::end_descendants(Duration::ZERO, &HashSet::new(), &mut |_, _| ());
    let _ = litter.remove();
    result
}

fn with_companion(
    environment: Environment,
    places: &Places,
    companion: Companion,
) -> Result<(), Error> {
    let boot = read_boot()?;
    let mark = boot.mark.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("make a runtime"))?;
    runtime.block_on(async {
        let prepared = prepare(environment, places, companion, boot).await;
        match prepared {
            Ok(ready) => {
                let stdio = Stdio::open()?;
                announce(&mark, &ready.ready, ready.project.as_bytes())?;
                let _in_use = collect_old_versions(places);
                collect_old_scripts(&ready.session);
                let served = serve(ready.session, stdio, ready.listener, ready.nonce).await;
                served.map_err(Error::NotLetIn)
            }
            Err(error) => {
                announce(
                    &mark,
                    &Ready::Refused {
                        kind: error.obstacle(),
                        reason: error.chain(),
                    },
                    &[],
                )?;
                Err(error)
            }
        }
    })
}

/// A session that can be served.
struct Prepared {
    session: Arc<Session>,
    listener: UnixListener,
    ready: Ready,
    nonce: Nonce,
    /// The project's policy file, which follows the ready line.
    project: String,
}

async fn prepare(
    environment: Environment,
    places: &Places,
    companion: Companion,
    mut boot: Boot,
) -> Result<Prepared, Error> {
    let cwd = working_directory(boot.cwd.as_ref())?;
    // Before the policy, which grants a directory only if it is there.
    let store = Store::in_one_of(script_places(&environment, places));
    let layered = Layered::from_json(boot.policy.get().as_bytes()).map_err(Error::Policy)?;
    let (project, text) = Project::read(&cwd, boot.project)?;
    let spawner = Spawner::new(companion).map_err(Error::Companion)?;
    let socket = places.socket();
    let listener = UnixListener::bind(&socket).map_err(Error::system("bind the socket"))?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))
        .map_err(Error::system("protect the socket"))?;
    let nonce = match boot.nonce.take() {
        Some(nonce) => nonce,
        None => Nonce::random()
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(Error::system("make a nonce"))?,
    };
    let places = places.clone();
    let session = Session::new(boot, cwd, places, environment, project, spawner, store);
    let project = session.begin(layered, text.as_deref()).await?;
    let ready = Ready::Ready {
        protocol: limits::PROTOCOL,
        nonce,
        pid: std::process::id(),
        socket: socket.into_os_string().into(),
        project,
    };
    Ok(Prepared {
        session,
        listener,
        ready,
        nonce,
        project: text.unwrap_or_default(),
    })
}

/// Reads `size[4] json[size]` and not a byte more: 9P follows.
fn read_boot() -> Result<Boot, Error> {
    let mut size = [0; 4];
    read_exact(&mut size)?;
    let size = u32::from_le_bytes(size) as usize;
    if size > limits::BOOT_MAX {
        return Err(Error::Stdio {
            stream: "standard input",
            problem: format!(
                "does not begin with a boot record of at most {} bytes; toolsrv is started by \
                 olliesrv",
                limits::BOOT_MAX
            ),
        });
    }
    let mut json = Zeroizing::new(vec![0; size]);
    read_exact(&mut json)?;
    Boot::parse(&json).map_err(Error::Boot)
}

/// Fills `buffer` from standard input, past the standard library's buffer,
/// which would swallow what follows.
fn read_exact(mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        match rustix::io::read(rustix::stdio::stdin(), &mut *buffer) {
            Ok(0) => {
                return Err(Error::Stdio {
                    stream: "standard input",
                    problem: "ended within the boot record".to_owned(),
                });
            }
            Ok(read) => buffer = &mut buffer[read..],
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::system("read standard input")(errno)),
        }
    }
    Ok(())
}

/// Prints the line that says whether all is ready, and what follows it.
pub(crate) fn announce(
    mark: &str,
    ready: &impl serde::Serialize,
    behind: &[u8],
) -> Result<(), Error> {
    let mut line = format!("{mark} ").into_bytes();
    line.extend(crate::live::line(ready));
    line.extend(behind);
    let mut output = std::io::stdout().lock();
    output
        .write_all(&line)
        .and_then(|()| output.flush())
        .map_err(Error::system("print the ready line"))
}

/// The session's working directory: the one asked for, else the present one.
fn working_directory(asked: Option<&Octets>) -> Result<PathBuf, Error> {
    let present = || std::env::current_dir();
    let path = match asked {
        None => present(),
        Some(path) if Path::new(path.as_os_str()).is_absolute() => Ok(path.as_os_str().into()),
        Some(path) => present().map(|present| present.join(path.as_os_str())),
    }
    .map_err(Error::system("find the working directory"))?;
    let usable = |source| Error::Cwd {
        path: path.clone(),
        source,
    };
    // Entering it is the test: exists, is a directory, may be searched.
    std::env::set_current_dir(&path).map_err(usable)?;
    std::env::current_dir().map_err(usable)
}

/// Where scripts of tools may be kept, the best place first: beside the
/// installed versions, in the user's cache, or for this session alone.
fn script_places(environment: &Environment, places: &Places) -> Vec<PathBuf> {
    let named = environment.var("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = named
        .unwrap_or_else(|| environment.home.join(".cache"))
        .join("ollie");
    let program = std::env::current_exe().ok();
    let installed = program
        .as_deref()
        .and_then(version_directory)
        .and_then(|version| version.ancestors().nth(2));
    let roots = installed.into_iter().chain([cache.as_path(), &places.run]);
    roots.map(|root| root.join("scripts")).collect()
}

/// Removes versions that nobody needs any more and what dead sessions have
/// left, beside the work. This version is in use for as long as the result is
/// kept.
fn collect_old_versions(places: &Places) -> Option<File> {
    let program = std::env::current_exe().ok()?;
    let version = version_directory(&program)?.to_owned();
    let held = hold(&version);
    let (run, tmp) = (places.run.clone(), places.tmp.clone());
    // Without a thread they are collected another time.
    let _ = std::thread::Builder::new().spawn(move || {
        collect(&version, SystemTime::now());
        sweep(&run, &tmp);
    });
    held
}

/// Removes scripts that were not used for long.
fn collect_old_scripts(session: &Session) {
    if let Some(store) = &session.registry.store {
        let directory = store.directory().to_owned();
        let collect = move || Store::collect(&directory, SystemTime::now());
        let _ = std::thread::Builder::new().spawn(collect);
    }
}
