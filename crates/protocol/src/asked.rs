use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{CallId, Octets, auth};

/// A question to the person: whether a call may run outside of the sandbox.
/// The fields of [`crate::Event::Ask`], which is also the file `proc/ID/ask`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// For how many milliseconds from now it waits for an answer; of
    /// [`crate::limits::ASK`] at first, 0 once it is decided.
    pub left_ms: u64,
    /// [`Asked::digest`] of `call`: SHA-256 of its JSON as it stands there.
    pub digest: String,
    /// What is asked about.
    pub call: Asked,
}

/// What would run outside of the sandbox, whole. With its reason it has at
/// most [`crate::limits::ASK_MAX`] bytes of JSON, so that a person can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The call.
    pub id: CallId,
    /// Why it has to run outside, as whoever made the call says.
    pub reason: String,
    /// What is executed.
    pub argv: Vec<Octets>,
    /// Where.
    pub cwd: Octets,
    /// Its standard input, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The names of all variables that it gets.
    pub env: Vec<Octets>,
    /// Those of them that the call sets itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

impl Asked {
    /// SHA-256 of its JSON, hexadecimal: what a [`Ruling`] names.
    #[must_use]
    pub fn digest(&self) -> String {
        // It has no map with keys that are not text, which is the one thing
        // that JSON cannot hold.
        auth::to_hex(&Sha256::digest(
            serde_json::to_vec(self).unwrap_or_default(),
        ))
    }
}

/// The person's answer. As it is written to `proc/ID/ask`:
/// `approve ID DIGEST`, or `deny ID DIGEST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The call that was asked about.
    pub id: CallId,
    /// [`Asked::digest`] of what the person was shown.
    pub digest: String,
    /// Whether it may run outside of the sandbox.
    pub approve: bool,
}

impl std::fmt::Display for Ruling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.approve { "approve" } else { "deny" };
        write!(f, "{word} {} {}", self.id, self.digest)
    }
}
