use serde::{Deserialize, Serialize};

use crate::Octets;

/// Said in the ready line: there is a project's policy file, and its bytes
/// come right behind the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// The session's working directory, absolute and without links.
    pub directory: Octets,
    /// How long the file is. At most [`crate::limits::PROJECT_MAX`].
    pub bytes: u32,
}

/// The file `project`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRecord {
    /// What became of the project's policy file.
    pub standing: ProjectStanding,
    /// SHA-256 of what its rules add on this host, paths resolved; once it is
    /// decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// Those rules as they hold on this host, `rw /home/u/data`, control
    /// characters shown: what a person agrees to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
}

/// What became of a project's policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProjectStanding {
    /// Nobody asked for it.
    NotRead,
    /// There was none when the session began.
    Absent,
    /// It was read, and no call is run before it is decided.
    Awaited,
    /// It asks for nothing; what it takes away holds.
    NothingAsked,
    /// It has what it asks for.
    Trusted,
    /// It has not; what it takes away holds.
    Untrusted,
}
