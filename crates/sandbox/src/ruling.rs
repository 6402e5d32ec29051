//! What became of a project's file: decided by the person's side, carried out
//! where the file lies.

use std::path::PathBuf;

use ollie_protocol::{ProjectStanding, auth};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::show::visible;
use crate::{Document, Error, HostView, Layer, Layered, Policy};

/// What the person's side says about a project's file. It alone reads YAML and
/// knows what is trusted; what the rules come to is known on the host alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ruling {
    /// The file as it was understood.
    pub document: Document,
    /// Whether it has what it asks for.
    pub trust: Trust,
    /// A remark for every result of a session in which it has not.
    pub otherwise: String,
}

/// Whether a project has what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Trust {
    /// If it comes to exactly one of these here ([`Decided::resolved`]): what
    /// the person has trusted before. Not if there are none.
    Resolved(Vec<String>),
    /// Whatever it comes to.
    Whole,
}

/// A policy with the project's part decided.
#[derive(Debug)]
pub struct Decided {
    /// What holds.
    pub policy: Policy,
    /// What became of the requests.
    pub standing: ProjectStanding,
    /// SHA-256 of all that the file would add here, as 64 hexadecimal digits.
    /// Another link in the way is another number.
    pub resolved: String,
    /// The same as a person reads it: `rw /home/u/data`.
    pub grants: Vec<String>,
}

impl Layered {
    /// Lays a project's file on top: what narrows at once, what widens only
    /// with trust in exactly what it comes to on this host.
    ///
    /// # Errors
    /// [`Error::Rule`] for what no project may ask for, trusted or not; those
    /// of [`Layered::expand`].
    pub fn decide(self, ruling: &Ruling, view: &HostView<'_>) -> Result<Decided, Error> {
        let base = self.project_read();
        let asks = !base.requests(&ruling.document).is_empty();
        // Also where it is not trusted: what is wrong with it is told now and
        // not after the person has agreed.
        let wide = base.clone().trusting(&ruling.document)?.expand(view)?;
        let added = wide.added_by(Layer::Project);
        let resolved = digest(&added);
        let shown = |(access, path): &(String, PathBuf)| format!("{access} {}", visible(path));
        let grants = added.iter().map(shown).collect();
        let trusted = match &ruling.trust {
            Trust::Whole => true,
            Trust::Resolved(known) => known.contains(&resolved),
        };
        let (policy, standing) = if !asks {
            (wide, ProjectStanding::NothingAsked)
        } else if trusted {
            (wide, ProjectStanding::Trusted)
        } else {
            let narrow = base.narrowed(&ruling.document)?;
            let policy = narrow.noting([ruling.otherwise.clone()]).expand(view)?;
            (policy, ProjectStanding::Untrusted)
        };
        Ok(Decided {
            policy,
            standing,
            resolved,
            grants,
        })
    }
}

fn digest(added: &[(String, PathBuf)]) -> String {
    let mut hash = Sha256::new();
    for (access, path) in added {
        for part in [access.as_bytes(), path.as_os_str().as_encoded_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    auth::to_hex(&hash.finalize())
}
