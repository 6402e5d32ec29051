//! What the sandbox costs a spawn: fork and exec of /bin/true, plain and
//! confined, in turn, so that both see the same machine.
#![expect(unsafe_code, reason = "pre_exec is unsafe by nature")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ollie_sandbox::{Enforcement, HostView, compile, layer};

const ROUNDS: usize = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = tempfile::tempdir()?;
    let home = std::env::home_dir();
    let view = HostView {
        cwd: project.path(),
        home: home.as_deref(),
        tmpdir: None,
        path: None,
        tools_path: None,
        program: None,
        ollie_roots: &[],
        env: &|name| std::env::var_os(name),
        identity: None,
    };
    let start = Instant::now();
    let layered = layer("default", &[])?;
    let parsed = start.elapsed();
    let start = Instant::now();
    let policy = layered.expand(&view)?;
    let expanded = start.elapsed();
    let start = Instant::now();
    let enforcement = Arc::new(compile(&policy, false)?.0);
    let compiled = start.elapsed();
    println!(
        "parse {parsed:?}, expand {expanded:?}, compile {compiled:?}, {} rules",
        policy.grants().len()
    );

    measure(&enforcement)
}

fn measure(enforcement: &Arc<Enforcement>) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = [vec![], vec![], vec![]];
    for _ in 0..ROUNDS {
        times[0].push(run(Command::new("/bin/true"))?);
        times[1].push(run(forked(|| Ok(())))?);
        times[2].push(confined(enforcement)?);
    }
    let names = [
        "vfork+exec (posix_spawn)",
        "fork+exec",
        "fork+restrict+exec",
    ];
    for (name, times) in names.iter().zip(&mut times) {
        times.sort();
        let (median, late) = (times[ROUNDS / 2], times[ROUNDS * 95 / 100]);
        println!("{name}: median {median:?}, p95 {late:?}");
    }
    Ok(())
}

/// With the gate, from a thread that is there already: a supervisor makes its
/// gate while it waits for a command, so that is not part of the time.
fn confined(enforcement: &Arc<Enforcement>) -> Result<Duration, Box<dyn std::error::Error>> {
    let run_one = || -> Result<Duration, String> {
        let gate = enforcement.gate().map_err(|e| e.to_string())?;
        let end = gate.as_ref().map(|g| g.child_end().as_raw_fd());
        let mine = Arc::clone(enforcement);
        let start = Instant::now();
        let mut child = forked(move || {
            // SAFETY: the gate is open until the child has been started.
            let end = end.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
            let restricted = mine.restrict_self(end);
            restricted.map_err(|(_, errno)| std::io::Error::from_raw_os_error(errno))
        })
        .spawn()
        .map_err(|e| e.to_string())?;
        let _listener = gate.map(ollie_sandbox::Gate::listener);
        child.wait().map_err(|e| e.to_string())?;
        Ok(start.elapsed())
    };
    let joined = std::thread::scope(|scope| scope.spawn(run_one).join());
    joined.map_err(|_| "a thread panicked")?.map_err(Into::into)
}

fn forked(before_exec: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static) -> Command {
    let mut command = Command::new(Path::new("/bin/true"));
    // SAFETY: both closures make system calls at most.
    unsafe { command.pre_exec(before_exec) };
    command
}

fn run(mut command: Command) -> std::io::Result<Duration> {
    let start = Instant::now();
    command.status()?;
    Ok(start.elapsed())
}
