//! What a tool may touch, who said so, and how the kernel holds it to that.
//!
//! A policy passes through four types, and each step consumes or borrows the
//! one before it:
//!
//! 1. A `Document` is one YAML file: an embedded profile, the user's file, or
//!    what the command line adds (feature `parse`, on the local side only).
//! 2. [`Layered`] is all documents merged, each rule with its [`Origin`],
//!    variables not yet expanded. This is what travels to the host as JSON.
//! 3. [`Policy`] is [`Layered`] seen from one host ([`HostView`]): canonical
//!    paths, what host detection added, what was skipped and why. It answers
//!    [`Policy::why`], filters the environment and explains denials.
//! 4. `Enforcement` is a policy compiled for this kernel (feature `enforce`):
//!    a Landlock ruleset that is ready to be applied, a seccomp filter, limits,
//!    and the report of what is in force. Between fork and exec its
//!    `restrict_self` makes system calls and nothing else.
//!
//! Without Landlock there is no `Enforcement`, except the one a person asked
//! for with `--yolo`; its report says that nothing is enforced.
//!
//! The page `docs/sandbox.md` tells which mechanism stops what, and what none
//! of them can stop.

mod access;
mod caches;
mod cwd;
mod denials;
mod detect;
mod dialled;
mod document;
mod environment;
mod error;
mod expand;
mod grant;
mod host;
mod kept;
mod layered;
mod limits;
mod modebits;
mod network;
mod octets_path;
mod origin;
mod plain_file;
mod planted;
mod policy;
mod project;
mod ruling;
mod show;
mod stderr;
mod variable;
mod why;

#[cfg(feature = "enforce")]
mod enforce;
#[cfg(feature = "parse")]
mod parse;
#[cfg(feature = "enforce")]
mod seccomp;

pub use access::Access;
pub use denials::Explained;
pub use document::{Document, Dropped};
pub use error::Error;
pub use grant::Grant;
pub use host::{HostView, Identity};
pub use layered::{Layered, MAX_POLICY_BYTES, MAX_RULES, PROJECT_FILE, Rule, Sourced};
pub use limits::Limits;
pub use network::Network;
pub use origin::{Layer, Origin};
pub use plain_file::{Links, read_plain};
pub use policy::Policy;
pub use project::Request;
pub use ruling::{Decided, Ruling, Trust};
pub use why::{Operation, Verdict};

#[cfg(feature = "enforce")]
pub use enforce::{Enforcement, Entered, Gate, Listener, Step, TreeLimits, compile, probe};
#[cfg(feature = "parse")]
pub use parse::{Source, layer, parse, profile, profile_names, schema};
