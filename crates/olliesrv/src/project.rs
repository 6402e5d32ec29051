//! The project's own policy file, `.ollie-sandbox.yaml`.
//!
//! It lies where the sandboxed tools themselves may write. So what narrows the
//! policy holds at once, and what widens it is a request until the person has
//! trusted exactly these bytes, at this place, with what they resolve to.
//! toolsrv reads it where it lies, once, before anything runs; what it means
//! and whether it is trusted is decided here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ollie_client::ToolsrvConn;
use ollie_deploy::Remote;
use ollie_protocol::{Octets, ProjectRecord, ProjectStanding, auth};
use ollie_sandbox::{
    Document, Layer, Layered, PROJECT_FILE, Request, Ruling, Source, Trust, parse,
};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::options::SessionOptions;
use crate::printable::printable;
use crate::trust::Trusted;

/// What a project's file is laid on, and what is known of trust in it.
#[derive(Debug)]
pub(crate) struct Base {
    /// The layers below it.
    layered: Layered,
    /// The SHA-256 that the person gave for this session.
    named: Option<String>,
    /// What was trusted before.
    trusted: Trusted,
    /// The host as the person calls it, and how to go there; `None` for this
    /// machine.
    remote: Option<(String, Remote)>,
    /// What the first toolsrv of the session was told.
    frozen: Mutex<Option<Frozen>>,
}

/// What holds for the whole session, whatever a tool writes into the file
/// before another toolsrv has to be started.
#[derive(Debug, Clone)]
enum Frozen {
    /// There was no file.
    Absent,
    Decided(Box<Ruling>, Decided),
}

/// A project's file, and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    /// Its directory, canonical, on its host.
    pub(crate) directory: Octets,
    /// SHA-256 of its bytes, in hexadecimal.
    pub(crate) digest: String,
    /// How many rules it has.
    pub(crate) rules: usize,
    pub(crate) requests: Vec<Request>,
    pub(crate) record: ProjectRecord,
    /// What trust in it is kept under.
    pub(crate) key: String,
    /// What a person is told who has not trusted it.
    summary: String,
}

impl Decided {
    /// What to say where it does not have what it asks for.
    pub(crate) fn untrusted(&self) -> Option<&str> {
        (self.record.standing == ProjectStanding::Untrusted).then_some(&self.summary)
    }

    /// Says it.
    pub(crate) fn tell(&self) {
        if let Some(summary) = self.untrusted() {
            crate::output::note(&printable(summary));
        }
    }
}

impl Base {
    pub(crate) fn new(
        layered: Layered,
        options: &SessionOptions,
        trusted: Trusted,
        remote: Option<(String, Remote)>,
    ) -> Self {
        Self {
            layered,
            named: options.trust_project.clone(),
            trusted,
            remote,
            frozen: Mutex::default(),
        }
    }

    /// Decides what becomes of a session's project file, if there is one. Until
    /// then toolsrv runs nothing. For a later toolsrv of the session it is
    /// decided as it was for the first one, whatever the file is by now; then
    /// there is nothing to say about it.
    pub(crate) async fn decide(
        &self,
        conn: &ToolsrvConn,
        found: Option<&ollie_deploy::Project>,
    ) -> Result<Option<Decided>, Error> {
        let frozen = self.frozen().clone();
        if let Some(frozen) = frozen {
            self.decide_again(conn, found, &frozen).await?;
            return Ok(None);
        }
        let first = match found {
            Some(found) => {
                let (ruling, decided) = self.decide_first(conn, found).await?;
                Frozen::Decided(Box::new(ruling), decided)
            }
            None => Frozen::Absent,
        };
        if let (Frozen::Absent, Some(named)) = (&first, &self.named) {
            return Err(Error::Usage(format!(
                "--trust-project {named}: the project has no {PROJECT_FILE}"
            )));
        }
        *self.frozen() = Some(first.clone());
        Ok(match first {
            Frozen::Decided(_, decided) => Some(decided),
            Frozen::Absent => None,
        })
    }

    async fn decide_again(
        &self,
        conn: &ToolsrvConn,
        found: Option<&ollie_deploy::Project>,
        frozen: &Frozen,
    ) -> Result<(), Error> {
        let ruling = match (frozen, found) {
            (Frozen::Absent, None) => return Ok(()),
            (Frozen::Absent, Some(_)) => Ruling {
                document: Document::default(),
                trust: Trust::Resolved(Vec::new()),
                otherwise: String::new(),
            },
            (Frozen::Decided(ruling, _), Some(_)) => (**ruling).clone(),
            // toolsrv holds to the policy without it by now.
            (Frozen::Decided(..), None) => {
                return Err(Error::Usage(format!(
                    "the project's {PROJECT_FILE} was removed during this session, which began \
                     with it: start a new session"
                )));
            }
        };
        conn.decide(&ruling).await.map_err(Error::Ruling)?;
        Ok(())
    }

    async fn decide_first(
        &self,
        conn: &ToolsrvConn,
        found: &ollie_deploy::Project,
    ) -> Result<(Ruling, Decided), Error> {
        let digest = auth::to_hex(&Sha256::digest(&found.text));
        if let Some(named) = self.named.as_ref().filter(|named| **named != digest) {
            return Err(Error::Usage(format!(
                "--trust-project {named}: the SHA-256 of the project's file is {digest}"
            )));
        }
        let document = self.parse(&found.text)?;
        let requests = self.layered.requests(&document);
        let (key, trust) = match (&self.named, requests.as_slice()) {
            (_, []) => (String::new(), Trust::Resolved(Vec::new())),
            (named, _) => {
                let key = key(&self.identity().await?, &found.directory, &digest);
                let trust = match named {
                    Some(_) => Trust::Whole,
                    None => Trust::Resolved(self.trusted.resolved(&key)?),
                };
                (key, trust)
            }
        };
        let rules = document.len();
        let summary = self.summary(&requests, &digest);
        let mut ruling = Ruling {
            document,
            trust,
            otherwise: summary.clone(),
        };
        let record = conn.decide(&ruling).await.map_err(Error::Ruling)?;
        // What it came to, and nothing that a link makes of it later.
        ruling.trust = Trust::Resolved(match record.standing {
            ProjectStanding::Trusted => record.resolved.iter().cloned().collect(),
            _ => Vec::new(),
        });
        let decided = Decided {
            directory: found.directory.clone(),
            digest,
            rules,
            requests,
            record,
            key,
            summary,
        };
        Ok((ruling, decided))
    }

    fn frozen(&self) -> MutexGuard<'_, Option<Frozen>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with it is told from here, where the line is known, as
    /// far as it can be told without its host.
    fn parse(&self, text: &[u8]) -> Result<Document, Error> {
        // toolsrv hands on text only; anything else is no policy either.
        let text = String::from_utf8_lossy(text);
        let source = Source::new(Layer::Project, PROJECT_FILE);
        let document = parse(&text, &source).map_err(Error::Policy)?;
        let wide = self.layered.clone().trusting(&document);
        wide.map_err(Error::Policy)?;
        Ok(document)
    }

    async fn identity(&self) -> Result<String, Error> {
        match &self.remote {
            Some((_, remote)) => Ok(ollie_deploy::identity(remote).await?),
            None => Ok("this machine".to_owned()),
        }
    }

    fn summary(&self, requests: &[Request], digest: &str) -> String {
        let list: Vec<_> = requests.iter().map(ToString::to_string).collect();
        let on = match &self.remote {
            Some((name, _)) => format!(" --on {name}"),
            None => String::new(),
        };
        format!(
            "the project asks for more than it has: {}. `olliesrv policy trust{on}` grants it, or \
             --trust-project {digest} for one session",
            list.join("; "),
        )
    }
}

/// What trust is kept under: these bytes, in this directory, of this host. What
/// they come to there is kept beside it.
fn key(identity: &str, directory: &Octets, digest: &str) -> String {
    let mut hash = Sha256::new();
    let parts = [
        b"ollie trust 2",
        identity.as_bytes(),
        directory.as_bytes(),
        digest.as_bytes(),
    ];
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    auth::to_hex(&hash.finalize())
}
