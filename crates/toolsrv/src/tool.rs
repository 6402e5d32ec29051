use std::collections::BTreeMap;

use ollie_protocol::{Octets, ToolInfo, ToolSpec};
use tokio::sync::OnceCell;

use crate::registry::Choice;
use crate::session::Session;
use crate::variants;

/// A tool of the session.
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    /// Scripts of a standard tool, which are in the store only once they were
    /// used.
    pub(crate) scripts: BTreeMap<String, Octets>,
    /// Why a newer version is not used.
    pub(crate) problem: Option<String>,
    /// First of the qid paths of its directory.
    pub(crate) path: u64,
    choice: OnceCell<Choice>,
}

impl Tool {
    pub(crate) fn new(
        spec: ToolSpec,
        scripts: BTreeMap<String, Octets>,
        problem: Option<String>,
        path: u64,
    ) -> Self {
        Self {
            spec,
            scripts,
            problem,
            path,
            choice: OnceCell::new(),
        }
    }

    /// The same, and nothing is known of this host yet.
    pub(crate) fn afresh(&self) -> Self {
        Self::new(
            self.spec.clone(),
            self.scripts.clone(),
            self.problem.clone(),
            self.path,
        )
    }

    /// Which variant runs here, found out once.
    pub(crate) async fn choice(&self, session: &Session) -> &Choice {
        self.choice
            .get_or_init(|| variants::choose(session, &self.spec))
            .await
    }

    /// Its line of `tools/index`.
    pub(crate) async fn info(&self, session: &Session, loaded: bool) -> ToolInfo {
        let choice = self.choice(session).await;
        ToolInfo {
            spec: self.spec.clone(),
            loaded,
            variant: choice.variant,
            reason: choice.reason.clone(),
            problem: self.problem.clone(),
        }
    }
}
