use serde::{Deserialize, Serialize};

use crate::Sourced;

/// Ceilings for one call. Each is absent by default, which means that the
/// host's own limit stays.
///
/// `open_files` and `file_size_mb` become `RLIMIT_NOFILE` and `RLIMIT_FSIZE`
/// (setrlimit(2)). `processes` and `memory_mb` are for the whole tree of a
/// call, which no rlimit counts (RLIMIT_NPROC counts all of a user, RLIMIT_AS
/// address space that nobody uses): whoever runs the call watches them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processes and threads in the call's tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Sourced<u64>>,
    /// Memory of the call's tree, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<Sourced<u64>>,
    /// Largest file a process may write, in MiB; beyond it comes SIGXFSZ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_mb: Option<Sourced<u64>>,
    /// Open descriptors of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<Sourced<u64>>,
}

impl Limits {
    /// Later scalars win.
    pub(crate) fn overlay(&mut self, later: &Self) {
        for (mine, theirs) in [
            (&mut self.processes, &later.processes),
            (&mut self.memory_mb, &later.memory_mb),
            (&mut self.file_size_mb, &later.file_size_mb),
            (&mut self.open_files, &later.open_files),
        ] {
            if let Some(value) = theirs {
                *mine = Some(value.clone());
            }
        }
    }

    pub(crate) fn named(&self) -> [(&'static str, Option<&Sourced<u64>>); 4] {
        [
            ("processes", self.processes.as_ref()),
            ("memory_mb", self.memory_mb.as_ref()),
            ("file_size_mb", self.file_size_mb.as_ref()),
            ("open_files", self.open_files.as_ref()),
        ]
    }
}
