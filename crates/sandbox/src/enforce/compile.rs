use ollie_protocol::{Enforced, SandboxReport};

use super::degraded::missing;
use super::enforcement::{Enforcement, Limit, Plan, TreeLimits};
use super::gate::{GateRules, RESOLVE_UNIX};
use super::{probe, ruleset, sys};
use crate::seccomp::{Gated, Processor, Rules, filter};
use crate::{Error, Policy};

/// Compiles a policy for this kernel. Done once per session and policy; the
/// result is applied to any number of calls. With it comes what is in force,
/// for every result; `denied` and `env_withheld` are filled in per call.
///
/// `yolo` is the person's explicit choice to go without a sandbox: the
/// result then enforces nothing, and its report says so.
///
/// # Errors
/// [`Error::NoLandlock`] when the kernel has no usable Landlock, with the
/// reason and the way out; [`Error::Missing`] when `best_effort` is false and
/// single rights are missing; [`Error::Ruleset`] when the kernel refuses the
/// ruleset; [`Error::Architecture`] on a processor without a system call
/// table.
pub fn compile(policy: &Policy, yolo: bool) -> Result<(Enforcement, SandboxReport), Error> {
    let abi = sys::landlock_abi();
    let mut report = SandboxReport {
        profile: policy.profile.clone(),
        enforced: Enforced::None,
        approved: false,
        landlock_abi: abi.unwrap_or(0),
        degraded: Vec::new(),
        denied: Vec::new(),
        notes: policy.notes.clone(),
        project_changed: false,
        unexplained: false,
        env_withheld: 0,
    };
    if yolo {
        report.degraded.push(
            "nothing is enforced: --yolo was given, the call can do all that its user can"
                .to_owned(),
        );
        return Ok((Enforcement::nothing(), report));
    }
    let abi = abi.map_err(probe::refusal)?;
    let processor = Processor::current().ok_or(Error::Architecture)?;
    let gated = match abi {
        RESOLVE_UNIX.. => Gated::Nothing,
        _ if sys::asking_is_kept_up() => Gated::Pairs,
        _ => Gated::Connections,
    };
    let missing = missing(policy, abi, gated);
    if !policy.best_effort.value && !missing.is_empty() {
        return Err(Error::Missing { missing });
    }
    let Some(fd) = ruleset::build(policy, &mut report.notes)? else {
        return Err(probe::refusal(libc::EOPNOTSUPP));
    };
    report.enforced = if missing.is_empty() {
        Enforced::Full
    } else {
        Enforced::Partial
    };
    report.degraded = missing;
    let rules = Rules {
        network: policy.network(),
        gated,
    };
    let plan = Plan {
        confined: true,
        last_capability: sys::last_capability(),
        limits: limits(policy),
        tree: TreeLimits {
            processes: policy.limits.processes.as_ref().map(|most| most.value),
            memory_mb: policy.limits.memory_mb.as_ref().map(|most| most.value),
        },
        filter: filter(processor, rules),
        gate: (gated != Gated::Nothing).then(|| GateRules::new(policy)),
    };
    Ok((Enforcement::new(Some(fd), plan), report))
}

fn limits(policy: &Policy) -> Vec<Limit> {
    let mut limits = Vec::new();
    if let Some(files) = &policy.limits.open_files {
        limits.push(Limit {
            resource: sys::NOFILE,
            most: files.value,
        });
    }
    if let Some(size) = &policy.limits.file_size_mb {
        limits.push(Limit {
            resource: sys::FSIZE,
            most: size.value.saturating_mul(1 << 20),
        });
    }
    limits
}
