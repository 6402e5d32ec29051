use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Octets, ToolSpec};

/// What is written to `tools/define`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Definition {
    /// A tool, new or in the place of an older one of its name.
    Tool {
        /// The tool.
        spec: Box<ToolSpec>,
        /// The bytes of its scripts by their SHA-256. Those that toolsrv keeps
        /// from another time need not be sent.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        scripts: BTreeMap<String, Octets>,
    },
    /// A newer version of this tool cannot be used; the older one stays, and
    /// says why.
    Broken {
        /// The tool.
        name: String,
        /// What is wrong with the newer version.
        problem: String,
    },
    /// The tool is taken back. A standard one of its name is seen again.
    Remove {
        /// The tool.
        name: String,
    },
}

/// What is read from `tools/define` after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Defined {
    /// It is done.
    Done {
        /// Whether anything is other than before.
        changed: bool,
    },
    /// Nothing was done: these scripts have to be sent as well.
    Missing {
        /// Their SHA-256.
        scripts: Vec<String>,
    },
}

/// A tool as it stands in one session for one agent: a line of `tools/index`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolInfo {
    /// The tool.
    pub spec: ToolSpec,
    /// Whether this agent has it; `unload` in `tools/ctl` takes it away.
    pub loaded: bool,
    /// Which of its variants runs here, counted from 0; absent when none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<usize>,
    /// Why that one, or why none.
    pub reason: String,
    /// Why a newer version is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ToolInfo {
    /// Whether a model is to be told of it: it is loaded and can be run.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.loaded && self.variant.is_some()
    }
}
