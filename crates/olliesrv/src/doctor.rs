use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ollie_deploy::{SshFailure, Step, Target};
use ollie_protocol::{Enforced, Exit, Obstacle, SandboxReport, ShellArgs, ToolCall};
use serde_json::{Value, json};

use crate::askpass::Asker;
use crate::error::Error;
use crate::options::DoctorOptions;
use crate::output;
use crate::printable::printable;
use crate::setup::{self, ToolServer};
use crate::verbose::Verbose;
use crate::{call, exit};

/// One step that was looked at.
struct Check {
    name: &'static str,
    ok: bool,
    ms: f64,
    found: String,
    /// The one thing that mends it, if it is not well.
    remedy: Option<String>,
}

/// Goes through the steps of a session, one line each, and stops where one
/// fails; so for each host.
pub(crate) async fn run(options: &DoctorOptions) -> Result<u8, Error> {
    let mut worst = None;
    let mut records = Vec::new();
    if options.hosts.is_empty() {
        let report = examine(options, None).await?;
        worst = report.problem();
        records.push(report.to_json(None));
    }
    for host in &options.hosts {
        if !options.json {
            output::print(&format!("{}\n", printable(&host.to_string())))?;
        }
        let report = examine(options, Some(host)).await?;
        worst = worst.or(report.problem());
        records.push(report.to_json(Some(host)));
    }
    if options.json {
        let record = match (options.hosts.is_empty(), records.pop()) {
            (true, Some(record)) => record,
            (_, last) => {
                records.extend(last);
                json!({ "ok": worst.is_none(), "hosts": records })
            }
        };
        output::print(&format!("{record:#}\n"))?;
    }
    Ok(worst.unwrap_or(0))
}

async fn examine(options: &DoctorOptions, host: Option<&Target>) -> Result<Report, Error> {
    let mut report = Report {
        checks: Vec::new(),
        json: options.json,
        began: Instant::now(),
        status: exit::UNHEALTHY,
    };
    if let Err(error) = steps(options, host, &mut report).await {
        let remedy = remedy(&error);
        report.status = exit::of_error(&error);
        report.add("session", false, error.chain(), Some(remedy))?;
    }
    Ok(report)
}

async fn steps(
    options: &DoctorOptions,
    host: Option<&Target>,
    report: &mut Report,
) -> Result<(), Error> {
    let verbose = Verbose::new(&options.session);
    let paths = setup::own_paths()?;
    let there = host
        .map(|host| setup::There::new(&options.session, host, &paths))
        .transpose()?;
    let (process, channel, build, base) = match there {
        Some(setup::There {
            mut remote,
            plan,
            base,
            ..
        }) => {
            let asker = Asker::start(&paths.runtime)?;
            remote.askpass = asker.as_ref().map(Asker::askpass);
            report.add("bundle", true, plan.bundle.display().to_string(), None)?;
            let (process, channel) = {
                let report = Mutex::new(&mut *report);
                let tell = |step: &Step| {
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    // A line that cannot be printed ends the command elsewhere.
                    let _ = report.step(step);
                };
                ollie_deploy::spawn_remote(&remote, &plan, &tell).await?
            };
            let arrival = process.arrival.as_ref();
            if let Some(noise) = arrival.and_then(|arrival| arrival.noise.as_ref()) {
                let found = format!("passed over what the login shell prints: {noise:?}");
                report.add("login", true, found, None)?;
            }
            if arrival
                .and_then(|arrival| arrival.fact("tools"))
                .is_some_and(|tools| tools.starts_with("self"))
            {
                let found =
                    "there is no sha256sum, openssl or busybox, so toolsrv is sent each time; \
                             with coreutils it would be once"
                        .to_owned();
                report.add("tools", true, found, None)?;
            }
            let build = arrival.map_or_else(String::new, |arrival| arrival.build.clone());
            (process, channel, build, base)
        }
        None => {
            let (plan, base) = setup::plan_here(&options.session, &paths)?;
            report.add("bundle", true, plan.bundle.display().to_string(), None)?;
            let installed = setup::install(&plan, &paths)?;
            let how = if installed.fresh {
                "written to"
            } else {
                "found at"
            };
            let found = format!("{how} {}", installed.program.display());
            report.add("toolsrv", true, found, None)?;
            let (process, channel) = ollie_deploy::spawn_local(&installed, &plan).await?;
            (process, channel, installed.build, base)
        }
    };
    let server = setup::connect(process, channel, &verbose, Some(&base)).await?;
    let process = server.process();
    let way = process
        .arrival
        .as_ref()
        .map_or_else(String::new, |arrival| {
            format!("; 9P goes over {}", arrival.transport)
        });
    let found = format!(
        "process {}, both sides proved{way}",
        process.server().unwrap_or_default()
    );
    report.add("session", true, found, None)?;
    if let Some(project) = &server.project {
        let found = project.untrusted().map_or_else(
            || format!("its policy file holds ({} rules)", project.rules),
            str::to_owned,
        );
        report.add("project", true, found, None)?;
    }
    let examined = examine_server(&server, &build, report).await;
    let gone = server.end().await;
    examined?;
    report.add(
        "end",
        gone,
        if gone {
            "nothing is left"
        } else {
            "toolsrv did not end in time"
        }
        .to_owned(),
        (!gone).then(|| "look for processes named toolsrv and tell us what they wait for".into()),
    )
}

async fn examine_server(
    server: &ToolServer,
    build: &str,
    report: &mut Report,
) -> Result<(), Error> {
    let version = server.conn.version().await?;
    let same = version.build == build;
    report.add(
        "build",
        same,
        format!("{} {}", version.version, version.build),
        (!same).then(|| format!("expected {build}: remove the directory it was started from")),
    )?;
    let host = server.conn.host().await?;
    let found = format!(
        "{}, {} {}, Linux {}",
        host.hostname, host.distribution, host.arch, host.kernel
    );
    report.add("host", true, found, None)?;
    let landlock = match host.landlock.abi {
        0 => Err(host.landlock.problem.unwrap_or_default()),
        abi => Ok(format!("Landlock ABI {abi}")),
    };
    report.add(
        "kernel",
        landlock.is_ok(),
        landlock.clone().unwrap_or_else(|problem| problem),
        landlock.is_err().then(|| way_out(&landlock)),
    )?;
    let policy = server.conn.policy::<Value>().await?;
    let enforcement: Option<SandboxReport> = policy
        .get("enforcement")
        .cloned()
        .and_then(|record| serde_json::from_value(record).ok());
    if let Some(enforcement) = enforcement {
        let found = match enforcement.enforced {
            Enforced::Full => "enforced in full".to_owned(),
            Enforced::Partial => format!("enforced except: {}", enforcement.degraded.join("; ")),
            Enforced::None => "not enforced (--yolo)".to_owned(),
        };
        let notes = enforcement.notes.iter().map(|note| format!("; {note}"));
        report.add("policy", true, found + &notes.collect::<String>(), None)?;
    }
    try_call(server, report).await
}

/// Only a kernel that has Landlock can be told to use it.
fn way_out(landlock: &Result<String, String>) -> String {
    let says = |words| matches!(landlock, Err(problem) if problem.contains(words));
    let first = if says("disabled at boot") {
        "boot with landlock in the kernel's lsm= list"
    } else if says("refuses Landlock") {
        "in a container, allow the system calls landlock_* in its seccomp profile"
    } else {
        "use a kernel with Landlock (Linux 5.13 or later, CONFIG_SECURITY_LANDLOCK)"
    };
    format!("{first}, or choose --yolo and run without a sandbox")
}

/// Runs `true`, which is the whole way of a call.
async fn try_call(server: &ToolServer, report: &mut Report) -> Result<(), Error> {
    let mut trial = ToolCall::new(setup::call_id()?, "shell");
    let arguments = ShellArgs {
        code: Some("exit 0".to_owned()),
        ..ShellArgs::default()
    };
    if let Ok(Value::Object(arguments)) = serde_json::to_value(arguments) {
        trial.args = arguments;
    }
    let result = call::result_of(&server.conn, &trial).await?;
    let ok = result.exit == Some(Exit::Code(0));
    let found = match (&result.failure, result.exit) {
        (Some(failure), _) => failure.message.clone(),
        (None, Some(Exit::Code(0))) => "a shell ran inside the sandbox".to_owned(),
        (None, exit) => format!("a shell ended with {exit:?}: {}", result.content.trim()),
    };
    let remedy = (!ok).then(|| {
        "the profile does not let /bin/sh run here: see `olliesrv policy show`".to_owned()
    });
    report.add("call", ok, found, remedy)
}

pub(crate) fn remedy(error: &Error) -> String {
    use ollie_deploy::Error as Deploy;
    match error {
        Error::NoBundle(_) => "run `cargo xtask build`, or name a bundle with --bundle",
        Error::NoHome(_) => "set HOME",
        Error::Config { .. } | Error::ConfigFile { .. } => "mend the line of config.yaml",
        Error::Policy(_) | Error::PolicyFile { .. } => "mend the line of the policy file",
        Error::Deploy(Deploy::Bundle { .. }) => "build or fetch the bundle anew",
        Error::Deploy(Deploy::Unsafe { .. }) => "take the directory's write permission from others",
        Error::Deploy(Deploy::Install { .. }) => "make room, or set XDG_CACHE_HOME",
        Error::Deploy(Deploy::Start { .. }) => {
            "if the file system is mounted noexec, set XDG_CACHE_HOME to another one"
        }
        Error::Deploy(Deploy::Ssh { failure, .. }) => match failure {
            SshFailure::Unreachable => "check the name, the network, and that sshd runs there",
            SshFailure::HostKey => {
                "run `ssh HOST` once if this machine has never met it; if its key has changed, ask \
                 its owner before you mend ~/.ssh/known_hosts"
            }
            SshFailure::Authentication => {
                "make `ssh HOST true` work: a key in the agent, or in authorized_keys there"
            }
            _ => "make `ssh HOST true` work",
        },
        Error::Deploy(Deploy::NoAnswer { .. }) => {
            "make `ssh HOST sh -c true` work: the login shell there has to start commands"
        }
        Error::Deploy(Deploy::Forward { .. }) => {
            "use --transport stdio, or set AllowStreamLocalForwarding yes in sshd_config there"
        }
        Error::Deploy(Deploy::Lacks { .. }) => {
            "install coreutils or busybox there, or set PATH in sshd_config (SetEnv) or in the \
             login shell's files"
        }
        Error::Deploy(Deploy::NoRoot { .. }) => {
            "make one of the named places writable and executable for that user"
        }
        Error::Deploy(Deploy::Refused { kind, .. }) => match kind {
            Obstacle::Policy => "mend the line that it names; the variables are those of that host",
            Obstacle::WorkingDirectory => "name another directory with --cwd",
            Obstacle::Other => "run again with --verbose --trace-9p",
        },
        Error::Deploy(Deploy::Transfer { .. }) => "make room there, or set XDG_CACHE_HOME there",
        _ => "run again with --verbose --trace-9p",
    }
    .to_owned()
}

/// To a microsecond: more digits would say nothing.
pub(crate) fn milliseconds(elapsed: Duration) -> f64 {
    let microseconds = u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX);
    f64::from(microseconds) / 1000.0
}

/// The steps so far, printed as they come unless JSON is wanted.
struct Report {
    checks: Vec<Check>,
    json: bool,
    began: Instant,
    /// What to exit with if something is wrong.
    status: u8,
}

impl Report {
    fn add(
        &mut self,
        name: &'static str,
        ok: bool,
        found: String,
        remedy: Option<String>,
    ) -> Result<(), Error> {
        let check = Check {
            name,
            ok,
            ms: milliseconds(self.began.elapsed()),
            found,
            remedy,
        };
        self.began = Instant::now();
        if !self.json {
            output::print(&printable(&check.to_text()))?;
        }
        self.checks.push(check);
        Ok(())
    }
}

impl Report {
    /// What to exit with, if something is wrong.
    fn problem(&self) -> Option<u8> {
        (!self.is_healthy()).then_some(self.status)
    }

    fn is_healthy(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    fn to_json(&self, host: Option<&Target>) -> Value {
        let checks: Vec<Value> = self.checks.iter().map(Check::to_json).collect();
        let mut record = json!({ "ok": self.is_healthy(), "checks": checks });
        if let Some(host) = host {
            record["host"] = host.to_string().into();
        }
        record
    }

    /// A step of a deployment; those that only begin something have no line.
    fn step(&mut self, step: &Step) -> Result<(), Error> {
        let name = match step {
            Step::Busy => "busy",
            Step::Answered { .. } => "ssh",
            Step::Packing => "packing",
            Step::Refused { .. } => "place",
            Step::Starting { .. } => "toolsrv",
            _ => return Ok(()),
        };
        self.add(name, true, step.to_string(), None)
    }
}

impl Check {
    fn to_text(&self) -> String {
        let Self {
            name, ms, found, ..
        } = self;
        let mark = if self.ok { "ok" } else { "FAILED" };
        let mut text = format!("{name:<8} {mark:<6} {ms:8.2} ms  {found}\n");
        if let Some(remedy) = &self.remedy {
            text.push_str(&format!("{:28}mend it: {remedy}\n", ""));
        }
        text
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "ok": self.ok,
            "ms": self.ms,
            "found": self.found,
            "remedy": self.remedy,
        })
    }
}
