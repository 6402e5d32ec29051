use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Answer, File, Handle, Listing, Node, OpenMode, Pending, Qid, Refusal, Stat};
use ollie_deploy::Kept;
use ollie_protocol::tree;

use super::folder::path_of;
use crate::session::Session;

/// What stands in the directory itself, with modes.
type Names = &'static [(&'static str, u32)];

/// A directory of toolsrv that is shown through a session: its own files, and
/// directories with always the same files.
struct Shape {
    name: &'static str,
    files: Names,
    below: Names,
}

const PROC: Shape = Shape {
    name: tree::PROC,
    files: &[
        (tree::NEW, 0o666),
        (tree::NEW_BG, 0o666),
        (tree::INDEX, 0o444),
    ],
    below: &[
        ("call", 0o444),
        (tree::CALL_STATUS, 0o444),
        (tree::CTL, 0o222),
        (tree::STDIN, 0o222),
        ("stdout", 0o444),
        ("stderr", 0o444),
        ("output", 0o444),
        (tree::WAIT, 0o444),
        (tree::ASK, 0o644),
    ],
};

const TOOLS: Shape = Shape {
    name: tree::TOOLS,
    files: &[(tree::INDEX, 0o444), (tree::CTL, 0o222)],
    below: &[
        (tree::SPEC, 0o444),
        (tree::DOC, 0o444),
        (tree::VARIANT, 0o444),
    ],
};

/// A file or directory of the session's toolsrv, passed through.
///
/// What is there is known only over there, so a walk to a call that does not
/// exist succeeds, and the open says that it does not. Without a connection
/// the directory is empty, and nothing makes one: looking changes nothing.
pub(super) struct Passage {
    session: Arc<Session>,
    shape: &'static Shape,
    /// Below the directory, empty for itself.
    way: Vec<String>,
    stat: Stat,
}

impl Passage {
    pub(super) fn to_proc(session: &Arc<Session>) -> Arc<dyn Node> {
        Arc::new(Self::at(session, &PROC, Vec::new(), None))
    }

    pub(super) fn to_tools(session: &Arc<Session>) -> Arc<dyn Node> {
        Arc::new(Self::at(session, &TOOLS, Vec::new(), None))
    }

    fn at(
        session: &Arc<Session>,
        shape: &'static Shape,
        way: Vec<String>,
        file: Option<u32>,
    ) -> Self {
        let path = path_of(&(session.number(), shape.name, &way));
        let name = way.last().map_or(shape.name, String::as_str);
        let stat = match file {
            Some(mode) => Stat::new(name, Qid::file(path), mode),
            None => Stat::new(name, Qid::directory(path), 0o555),
        };
        Self {
            session: Arc::clone(session),
            shape,
            way,
            stat,
        }
    }

    fn child(&self, name: &str) -> Option<Self> {
        let names = match self.way.len() {
            0 => self.shape.files,
            _ => self.shape.below,
        };
        let file = names.iter().find(|(known, _)| *known == name);
        if file.is_none() && (!self.way.is_empty() || !ollie_protocol::limits::is_name(name)) {
            return None;
        }
        let mut way = self.way.clone();
        way.push(name.to_owned());
        let mode = file.map(|(_, mode)| *mode);
        Some(Self::at(&self.session, self.shape, way, mode))
    }
}

impl Node for Passage {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        let child = self.child(name).ok_or(Refusal::not_found())?;
        Ok(Arc::new(child))
    }

    fn open(&self, mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let there = self.session.link().met().map(|(kept, _)| kept);
        let directory = self.stat.qid.is_dir();
        let Some(kept) = there else {
            return match directory && self.way.is_empty() {
                true => Ok(Arc::new(Listing::new(Vec::new))),
                false => Err(Refusal::new(
                    "the session has no toolsrv now: it is started by the first call, or by \
                     `connect` in ctl",
                )),
            };
        };
        let path: Vec<&str> = std::iter::once(self.shape.name)
            .chain(self.way.iter().map(String::as_str))
            .collect();
        let (handle, walking) = kept.conn().walk(&path);
        let opening = handle.open(mode);
        let through = Arc::new(Through {
            handle,
            start: tokio::sync::Mutex::new(Start {
                walking: Some(walking),
                opening: Some(opening),
                refused: None,
            }),
            stream: (self.way == [tree::NEW]).then(tokio::sync::Mutex::default),
            _kept: kept,
        });
        if directory {
            let at = Self::at(&self.session, self.shape, self.way.clone(), None);
            return Ok(Arc::new(Entries {
                through,
                at,
                listed: tokio::sync::Mutex::default(),
            }));
        }
        Ok(through)
    }
}

/// An open file of toolsrv.
struct Through {
    handle: Handle,
    start: tokio::sync::Mutex<Start>,
    /// Of a file whose every byte can be read once.
    stream: Option<tokio::sync::Mutex<Reading>>,
    /// The connection lives as long as its files.
    _kept: Kept,
}

/// The requests that open the file, until each was answered.
struct Start {
    walking: Option<Pending<Vec<Qid>>>,
    opening: Option<Pending<(Qid, u32)>>,
    refused: Option<Refusal>,
}

/// What was taken of a stream and is not passed on yet. It stays when the one
/// who waited for it goes, so that nothing is lost here.
#[derive(Default)]
struct Reading {
    pending: Option<Pending<Bytes>>,
    rest: Bytes,
}

impl Through {
    /// Waits until the file is open over there.
    async fn started(&self) -> Result<(), Refusal> {
        let mut start = self.start.lock().await;
        if let Some(walking) = &mut start.walking {
            let walked = walking.await;
            start.walking = None;
            start.refused = walked.err().map(told);
        }
        if let Some(opening) = &mut start.opening {
            let opened = opening.await;
            start.opening = None;
            let refused = opened.err().map(told);
            start.refused = start.refused.take().or(refused);
        }
        match &start.refused {
            Some(refused) => Err(refused.clone()),
            None => Ok(()),
        }
    }
}

/// toolsrv's own words, or what became of the connection.
fn told(error: ninep_rs::Error) -> Refusal {
    match error {
        ninep_rs::Error::Remote(text) => Refusal::new(text),
        ninep_rs::Error::WalkStopped { .. } => Refusal::not_found(),
        error => Refusal::new(format!(
            "the connection to toolsrv ended: {}",
            ollie_protocol::chain(&error)
        )),
    }
}

impl File for Through {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            self.started().await?;
            let Some(stream) = &self.stream else {
                return self.handle.read(offset, count).await.map_err(told);
            };
            let mut stream = stream.lock().await;
            if stream.rest.is_empty() {
                let pending = stream
                    .pending
                    .get_or_insert_with(|| self.handle.read(offset, count));
                let read = pending.await;
                stream.pending = None;
                stream.rest = read.map_err(told)?;
            }
            let most = stream.rest.len().min(count as usize);
            Ok(stream.rest.split_to(most))
        })
    }

    fn write(self: Arc<Self>, offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(async move {
            self.started().await?;
            self.handle.write(offset, data).await.map_err(told)
        })
    }
}

/// An open directory of toolsrv, its entries under our qids.
struct Entries {
    through: Arc<Through>,
    at: Passage,
    listed: tokio::sync::Mutex<Option<Arc<dyn File>>>,
}

impl File for Entries {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let mut listed = self.listed.lock().await;
            if offset == 0 || listed.is_none() {
                self.through.started().await?;
                let entries = self.through.handle.read_directory().await.map_err(told)?;
                let ours: Vec<Stat> = entries
                    .into_iter()
                    .filter_map(|theirs| {
                        let child = self.at.child(&theirs.name)?;
                        Some(child.stat().with_length(theirs.length))
                    })
                    .collect();
                *listed = Some(Arc::new(Listing::new(move || ours.clone())));
            }
            match &*listed {
                Some(listed) => Arc::clone(listed).read(offset, count).await,
                None => Ok(Bytes::new()),
            }
        })
    }
}
