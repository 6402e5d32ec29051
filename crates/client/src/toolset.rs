use std::collections::{BTreeMap, BTreeSet};

use ollie_protocol::{Defined, Definition, Octets, ToolSpec};

use crate::{Error, ToolsrvConn};

/// What a session wants of a toolsrv beyond what that brings along: tools of
/// the user's and the project's, and which tools its agent does without.
///
/// A toolsrv forgets all of it when it ends, so [`Toolset::apply`] is called
/// for each one that is started (a new generation of deploy's
/// `ProcessKeeper`).
#[derive(Debug, Default, Clone)]
pub struct Toolset {
    offers: BTreeMap<String, Offer>,
    unloaded: BTreeSet<String>,
}

/// A tool, with the scripts that it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The tool.
    pub spec: ToolSpec,
    /// Its scripts by the SHA-256 of their bytes.
    pub scripts: BTreeMap<String, Octets>,
    /// Why a newer version of it is not used.
    pub problem: Option<String>,
}

/// A tool that a toolsrv did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The tool.
    pub name: String,
    /// toolsrv's own words.
    pub reason: String,
}

impl Toolset {
    /// Offers a tool, in the place of an older one of its name.
    pub fn offer(&mut self, offer: Offer) {
        self.offers.insert(offer.spec.name.clone(), offer);
    }

    /// Whether a tool of this name is offered.
    #[must_use]
    pub fn offers(&self, name: &str) -> bool {
        self.offers.contains_key(name)
    }

    /// Offers a tool no more.
    pub fn withdraw(&mut self, name: &str) {
        self.offers.remove(name);
    }

    /// Remembers that the agent has this tool, or has it not.
    pub fn set_loaded(&mut self, name: &str, loaded: bool) {
        match loaded {
            true => self.unloaded.remove(name),
            false => self.unloaded.insert(name.to_owned()),
        };
    }

    /// Brings a toolsrv to where this is. Scripts that it has kept from
    /// another time are not sent. What it does not take, and why, is
    /// returned; it keeps no other tool from being offered.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection ends; then the next toolsrv is to be
    /// asked from the beginning.
    pub async fn apply(&self, conn: &ToolsrvConn) -> Result<Vec<Rejected>, Error> {
        let mut rejected = Vec::new();
        let mut note = |name: &str, outcome: Result<(), Error>| match outcome {
            Err(Error::Refused(reason)) => {
                rejected.push(Rejected {
                    name: name.to_owned(),
                    reason,
                });
                Ok(())
            }
            other => other,
        };
        for (name, offer) in &self.offers {
            note(name, conn.offer(offer).await.map(|_| ()))?;
        }
        for name in &self.unloaded {
            note(name, conn.unload(name).await)?;
        }
        Ok(rejected)
    }
}

impl ToolsrvConn {
    /// Defines a tool: without its scripts at first, and with those that
    /// toolsrv asks for. Returns whether anything is other than before.
    ///
    /// # Errors
    /// As [`ToolsrvConn::define`].
    pub async fn offer(&self, offer: &Offer) -> Result<bool, Error> {
        let mut definition = Definition::Tool {
            spec: Box::new(offer.spec.clone()),
            scripts: BTreeMap::new(),
        };
        let mut changed = None;
        // The second time with what was missing the first time.
        for _ in 0..2 {
            match self.define(&definition).await? {
                Defined::Done { changed: it } => {
                    changed = Some(it);
                    break;
                }
                Defined::Missing { scripts: missing } => {
                    if let Definition::Tool { scripts, .. } = &mut definition {
                        *scripts = offer.scripts.clone();
                        scripts.retain(|sha256, _| missing.contains(sha256));
                    }
                }
            }
        }
        let Some(changed) = changed else {
            return Err(Error::Refused(format!(
                "a script of {} is missing on this side",
                offer.spec.name
            )));
        };
        if let Some(problem) = &offer.problem {
            let broken = Definition::Broken {
                name: offer.spec.name.clone(),
                problem: problem.clone(),
            };
            self.define(&broken).await?;
        }
        Ok(changed)
    }
}
