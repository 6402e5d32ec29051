use std::fmt;

use serde::{Deserialize, Serialize};

/// Which layer of a policy a rule belongs to, in the order they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// An embedded profile.
    Profile,
    /// What was found on the host, by existence.
    Host,
    /// The user's own file.
    User,
    /// The project's `.ollie-sandbox.yaml`.
    Project,
    /// Options of this session.
    Session,
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// The file, the profile's name, the option, or what was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in that file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Origin {
    pub(crate) fn host(what: impl Into<String>) -> Self {
        Self {
            layer: Layer::Host,
            file: Some(what.into()),
            line: None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.layer {
            Layer::Profile => "profile",
            Layer::Host => "host",
            Layer::User => "user",
            Layer::Project => "project",
            Layer::Session => "session",
        })?;
        if let Some(file) = &self.file {
            write!(f, " {file}")?;
        }
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        Ok(())
    }
}
