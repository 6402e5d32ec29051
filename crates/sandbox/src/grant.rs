use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::show::visible;
use crate::{Access, Origin};

/// One rule as it holds on this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// What is allowed.
    pub access: Access,
    /// The canonical path: no symbolic link, no `..`.
    #[serde(with = "crate::octets_path")]
    pub path: PathBuf,
    /// The rule as it was written.
    pub written: String,
    /// Who says so.
    pub origin: Origin,
}

impl Grant {
    /// Whether this rule speaks about `path`, which must be canonical.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.access, visible(&self.path))?;
        if Path::new(&self.written) != self.path {
            write!(f, " = {}", visible(Path::new(&self.written)))?;
        }
        write!(f, " ({})", self.origin)
    }
}
