use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kept::Kept;
use crate::{Grant, Identity, Limits, Network, Origin, Sourced};

/// A policy as it holds on one host, for one working directory.
///
/// Made by [`crate::Layered::expand`]. It is plain data: what is in force is
/// what `compile` made of it, and that is frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub(crate) profile: String,
    #[serde(with = "crate::octets_path")]
    pub(crate) cwd: PathBuf,
    pub(crate) home: Option<Place>,
    pub(crate) tmpdir: Option<Place>,
    pub(crate) grants: Vec<Grant>,
    /// Pathname Unix sockets that tools may connect to.
    pub(crate) sockets: Vec<Named>,
    /// What was taken away, and no rule brings back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped: Vec<Named>,
    pub(crate) network: Sourced<Network>,
    pub(crate) env: Vec<Sourced<String>>,
    pub(crate) env_dropped: Vec<Sourced<String>>,
    pub(crate) limits: Limits,
    pub(crate) best_effort: Sourced<bool>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) notes: Vec<String>,
    pub(crate) identity: Option<Identity>,
    /// What no rule is proposed for together with something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept: Vec<Kept>,
}

/// A directory, in a form that JSON can hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Place(#[serde(with = "crate::octets_path")] pub(crate) PathBuf);

/// A path that a policy names, as it is on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    #[serde(with = "crate::octets_path")]
    pub(crate) path: PathBuf,
    pub(crate) written: String,
    pub(crate) origin: Origin,
}

/// A rule that does not apply here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skipped {
    pub(crate) written: String,
    pub(crate) origin: Origin,
    pub(crate) why: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = crate::show::visible(Path::new(&self.written));
        write!(f, "{written} ({}): {}", self.origin, self.why)
    }
}

impl Policy {
    /// Takes the rules about what is not on this host out of the text, which
    /// is mostly about other things; how many there were.
    pub fn fold_absent(&mut self) -> usize {
        std::mem::take(&mut self.skipped).len()
    }

    /// The profile it started from.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// The canonical working directory.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The file-system rules in force, each with a canonical path.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// What a layer added, as it holds here: access and canonical path of each
    /// grant, and each socket. In a fixed order.
    #[must_use]
    pub fn added_by(&self, layer: crate::Layer) -> Vec<(String, PathBuf)> {
        let grants = self
            .grants
            .iter()
            .filter(|grant| grant.origin.layer == layer);
        let sockets = self
            .sockets
            .iter()
            .filter(|socket| socket.origin.layer == layer);
        let mut added: Vec<_> = grants
            .map(|grant| (grant.access.word().to_owned(), grant.path.clone()))
            .chain(sockets.map(|socket| ("connect".to_owned(), socket.path.clone())))
            .collect();
        added.sort();
        added
    }

    /// What the network may be used for.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network.value
    }

    /// The ceilings. `processes` and `memory_mb` are left to whoever runs the
    /// call.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the person should know in every result: above all why `{CWD}` is
    /// not granted, and which of their own rules do not apply.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The whole policy as JSON, for `policy show --json` and the file
    /// `policy`; `serde_json` reads it back into a [`Policy`].
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        // Every field is a string, a number, a list or a struct of those, for
        // which serde_json has no error.
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }
}
