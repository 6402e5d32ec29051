use std::collections::BTreeMap;

use ollie_protocol::{Definition, Octets, ToolSpec, auth};
use sha2::{Digest as _, Sha256};

/// One tool: what is said of it, and the scripts that it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// What toolsrv and the model are told.
    pub spec: ToolSpec,
    /// Its scripts by the SHA-256 of their bytes.
    pub scripts: BTreeMap<String, Octets>,
}

impl Tool {
    /// What is written to `tools/define`; with the scripts, or only with the
    /// names of their contents.
    #[must_use]
    pub fn definition(&self, with_scripts: bool) -> Definition {
        Definition::Tool {
            spec: Box::new(self.spec.clone()),
            scripts: match with_scripts {
                true => self.scripts.clone(),
                false => BTreeMap::new(),
            },
        }
    }

    /// Takes a script in; its SHA-256.
    pub(crate) fn digest(script: &[u8]) -> String {
        auth::to_hex(&Sha256::digest(script))
    }
}
