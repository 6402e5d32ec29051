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
use ollie_sandbox::{HostView, Identity, Layered, Policy};
use tokio::net::UnixListener;
use zeroize::Zeroizing;

use crate::Error;
use crate::collect::{collect, hold, version_directory};
use crate::facts::Environment;
use crate::places::Places;
use crate::serve::serve;
use crate::session::{Confinement, Sandbox, Session};
use crate::stdio::Stdio;

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
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let environment = Environment::new(variables);
    let places = Places::make(&|name| environment.var(name), lasting)?;
    let litter = Litter::new(vec![places.run.clone(), places.tmp.clone()]);
    let companion = match Companion::fork(&litter) {
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
            Ok((session, listener, ready, nonce)) => {
                let stdio = Stdio::open()?;
                announce(&mark, &ready)?;
                let _in_use = collect_old_versions();
                serve(session, stdio, listener, nonce).await;
                Ok(())
            }
            Err(error) => {
                announce(
                    &mark,
                    &Ready::Refused {
                        kind: error.obstacle(),
                        reason: error.chain(),
                    },
                )?;
                Err(error)
            }
        }
    })
}

async fn prepare(
    environment: Environment,
    places: &Places,
    companion: Companion,
    boot: Boot,
) -> Result<(Arc<Session>, UnixListener, Ready, Nonce), Error> {
    let cwd = working_directory(boot.cwd.as_ref())?;
    let policy = resolve(&environment, places, &cwd, boot.policy.get())?;
    let spawner = Spawner::new(companion).map_err(Error::Companion)?;
    let confinement = confine(&environment, &policy, boot.yolo, &spawner).await?;
    let socket = places.socket();
    let listener = UnixListener::bind(&socket).map_err(Error::system("bind the socket"))?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))
        .map_err(Error::system("protect the socket"))?;
    let nonce = match boot.nonce {
        Some(nonce) => nonce,
        None => Nonce::random()
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(Error::system("make a nonce"))?,
    };
    let hostname = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let session = Session::new(
        boot.session,
        boot.secret,
        cwd,
        places.run.clone(),
        environment,
        Sandbox {
            hostname,
            policy,
            confinement,
        },
        spawner,
    );
    let ready = Ready::Ready {
        protocol: limits::PROTOCOL,
        nonce,
        pid: std::process::id(),
        socket: socket.into_os_string().into(),
    };
    Ok((session, listener, ready, nonce))
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

/// Prints the line that says whether all is ready.
pub(crate) fn announce(mark: &str, ready: &impl serde::Serialize) -> Result<(), Error> {
    let mut line = format!("{mark} ").into_bytes();
    line.extend(crate::live::line(ready));
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

fn resolve(
    environment: &Environment,
    places: &Places,
    cwd: &Path,
    layers: &str,
) -> Result<Policy, Error> {
    let identity = Identity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: rustix::process::getgroups()
            .map(|groups| groups.iter().map(|group| group.as_raw()).collect())
            .unwrap_or_default(),
    };
    let roots = ollie_roots(environment, places);
    let path = environment.var("PATH");
    Layered::from_json(layers.as_bytes())
        .and_then(|layered| {
            layered.expand(&HostView {
                cwd,
                home: Some(&environment.home),
                tmpdir: Some(&places.tmp),
                path: path.as_deref(),
                tools_path: None,
                ollie_roots: &roots,
                env: &|name| environment.var(name),
                identity: Some(&identity),
            })
        })
        .map_err(Error::Policy)
}

/// Where ollie keeps files of its own on this host. A tool that could write
/// there would be started unconfined the next time.
fn ollie_roots(environment: &Environment, places: &Places) -> Vec<PathBuf> {
    let home = &environment.home;
    let directory = |variable: &str, default: &str| {
        environment
            .var(variable)
            .map_or_else(|| home.join(default), PathBuf::from)
            .join("ollie")
    };
    let mut roots = vec![
        directory("XDG_CACHE_HOME", ".cache"),
        directory("XDG_CONFIG_HOME", ".config"),
        directory("XDG_STATE_HOME", ".local/state"),
        places.run.clone(),
        places.tmp.clone(),
    ];
    if let Ok(program) = std::env::current_exe() {
        roots.extend(install_root(&program).map(Path::to_owned));
    }
    roots
}

/// Removes versions that nobody needs any more, beside the work. This one is
/// in use for as long as the result is kept.
fn collect_old_versions() -> Option<File> {
    let program = std::env::current_exe().ok()?;
    let version = version_directory(&program)?.to_owned();
    let held = hold(&version);
    // Without a thread they are collected another time.
    let _ = std::thread::Builder::new().spawn(move || collect(&version, SystemTime::now()));
    held
}

/// The root of `<root>/<os>-<arch>/<sha256>/toolsrv`, which stage 0 may have
/// put where no variable says it is; else the program's own directory.
fn install_root(program: &Path) -> Option<&Path> {
    match version_directory(program) {
        Some(version) => version.ancestors().nth(2),
        None => program.parent(),
    }
}

/// Compiles the policy and hands it to the companion. That this kernel cannot
/// enforce it does not end the session: everything can be read, nothing runs.
async fn confine(
    environment: &Environment,
    policy: &Policy,
    yolo: bool,
    spawner: &Spawner,
) -> Result<Result<Confinement, String>, Error> {
    let enforcement = match ollie_sandbox::compile(policy, yolo) {
        Ok(enforcement) => enforcement,
        Err(error) => return Ok(Err(Error::Policy(error).chain())),
    };
    let number = spawner
        .add_policy(&enforcement)
        .await
        .map_err(Error::Companion)?;
    let (variables, withheld) = policy.environment(environment.variables.iter().cloned());
    let env = variables
        .into_iter()
        .map(|(name, value)| {
            let mut entry = name;
            entry.push("=");
            entry.push(value);
            Octets::from(entry)
        })
        .collect();
    let mut report = enforcement.report().clone();
    report.env_withheld = withheld;
    Ok(Ok(Confinement {
        policy: number,
        report,
        env,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_an_installed_toolsrv_is_found() {
        let digest = "0a".repeat(32);
        let installed = format!("/var/tmp/ollie-7/linux-x86_64/{digest}/toolsrv");
        let root = install_root(Path::new(&installed));
        assert_eq!(root, Some(Path::new("/var/tmp/ollie-7")));
        let elsewhere = install_root(Path::new("/opt/toolsrv"));
        assert_eq!(elsewhere, Some(Path::new("/opt")));
    }
}
