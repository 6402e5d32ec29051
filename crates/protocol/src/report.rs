use serde::{Deserialize, Serialize};

/// What the kernel held a call to, in every [`crate::ToolResult`] and in the
/// file `policy`. It says what was achieved and never more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxReport {
    /// The profile the policy started from, for example `default`.
    pub profile: String,
    /// How much of the policy is in force.
    pub enforced: Enforced,
    /// Whether a person approved of this one call running outside of the
    /// sandbox ([`crate::ToolCall::bypass`]). Then nothing was enforced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
    /// Landlock ABI of the kernel, 0 where there is none
    /// (Documentation/userspace-api/landlock.rst, "Landlock ABI versions").
    pub landlock_abi: u32,
    /// Each right or mechanism that the policy asks for and this kernel does
    /// not have, as a sentence. Empty when `enforced` is `full`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// What the policy, as far as can be told, kept this call from doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Denial>,
    /// Remarks that matter for this call: a skipped path, why `{CWD}` is not
    /// granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether the project's policy file is another one than at the start of
    /// the session. That has no effect in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub project_changed: bool,
    /// Whether a message of the call says that something was refused, and
    /// neither a rule of the policy nor mode bits explain it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unexplained: bool,
    /// How many variables of toolsrv's environment were kept from the call.
    /// Their names are not listed: names tell of secrets too.
    #[serde(default)]
    pub env_withheld: u32,
}

/// How much of a policy the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforced {
    /// Every right that the policy restricts.
    Full,
    /// At least the file-system rights of Landlock ABI 1 and no_new_privs;
    /// what is missing is listed in [`SandboxReport::degraded`].
    Partial,
    /// Nothing: the person chose `--yolo`, or approved of this call
    /// ([`SandboxReport::approved`]).
    None,
}

/// Something that the policy does not allow and a failed call tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// `read`, `write`, `execute`, `connect`, ...
    pub operation: String,
    /// The path or address as the call named it, made absolute.
    pub target: String,
    /// Where the knowledge comes from.
    pub source: DenialSource,
    /// The rule that comes nearest, with its origin, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// The line of a policy file that would allow it, for example
    /// `filesystem: { ro: ["{HOME}/.netrc"] }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// In words, what that line opens; or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<String>,
}

/// How a [`Denial`] is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DenialSource {
    /// The kernel's audit log said so.
    Audit,
    /// The call failed with a permission error that names the path, and the
    /// policy does not allow it. The kernel tells an unprivileged process no
    /// more than that.
    Inferred,
}
