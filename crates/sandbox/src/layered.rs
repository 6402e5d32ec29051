use serde::{Deserialize, Serialize};

use crate::{Access, Document, Dropped, Error, Layer, Limits, Network, Origin};

/// The most rules a policy may have, all lists together. A rule costs the
/// kernel about 2 microseconds when the ruleset is built.
pub const MAX_RULES: usize = 4096;

/// The longest text of a rule, in bytes: PATH_MAX of Linux.
const MAX_TEXT: usize = 4096;

/// The largest JSON of a layered policy, in bytes.
const MAX_RECORD: usize = 4 << 20;

/// One grant of a policy file, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What is allowed.
    pub access: Access,
    /// On what and below it, variables not expanded.
    pub path: String,
    /// Who says so.
    pub origin: Origin,
    /// It is a cache of this program, and a directory that is made for it
    /// ([`Layered::make_caches`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_for: Option<String>,
}

/// A value and who set it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Who set it.
    pub origin: Origin,
}

/// All layers merged, variables not yet expanded.
///
/// This is the form in which a policy travels to the host. It is bounded
/// ([`MAX_RULES`], 4 MiB of JSON) and refuses fields it does not know.
///
/// Merging unites lists, lets later scalars win and collects what any layer
/// drops. It is idempotent; the order of layers matters for scalars and for
/// nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layered {
    pub(crate) profile: String,
    pub(crate) filesystem: Vec<Rule>,
    pub(crate) network: Sourced<Network>,
    pub(crate) unix_sockets: Vec<Sourced<String>>,
    pub(crate) env: Vec<Sourced<String>>,
    pub(crate) limits: Limits,
    pub(crate) best_effort: Sourced<bool>,
    pub(crate) drop: Dropped,
    pub(crate) notes: Vec<String>,
    /// Whether whoever made this has looked for the project's own file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) project_read: bool,
}

/// The largest policy file that is read, in bytes.
pub const MAX_POLICY_BYTES: usize = 64 * 1024;

/// The file in a project's directory that says what the project needs.
pub const PROJECT_FILE: &str = ".ollie-sandbox.yaml";

impl Layered {
    /// Starts from a profile.
    ///
    /// A profile that says nothing about the network gives none, and one that
    /// says nothing about best effort gets none.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn new(name: &str, profile: &Document) -> Result<Self, Error> {
        let unsaid = Origin {
            layer: Layer::Profile,
            file: Some(name.to_owned()),
            line: None,
        };
        Self {
            profile: name.to_owned(),
            filesystem: Vec::new(),
            network: Sourced {
                value: Network::None,
                origin: unsaid.clone(),
            },
            unix_sockets: Vec::new(),
            env: Vec::new(),
            limits: Limits::default(),
            best_effort: Sourced {
                value: false,
                origin: unsaid,
            },
            drop: Dropped::default(),
            notes: Vec::new(),
            project_read: false,
        }
        .with(profile)
    }

    /// Whether a variable of the environment is written out, so that it passes
    /// unless somebody drops it. A prefix does not write it out.
    #[must_use]
    pub fn names(&self, variable: &str) -> bool {
        self.env.iter().any(|name| name.value == variable)
    }

    /// Lays one more document on top.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn with(mut self, layer: &Document) -> Result<Self, Error> {
        // Asked first: uniting is quadratic in the number of rules.
        if layer.len() > MAX_RULES {
            return Err(Error::TooLarge(format!(
                "{} rules in one document, at most {MAX_RULES} are taken",
                layer.len()
            )));
        }
        for rule in &layer.filesystem {
            let known = |r: &Rule| r.access == rule.access && r.path == rule.path;
            if !self.filesystem.iter().any(known) {
                self.filesystem.push(rule.clone());
            }
        }
        unite(&mut self.unix_sockets, &layer.unix_sockets);
        unite(&mut self.env, &layer.env);
        unite(&mut self.drop.filesystem, &layer.drop.filesystem);
        unite(&mut self.drop.unix_sockets, &layer.drop.unix_sockets);
        unite(&mut self.drop.env, &layer.drop.env);
        if let Some(network) = &layer.network {
            self.network = network.clone();
        }
        if let Some(best_effort) = &layer.best_effort {
            self.best_effort = best_effort.clone();
        }
        self.limits.overlay(&layer.limits);
        for note in &layer.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        self.check()?;
        Ok(self)
    }

    /// Notes that the project's own file was looked for. Without that a result
    /// says so, where there is such a file: it could have narrowed the policy.
    #[must_use]
    pub fn project_read(mut self) -> Self {
        self.project_read = true;
        self
    }

    /// Adds remarks that every result shall carry.
    #[must_use]
    pub fn noting(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// The profile the policy started from.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// The record that travels.
    ///
    /// # Errors
    /// [`Error::Record`], which no policy made by this crate causes.
    pub fn to_json(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(Error::Record)
    }

    /// Reads the record that travels.
    ///
    /// # Errors
    /// [`Error::TooLarge`], or [`Error::Record`] for what is not such a
    /// record, including unknown fields.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_RECORD {
            return Err(Error::TooLarge(format!(
                "{} bytes, at most {MAX_RECORD} are read",
                bytes.len()
            )));
        }
        let layered: Self = serde_json::from_slice(bytes).map_err(Error::Record)?;
        layered.check()?;
        Ok(layered)
    }

    /// Called again before expansion, because serde can make one that never
    /// passed through [`Layered::with`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        let texts = || {
            self.filesystem.iter().map(|r| &r.path).chain(
                self.unix_sockets
                    .iter()
                    .chain(&self.env)
                    .chain(&self.drop.filesystem)
                    .chain(&self.drop.unix_sockets)
                    .chain(&self.drop.env)
                    .map(|s| &s.value),
            )
        };
        let count = texts().count();
        if count > MAX_RULES || self.notes.len() > MAX_RULES {
            return Err(Error::TooLarge(format!(
                "{count} rules, at most {MAX_RULES} are taken"
            )));
        }
        match texts().find(|t| t.len() > MAX_TEXT) {
            Some(text) => Err(Error::TooLarge(format!(
                "a rule of {} bytes, no path is longer than {MAX_TEXT}",
                text.len()
            ))),
            None => Ok(()),
        }
    }
}

fn unite(mine: &mut Vec<Sourced<String>>, theirs: &[Sourced<String>]) {
    for rule in theirs {
        if !mine.iter().any(|m| m.value == rule.value) {
            mine.push(rule.clone());
        }
    }
}
