//! The sandbox with a part left out, to show that it is this part which
//! refuses. The product has no such switch: what an `Enforcement` says of
//! itself when it travels is changed here on the way.

use std::error::Error;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::Command;

use ollie_sandbox::{Enforcement, HostView, Identity, Layer, Source, compile, layer, parse};
use serde_json::{Value, json};

/// SECCOMP_RET_USER_NOTIF and SECCOMP_RET_ALLOW of linux/seccomp.h.
const ASK: u64 = 0x7fc0_0000;
const ALLOW: u64 = 0x7fff_0000;

/// Runs a command under the default policy, as `olliesrv exec` would, without
/// some parts: `landlock`, `seccomp`, `gate`, `environment`, `descriptors`.
pub(crate) fn run(words: &[&str]) -> Result<i32, Box<dyn Error>> {
    let at = words.iter().position(|word| *word == "--");
    let (parts, command) = words.split_at(at.ok_or("no `--`")?);
    let [_, program, arguments @ ..] = command else {
        return Err("no command".into());
    };
    let cwd = std::env::current_dir()?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = std::env::var_os("PATH");
    let tmpdir = std::env::temp_dir();
    let identity = Identity::of_this_process()?;
    let user = home
        .iter()
        .map(|home| home.join(".config/ollie/sandbox.yaml"));
    let user = user
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .map(|text| parse(&text, &Source::new(Layer::User, "sandbox.yaml")))
        .collect::<Result<Vec<_>, _>>()?;
    let policy = layer("default", &user)?.expand(&HostView {
        cwd: &cwd,
        home: home.as_deref(),
        tmpdir: Some(&tmpdir),
        path: path.as_deref(),
        tools_path: None,
        program: None,
        ollie_roots: &[],
        env: &|name| std::env::var_os(name),
        identity: Some(&identity),
    })?;
    let enforcement = weakened(&compile(&policy, false)?.0, parts)?;
    let mut child = Command::new(program);
    child.args(arguments).env_clear();
    if parts.contains(&"environment") {
        child.envs(std::env::vars_os());
    } else {
        child.envs(policy.environment(std::env::vars_os()).0);
    }
    let keep = parts.contains(&"descriptors");
    let gate = enforcement.gate()?;
    let gate_end = gate.as_ref().map(|gate| gate.child_end().as_raw_fd());
    // SAFETY: system calls only, and the gate is open until the child has
    // been started.
    unsafe {
        child.pre_exec(move || {
            let gate = gate_end.map(|fd| BorrowedFd::borrow_raw(fd));
            if keep {
                libc::dup2(0, 7);
            }
            enforcement
                .restrict_self(gate)
                .map_err(|(_, errno)| std::io::Error::from_raw_os_error(errno))
        });
    }
    let mut child = child.spawn()?;
    if let Some(gate) = gate {
        gate.listener()?.serve()?;
    }
    let status = child.wait()?;
    Ok(status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(125))
}

fn weakened(whole: &Enforcement, parts: &[&str]) -> Result<Enforcement, Box<dyn Error>> {
    let (ruleset, record) = whole.parts()?;
    let mut ruleset = ruleset.map(|fd| fd.try_clone_to_owned()).transpose()?;
    let mut record: Value = serde_json::from_slice(&record)?;
    let plan = &mut record;
    if parts.contains(&"landlock") {
        ruleset = Some(everything_allowed()?);
        // It must not come back by the outer domain.
        open_gate(plan);
    }
    if parts.contains(&"gate") {
        open_gate(plan);
    }
    if parts.contains(&"seccomp") {
        plan["filter"] = json!([{ "code": 6, "jt": 0, "jf": 0, "k": ALLOW }]);
        plan["gate"] = Value::Null;
    }
    Ok(Enforcement::from_parts(
        ruleset,
        &serde_json::to_vec(&record)?,
    )?)
}

fn open_gate(plan: &mut Value) {
    plan["gate"] = Value::Null;
    for step in plan["filter"].as_array_mut().into_iter().flatten() {
        if step["k"] == ASK {
            step["k"] = json!(ALLOW);
        }
    }
}

/// A ruleset that handles one right and gives it everywhere: renaming between
/// directories, the only one that is refused where it is not handled.
fn everything_allowed() -> Result<OwnedFd, Box<dyn Error>> {
    use std::os::fd::FromRawFd as _;
    #[repr(C, packed)]
    struct PathBeneath {
        allowed: u64,
        parent: i32,
    }
    let refer: u64 = 1 << 13;
    let top = std::fs::File::open("/")?;
    let rule = PathBeneath {
        allowed: refer,
        parent: top.as_raw_fd(),
    };
    // SAFETY: struct landlock_ruleset_attr may be as short as its first field,
    // and the rule is a struct landlock_path_beneath_attr.
    let fd = unsafe {
        let fd = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const refer, 8, 0);
        libc::syscall(libc::SYS_landlock_add_rule, fd, 1, &raw const rule, 0);
        fd
    };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: the descriptor is new.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd)?) })
}
