//! Runs a command under the default profile, in the current directory:
//! `cargo run -p ollie-sandbox --example confined -- sh -c 'cat ~/.bashrc'`.
//!
//! It is the whole path of a policy in fifty lines: layer, expand, compile,
//! fork, restrict, exec, explain.
#![expect(unsafe_code, reason = "pre_exec is unsafe by nature")]
#![expect(clippy::print_stderr, reason = "an example speaks to its user")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ollie_sandbox::{HostView, Identity, compile, layer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argv: Vec<_> = std::env::args_os().skip(1).collect();
    let (program, args) = argv.split_first().ok_or("a command is needed")?;
    let cwd = std::env::current_dir()?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let tmpdir = tempfile::tempdir()?;
    let path = std::env::var_os("PATH");
    let identity = Identity::of_this_process()?;
    let policy = layer("default", &[])?.expand(&HostView {
        cwd: &cwd,
        home: home.as_deref(),
        tmpdir: Some(tmpdir.path()),
        path: path.as_deref(),
        tools_path: None,
        program: None,
        ollie_roots: &[],
        env: &|name| std::env::var_os(name),
        identity: Some(&identity),
    })?;
    let (enforcement, report) = compile(&policy, false)?;
    eprintln!("{report:?}");
    let (environment, _) = policy.environment(std::env::vars_os());
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environment);
    command.stdout(Stdio::inherit()).stderr(Stdio::piped());
    let gate = enforcement.gate()?;
    let gate_end = gate.as_ref().map(|gate| gate.child_end().as_raw_fd());
    // SAFETY: restrict_self makes system calls and nothing else, and the gate
    // is open until the child has been started.
    unsafe {
        command.pre_exec(move || {
            let gate = gate_end.map(|fd| BorrowedFd::borrow_raw(fd));
            let restricted = enforcement.restrict_self(gate);
            restricted.map_err(|(_, errno)| std::io::Error::from_raw_os_error(errno))
        });
    }
    let child = command.spawn()?;
    if let Some(gate) = gate {
        gate.listener()?.serve()?;
    }
    let output = child.wait_with_output()?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        for denial in policy.denials(&argv, &cwd, &output.stderr).denials {
            eprintln!("{denial:?}");
        }
    }
    std::process::exit(output.status.code().unwrap_or(1));
}
