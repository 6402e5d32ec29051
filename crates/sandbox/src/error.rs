use std::path::PathBuf;

use crate::Origin;

/// What can go wrong between a policy file and a sandboxed process.
///
/// Every variant is a refusal: nothing runs with a policy that could not be
/// understood or enforced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A policy file is not what a policy file may be. The person corrects it
    /// at the place that is named.
    #[error("{file}:{line}:{column}: {message}")]
    Document {
        /// The file, or the name of the embedded profile.
        file: String,
        /// Line, counted from 1.
        line: u64,
        /// Column in characters, counted from 1.
        column: u64,
        /// What is wrong, with the nearest right word where there is one.
        message: String,
    },
    /// There is no embedded profile of this name.
    #[error("there is no profile `{name}`{}; known: {known}", hint(.nearest.as_deref()))]
    NoProfile {
        /// The name that was asked for.
        name: String,
        /// The known name that is nearest to it, if any is near.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// One rule cannot be taken as it stands.
    #[error("{origin}: `{value}`: {message}")]
    Rule {
        /// Where the rule comes from.
        origin: Origin,
        /// The rule's text.
        value: String,
        /// What is wrong with it.
        message: String,
    },
    /// More rules than [`crate::MAX_RULES`], or a text that is longer than any
    /// path can be.
    #[error("the policy is too large: {0}")]
    TooLarge(String),
    /// The JSON of a [`crate::Layered`] policy or of an enforcement is not
    /// valid.
    #[error("the policy record is not valid")]
    Record(#[source] serde_json::Error),
    /// A directory of the host view cannot be resolved, so nothing can be
    /// granted on it.
    #[error("cannot resolve {what} {}", path.display())]
    Resolve {
        /// Which directory it is.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The kernel has no usable Landlock and the person has not chosen to go
    /// without.
    #[error(
        "this host's kernel does not enforce a sandbox: {reason}. {way_out}, or pass --yolo to run without any sandbox"
    )]
    NoLandlock {
        /// What the kernel said, in words.
        reason: String,
        /// What would mend it.
        way_out: String,
    },
    /// `best_effort` is false and this kernel lacks something the policy asks
    /// for.
    #[error("best_effort is false and this kernel lacks: {}", missing.join("; "))]
    Missing {
        /// Each missing right as a sentence.
        missing: Vec<String>,
    },
    /// The kernel refused the ruleset.
    #[error("cannot build the Landlock ruleset: {context}")]
    Ruleset {
        /// Which part of it, with its origin.
        context: String,
        /// What the kernel answered.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The gate before a call's connections cannot be made.
    #[error("cannot make the gate for Unix sockets")]
    Gate(#[source] std::io::Error),
    /// The seccomp tables do not cover this processor.
    #[error("there is no system call table for this processor; x86_64 and aarch64 are supported")]
    Architecture,
    /// An enforcement that was sent from another process does not fit
    /// together.
    #[error("the enforcement record is not valid: {0}")]
    Parts(&'static str),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |n| format!(" (did you mean `{n}`?)"))
}
