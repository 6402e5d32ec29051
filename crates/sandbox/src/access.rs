use std::fmt;

use serde::{Deserialize, Serialize};

/// What a file-system rule allows below its path.
///
/// The four words of a policy file. Every one allows reading; `w` adds
/// writing, creating and removing, `x` adds executing. None of them ever allows
/// making device nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read files, list directories.
    Ro,
    /// `ro`, and execute files.
    Rox,
    /// `ro`, and write, truncate, create, rename and remove.
    Rw,
    /// `rw`, and execute files.
    Rwx,
}

impl Access {
    /// All four, in the order a policy file lists them.
    pub const ALL: [Self; 4] = [Self::Ro, Self::Rox, Self::Rw, Self::Rwx];

    /// The word of the policy file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ro => "ro",
            Self::Rox => "rox",
            Self::Rw => "rw",
            Self::Rwx => "rwx",
        }
    }

    /// Whether files may be written, created and removed.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Rw | Self::Rwx)
    }

    /// Whether files may be executed.
    #[must_use]
    pub fn executes(self) -> bool {
        matches!(self, Self::Rox | Self::Rwx)
    }

    /// The least access that has both. Landlock unites the rights of every
    /// rule on the way up, so two rules on one path are as good as one.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match (
            self.writes() || other.writes(),
            self.executes() || other.executes(),
        ) {
            (false, false) => Self::Ro,
            (false, true) => Self::Rox,
            (true, false) => Self::Rw,
            (true, true) => Self::Rwx,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
