//! The project's own policy file, `.ollie-sandbox.yaml`.
//!
//! It lies where the tools themselves may write, so it is read once, before
//! anything runs, and what it asks for is decided by the person's side: its
//! bytes go there behind the ready line, and a [`Ruling`] comes back through
//! the file `project`. Until then calls wait. Nothing here reads YAML.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat};
use ollie_protocol::auth::OWNER;
use ollie_protocol::{ProjectFile, ProjectRecord, ProjectStanding, limits, tree};
use ollie_sandbox::{Layered, Links, PROJECT_FILE, Ruling, read_plain};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use crate::Error;
use crate::live::line;
use crate::session::{Session, Side};

/// What is known of it in a session.
pub(crate) struct Project {
    watched: Option<Watched>,
    /// The layers below it, until it is decided.
    waiting: Mutex<Option<Layered>>,
    record: OnceLock<ProjectRecord>,
}

/// The file as it was at the start of the session.
#[derive(Clone)]
pub(crate) struct Watched {
    file: PathBuf,
    /// SHA-256 of its bytes; absent if there was none.
    digest: Option<[u8; 32]>,
}

impl Watched {
    /// Whether it is another one now, or is there no more, or only now.
    pub(crate) fn changed(&self) -> bool {
        match read(&self.file) {
            Ok(text) => digest(text.as_deref()) != self.digest,
            Err(_) => true,
        }
    }
}

impl Project {
    /// Reads it in `cwd`, if that is `wanted`.
    pub(crate) fn read(cwd: &Path, wanted: bool) -> Result<(Self, Option<String>), Error> {
        let file = cwd.join(PROJECT_FILE);
        let text = match wanted {
            true => read(&file).map_err(|source| Error::Project {
                path: file.clone(),
                source,
            })?,
            false => None,
        };
        let watched = wanted.then(|| Watched {
            file,
            digest: digest(text.as_deref()),
        });
        let project = Self {
            watched,
            waiting: Mutex::new(None),
            record: OnceLock::new(),
        };
        Ok((project, text))
    }

    /// What later changes are compared with.
    pub(crate) fn watched(&self) -> Option<Watched> {
        self.watched.clone()
    }

    /// The file `project`.
    pub(crate) fn record(&self) -> ProjectRecord {
        self.record.get().cloned().unwrap_or(ProjectRecord {
            standing: ProjectStanding::Awaited,
            resolved: None,
            grants: Vec::new(),
        })
    }

    /// It is set by whoever holds the layers, once.
    fn set(&self, record: ProjectRecord) {
        let _ = self.record.set(record);
    }
}

impl Session {
    /// Holds calls to `layered`, unless there is a project's file to be decided
    /// about first; then what the ready line says of it.
    pub(crate) async fn begin(
        &self,
        layered: Layered,
        project: Option<&str>,
    ) -> Result<Option<ProjectFile>, Error> {
        if let Some(text) = project {
            *self.project.waiting.lock().await = Some(layered);
            return Ok(Some(ProjectFile {
                directory: self.cwd.clone().into_os_string().into(),
                bytes: u32::try_from(text.len()).unwrap_or(u32::MAX),
            }));
        }
        let (layered, standing) = match self.project.watched {
            Some(_) => (layered.project_read(), ProjectStanding::Absent),
            None => (layered, ProjectStanding::NotRead),
        };
        let policy = self.ground().viewed(|view| {
            layered.make_caches(view);
            layered.expand(view)
        });
        self.settle(policy.map_err(Error::Policy)?).await?;
        self.project.set(ProjectRecord {
            standing,
            resolved: None,
            grants: Vec::new(),
        });
        Ok(None)
    }

    /// Carries a ruling out. One that cannot be leaves everything as it was:
    /// nothing runs.
    async fn decide(&self, ruling: &[u8]) -> Result<(), Refusal> {
        let ruling: Ruling = serde_json::from_slice(ruling)
            .map_err(|error| Refusal::new(format!("this is no ruling: {error}")))?;
        let mut waiting = self.project.waiting.lock().await;
        let Some(layered) = waiting.as_ref() else {
            return Err(Refusal::new("there is nothing to decide about"));
        };
        let refused = |error: Error| Refusal::new(error.chain());
        let decided = self
            .ground()
            .viewed(|view| {
                layered.make_caches(view);
                layered.clone().decide(&ruling, view)
            })
            .map_err(|error| refused(Error::Policy(error)))?;
        self.settle(decided.policy).await.map_err(refused)?;
        self.project.set(ProjectRecord {
            standing: decided.standing,
            resolved: Some(decided.resolved),
            grants: decided.grants,
        });
        *waiting = None;
        Ok(())
    }
}

fn read(file: &Path) -> std::io::Result<Option<String>> {
    read_plain(file, limits::PROJECT_MAX, Links::Refused)
}

fn digest(text: Option<&str>) -> Option<[u8; 32]> {
    text.map(|text| Sha256::digest(text).into())
}

/// A ruling from whom it is not asked.
const NOT_YOURS: &str = "only the person's side decides: open it for reading, or authenticate with \
                         the owner's token";

impl Side {
    /// Whether it may open a file in which the person decides something.
    pub(crate) fn may(self, mode: OpenMode) -> Result<(), Refusal> {
        match mode.writes() && self != Self::Person {
            true => Err(Refusal::new(NOT_YOURS)),
            false => Ok(()),
        }
    }
}

/// The file `project`: write a [`Ruling`] in one piece, read what became of it.
/// It is the person's; agents only read it.
pub(crate) struct ProjectNode {
    pub(crate) session: Arc<Session>,
    pub(crate) side: Side,
}

impl Node for ProjectNode {
    fn qid(&self) -> Qid {
        Qid::file(10)
    }

    fn stat(&self) -> Stat {
        Stat::new(tree::PROJECT, self.qid(), 0o644).with_owner(OWNER)
    }

    fn open(&self, mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        self.side.may(mode)?;
        Ok(Arc::new(OpenProject(Arc::clone(&self.session))))
    }
}

struct OpenProject(Arc<Session>);

impl File for OpenProject {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        let line = line(&self.0.project.record());
        Box::pin(async move { Ok(piece(line, offset, count)) })
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(async move {
            self.0.decide(&data).await?;
            Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
        })
    }
}

/// What a read of `count` bytes at `offset` gets of `content`.
pub(crate) fn piece(content: Vec<u8>, offset: u64, count: u32) -> Bytes {
    let content = Bytes::from(content);
    let start = usize::try_from(offset).map_or(content.len(), |at| at.min(content.len()));
    let end = start.saturating_add(count as usize).min(content.len());
    content.slice(start..end)
}
