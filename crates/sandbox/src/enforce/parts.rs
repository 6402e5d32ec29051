use std::os::fd::{BorrowedFd, OwnedFd};

use super::enforcement::{Enforcement, Plan};
use crate::Error;

/// The most instructions a filter may have, BPF_MAXINSNS.
const MAX_INSTRUCTIONS: usize = 4096;

impl Enforcement {
    /// The enforcement in two parts, to be sent to another process over a Unix
    /// socket: the ruleset's descriptor by SCM_RIGHTS (unix(7)), the rest as
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Record`], which no enforcement made by this crate causes.
    pub fn parts(&self) -> Result<(Option<BorrowedFd<'_>>, Vec<u8>), Error> {
        let bytes = serde_json::to_vec(self.plan()).map_err(Error::Record)?;
        Ok((self.ruleset(), bytes))
    }

    /// The enforcement that [`Enforcement::parts`] took apart.
    ///
    /// # Errors
    /// [`Error::Record`], or [`Error::Parts`] when the two parts do not fit:
    /// a confined plan without a ruleset, or one without a filter.
    pub fn from_parts(ruleset: Option<OwnedFd>, bytes: &[u8]) -> Result<Self, Error> {
        let plan: Plan = serde_json::from_slice(bytes).map_err(Error::Record)?;
        if plan.confined && ruleset.is_none() {
            return Err(Error::Parts("it is confined and there is no ruleset"));
        }
        if plan.confined == plan.filter.is_empty() || plan.filter.len() > MAX_INSTRUCTIONS {
            return Err(Error::Parts("its filter has no possible length"));
        }
        Ok(Self::new(ruleset, plan))
    }
}
