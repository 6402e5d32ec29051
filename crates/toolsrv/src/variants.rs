//! Which variant of a tool runs on this host.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_exec::{Command, Order, Report};
use ollie_protocol::{Condition, HostFacts, Run, ToolSpec, find_version, version};
use tokio::sync::Mutex;

use crate::registry::Choice;
use crate::session::Session;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of what it says is looked at.
const SAID_MAX: usize = 4096;

/// What programs of this host have said of their versions: each is asked once.
#[derive(Default)]
pub(crate) struct Probes(Mutex<HashMap<String, Result<Vec<u64>, String>>>);

impl Probes {
    /// Asks again from now on.
    pub(crate) async fn forget(&self) {
        self.0.lock().await.clear();
    }

    async fn version(&self, session: &Session, command: &str) -> Result<Vec<u64>, String> {
        // Whoever needs the same answer waits for it here.
        let mut known = self.0.lock().await;
        if let Some(answer) = known.get(command) {
            return answer.clone();
        }
        let answer = match tokio::time::timeout(PATIENCE, ask(session, command)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("{command} --version does not end")),
        };
        known.insert(command.to_owned(), answer.clone());
        answer
    }
}

/// The first variant whose conditions hold.
pub(crate) async fn choose(session: &Session, spec: &ToolSpec) -> Choice {
    // The environment of calls is known with their policy.
    session.decided().await;
    let mut why_not = Vec::new();
    for (at, variant) in spec.variants.iter().enumerate() {
        let holds = match &variant.when {
            None => Ok(String::new()),
            Some(condition) => holds(session, condition).await,
        };
        match holds {
            Ok(because) => {
                let mut reason = said(&variant.run);
                for part in [&because, &why_not.join("; ")] {
                    if !part.is_empty() {
                        reason = format!("{reason}: {part}");
                    }
                }
                return Choice {
                    variant: Some(at),
                    reason,
                };
            }
            Err(problem) => why_not.push(format!("not {}, {problem}", said(&variant.run))),
        }
    }
    Choice {
        variant: None,
        reason: why_not.join("; "),
    }
}

/// A variant in a word.
fn said(run: &Run) -> String {
    match run {
        Run::Builtin(words) => format!("built into toolsrv ({})", first(words)),
        Run::Native(_) => "toolsrv itself".to_owned(),
        Run::Script { sha256, .. } => {
            format!("the script {}", sha256.get(..12).unwrap_or_default())
        }
        Run::Command(words) => first(words).to_owned(),
    }
}

fn first(words: &[String]) -> &str {
    words.first().map_or("", String::as_str)
}

/// Why a condition holds, or why it does not.
async fn holds(session: &Session, condition: &Condition) -> Result<String, String> {
    let facts = crate::facts::gather(&session.environment, &session.cwd);
    let mut because = of_the_host(condition, &facts)?;
    if let Some(name) = &condition.env {
        match session.call_variable(name) {
            Some(_) => because.push(format!("{name} is set")),
            None => return Err(format!("{name} is not set")),
        }
    }
    if let Some(file) = &condition.file {
        match session.cwd.join(file).exists() {
            true => because.push(format!("{file} is there")),
            false => return Err(format!("{file} is not there")),
        }
    }
    if let Some(command) = &condition.command {
        let path = session.call_variable("PATH").unwrap_or_default();
        if on_path(&path, command).is_none() {
            return Err(format!("{command} is not on PATH"));
        }
        match &condition.min_version {
            None => because.push(format!("{command} is there")),
            Some(least) => {
                let found = session.registry.probes.version(session, command).await?;
                let shown: Vec<_> = found.iter().map(u64::to_string).collect();
                let shown = shown.join(".");
                if Some(found) < version(least) {
                    return Err(format!("{command} is {shown}, {least} is needed"));
                }
                because.push(format!("{command} is {shown}"));
            }
        }
    }
    Ok(because.join(", "))
}

fn of_the_host(condition: &Condition, facts: &HostFacts) -> Result<Vec<String>, String> {
    let mut because = Vec::new();
    let named = [
        ("os", &condition.os, &facts.os),
        ("arch", &condition.arch, &facts.arch),
    ];
    for (what, wanted, found) in named {
        if let Some(wanted) = wanted {
            match wanted == found {
                true => because.push(format!("{what} is {found}")),
                false => return Err(format!("{what} is {found}, {wanted} is needed")),
            }
        }
    }
    if let Some(wanted) = condition.nixos {
        let found = if facts.nixos { "NixOS" } else { "not NixOS" };
        match wanted == facts.nixos {
            true => because.push(format!("this is {found}")),
            false => return Err(format!("this is {found}")),
        }
    }
    if let Some(least) = condition.landlock {
        let found = facts.landlock.abi;
        match found >= least {
            true => because.push(format!("the Landlock ABI is {found}")),
            false => return Err(format!("the Landlock ABI is {found}, {least} is needed")),
        }
    }
    Ok(because)
}

/// Where a program is, as execvp(3) would look for it.
pub(crate) fn on_path(path: &[u8], command: &str) -> Option<PathBuf> {
    path.split(|&byte| byte == b':')
        .map(|directory| Path::new(OsStr::from_bytes(directory)).join(command))
        .find(|file| {
            file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
        })
}

/// Asks a program for its version, inside the sandbox: a planted one may do
/// what any tool may and no more.
async fn ask(session: &Session, command: &str) -> Result<Vec<u64>, String> {
    let confinement = session.decided().await.confinement.as_ref();
    let confinement = confinement.map_err(Clone::clone)?;
    let asked = Command {
        argv: vec![command.into(), "--version".into()],
        env: confinement.env.clone(),
        cwd: "/".into(),
        pinned: false,
        policy: confinement.policy,
        grace_ms: 0,
    };
    let running = session.spawner.spawn(&asked, false, None).await;
    let running = running.map_err(|error| error.to_string())?;
    let mut said = Vec::new();
    let mut buffer = [0; 512];
    while said.len() < SAID_MAX {
        if running.stdout.readable().await.is_err() {
            break;
        }
        match running.stdout.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => said.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    // It may say more than is read, and then waits for ever.
    let _ = running.control.order(Order::End { grace_ms: 0 }).await;
    while let Some(report) = running.control.report().await {
        if let Report::NotStarted { errno, .. } = report {
            let reason = std::io::Error::from_raw_os_error(errno);
            return Err(format!("{command} cannot be run: {reason}"));
        }
        if let Report::Ended { .. } = report {
            break;
        }
    }
    let said = String::from_utf8_lossy(&said);
    find_version(&said).ok_or_else(|| format!("{command} --version says no version"))
}
