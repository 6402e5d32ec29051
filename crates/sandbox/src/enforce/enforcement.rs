use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::gate::GateRules;
use super::sys;
use crate::seccomp::Instruction;

/// A policy that is ready to be applied to a process.
///
/// It holds the Landlock ruleset as a descriptor, which must stay open until
/// the last [`Enforcement::restrict_self`], and everything else as plain data
/// that no call has to compute again.
#[derive(Debug)]
pub struct Enforcement {
    ruleset: Option<OwnedFd>,
    plan: Plan,
}

/// What `restrict_self` does, computed before any fork. The default is what
/// `--yolo` asks for: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) confined: bool,
    pub(crate) last_capability: u32,
    pub(crate) limits: Vec<Limit>,
    #[serde(default, skip_serializing_if = "TreeLimits::is_empty")]
    pub(crate) tree: TreeLimits,
    pub(crate) filter: Vec<Instruction>,
    /// Who may be connected to, where a gate decides that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<GateRules>,
}

/// Ceilings for the whole tree of a call, which no system call sets. Whoever
/// runs the call watches them and ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeLimits {
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Memory in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
}

impl TreeLimits {
    /// Whether there is anything to watch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A ceiling for one resource of setrlimit(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limit {
    pub(crate) resource: u32,
    pub(crate) most: u64,
}

/// Which part of [`Enforcement::restrict_self`] failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Step {
    /// prlimit(2).
    Limits = 1,
    /// prctl(2), PR_SET_NO_NEW_PRIVS.
    NoNewPrivileges = 2,
    /// landlock_restrict_self(2).
    Landlock = 3,
    /// prctl(2), PR_CAP_AMBIENT and PR_CAPBSET_DROP; capset(2).
    Capabilities = 4,
    /// seccomp(2), SECCOMP_SET_MODE_FILTER.
    Seccomp = 5,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limits => "resource limits",
            Self::NoNewPrivileges => "no_new_privs",
            Self::Landlock => "the Landlock ruleset",
            Self::Capabilities => "dropping capabilities",
            Self::Seccomp => "the seccomp filter",
        })
    }
}

impl Enforcement {
    pub(crate) fn new(ruleset: Option<OwnedFd>, plan: Plan) -> Self {
        Self { ruleset, plan }
    }

    /// One that enforces nothing: for `--yolo`, and for a call that the person
    /// lets out.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(None, Plan::default())
    }

    /// Confines the calling thread, for good. For the child between fork and
    /// exec: it makes system calls and does nothing else, no allocation, no
    /// lock, no panic.
    ///
    /// It is [`Enforcement::enter`] and [`Entered::finish`] in one.
    /// close_range(2) and execve(2) are allowed afterwards. With `--yolo` it
    /// does nothing.
    ///
    /// # Errors
    /// As those two. The child must then exit and not exec.
    pub fn restrict_self(&self, gate: Option<BorrowedFd<'_>>) -> Result<(), (Step, i32)> {
        self.enter(gate)?.finish()
    }

    /// The first half, which costs nearly all of the time and can be gone
    /// through before it is known what is to run: no_new_privs, Landlock, the
    /// ambient and bounding sets of capabilities, seccomp, in this order.
    ///
    /// What the caller may do still in between is what it could do anyway with
    /// its user's rights and capabilities in the policy's Landlock domain:
    /// chdir(2) into a directory that another user closes to all, for root.
    ///
    /// `gate` is [`crate::Gate::child_end`] of the gate that
    /// [`Enforcement::gate`] made, if it made one.
    ///
    /// # Errors
    /// The step that failed and its errno. The child must then exit and not
    /// exec. [`Step::Seccomp`] and EBADF where a gate is needed and not given.
    pub fn enter(&self, gate: Option<BorrowedFd<'_>>) -> Result<Entered<'_>, (Step, i32)> {
        match (&self.ruleset, self.plan.confined) {
            (Some(_), true) if gate.is_some() != self.plan.gate.is_some() => {
                Err((Step::Seccomp, libc::EBADF))
            }
            (Some(fd), true) => sys::enter_all(fd.as_fd(), &self.plan, gate),
            // `from_parts` and `compile` make no such pair; if there were one,
            // nothing may run.
            (None, true) => Err((Step::Landlock, libc::EBADF)),
            (_, false) => Ok(()),
        }
        .map(|()| Entered { plan: &self.plan })
    }

    /// What whoever runs a call watches. Empty with `--yolo`.
    #[must_use]
    pub fn tree_limits(&self) -> TreeLimits {
        self.plan.tree
    }

    /// Whether anything is enforced; false with `--yolo` only.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.plan.confined
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn ruleset(&self) -> Option<BorrowedFd<'_>> {
        self.ruleset.as_ref().map(AsFd::as_fd)
    }
}

/// A thread that has gone through the first half of its confinement and must
/// go through the second before it becomes a tool.
#[derive(Debug)]
#[must_use = "only the second half makes a tool's confinement whole"]
pub struct Entered<'a> {
    plan: &'a Plan,
}

impl Entered<'_> {
    /// The second half: resource limits, and the effective, permitted and
    /// inheritable sets of capabilities. A few system calls and nothing else.
    ///
    /// # Errors
    /// The step that failed and its errno. The child must then exit and not
    /// exec.
    pub fn finish(self) -> Result<(), (Step, i32)> {
        if self.plan.confined {
            sys::finish(self.plan)?;
        }
        Ok(())
    }
}
