use std::collections::HashMap;
use std::sync::Arc;

use super::lane::Lane;
use super::ready::{LaneKey, Ready, Way};
use super::service::{AuthFile, File, Node};
use super::shield::discard;
use crate::{Fid, OpenMode, Refusal, Tag, ename};

/// How deep a path may be. The chain of its parents is dropped recursively, so that it needs a bound.
const DEPTH: u16 = 1024;

/// A file and the way to it, so that the engine can answer `..`.
pub(super) struct Place {
    pub(super) node: Arc<dyn Node>,
    parent: Option<Arc<Place>>,
    depth: u16,
}

impl Place {
    pub(super) fn root(node: Arc<dyn Node>) -> Arc<Self> {
        Arc::new(Place {
            node,
            parent: None,
            depth: 0,
        })
    }

    pub(super) fn child(self: &Arc<Self>, node: Arc<dyn Node>) -> Result<Arc<Self>, Refusal> {
        if self.depth >= DEPTH {
            return Err(Refusal::new(ename::TOO_DEEP));
        }
        Ok(Arc::new(Place {
            node,
            parent: Some(Arc::clone(self)),
            depth: self.depth + 1,
        }))
    }

    /// walk(5): `..` of the root is the root.
    pub(super) fn parent(self: &Arc<Self>) -> Arc<Self> {
        Arc::clone(self.parent.as_ref().unwrap_or(self))
    }
}

/// What a fid names.
pub(super) enum Named {
    Auth {
        file: Box<dyn AuthFile>,
        uname: String,
        aname: String,
    },
    File {
        place: Arc<Place>,
        open: Option<Open>,
    },
}

/// The open half of a fid.
pub(super) struct Open {
    pub(super) mode: OpenMode,
    reads: Lane,
    writes: Lane,
}

impl Open {
    fn lane(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::Read => &mut self.reads,
            Way::Write => &mut self.writes,
        }
    }
}

/// The fids of a connection, and which requests wait on them.
pub(super) struct Fids {
    named: HashMap<Fid, Named>,
    /// Requests that wait: at most one answer is owed for each.
    waiting: HashMap<Tag, LaneKey>,
    ready: Arc<Ready>,
    limit: usize,
}

impl Fids {
    pub(super) fn new(limit: usize, ready: Arc<Ready>) -> Self {
        Fids {
            named: HashMap::new(),
            waiting: HashMap::new(),
            ready,
            limit,
        }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Refuses a fid that cannot be given to something new.
    pub(super) fn free(&self, fid: Fid) -> Result<(), Refusal> {
        if fid == Fid::NONE {
            return Err(Refusal::new(ename::NO_FID));
        }
        if self.named.contains_key(&fid) {
            return Err(Refusal::new(ename::FID_IN_USE));
        }
        if self.named.len() >= self.limit {
            return Err(Refusal::new(ename::TOO_MANY_FIDS));
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, fid: Fid, named: Named) {
        discard(self.named.insert(fid, named));
    }

    pub(super) fn get(&self, fid: Fid) -> Result<&Named, Refusal> {
        self.named
            .get(&fid)
            .ok_or_else(|| Refusal::new(ename::UNKNOWN_FID))
    }

    /// The file of a fid that is not an authentication file.
    pub(super) fn place(&self, fid: Fid) -> Result<&Arc<Place>, Refusal> {
        match self.get(fid)? {
            Named::File { place, .. } => Ok(place),
            Named::Auth { .. } => Err(Refusal::new(ename::IS_AUTH_FILE)),
        }
    }

    /// The same, and it is not open.
    pub(super) fn closed_place(&self, fid: Fid) -> Result<&Arc<Place>, Refusal> {
        match self.get(fid)? {
            Named::File { place, open: None } => Ok(place),
            Named::File { .. } => Err(Refusal::new(ename::FID_IS_OPEN)),
            Named::Auth { .. } => Err(Refusal::new(ename::IS_AUTH_FILE)),
        }
    }

    pub(super) fn open_mode(&self, fid: Fid) -> Result<OpenMode, Refusal> {
        match self.get(fid)? {
            Named::File {
                open: Some(open), ..
            } => Ok(open.mode),
            Named::File { open: None, .. } => Err(Refusal::new(ename::FID_NOT_OPEN)),
            Named::Auth { .. } => Err(Refusal::new(ename::IS_AUTH_FILE)),
        }
    }

    /// Makes `fid` an open fid of `place`.
    pub(super) fn set_open(
        &mut self,
        fid: Fid,
        place: Arc<Place>,
        mode: OpenMode,
        file: Arc<dyn File>,
    ) {
        let lane = |way| Lane::new(Arc::clone(&file), LaneKey { fid, way }, &self.ready);
        let open = Open {
            mode,
            reads: lane(Way::Read),
            writes: lane(Way::Write),
        };
        // The lanes hold the file from here on.
        discard(file);
        self.insert(
            fid,
            Named::File {
                place,
                open: Some(open),
            },
        );
    }

    /// A lane, if its fid is open.
    pub(super) fn lane(&mut self, key: LaneKey) -> Option<&mut Lane> {
        match self.named.get_mut(&key.fid)? {
            Named::File {
                open: Some(open), ..
            } => Some(open.lane(key.way)),
            _ => None,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_waiting(&self, tag: Tag) -> bool {
        self.waiting.contains_key(&tag)
    }

    pub(super) fn wait(&mut self, tag: Tag, key: LaneKey) {
        self.waiting.insert(tag, key);
    }

    pub(super) fn answered(&mut self, tag: Tag) {
        self.waiting.remove(&tag);
    }

    /// Forgets one request. Returns the lane it was in, where the next one may begin now.
    pub(super) fn cancel(&mut self, tag: Tag) -> Option<LaneKey> {
        let key = self.waiting.remove(&tag)?;
        self.lane(key)?.cancel(tag);
        Some(key)
    }

    /// Forgets a fid, its file and its requests, which are returned in the order in which they are to be answered.
    pub(super) fn remove(&mut self, fid: Fid) -> Result<Vec<Tag>, Refusal> {
        let mut named = self
            .named
            .remove(&fid)
            .ok_or_else(|| Refusal::new(ename::UNKNOWN_FID))?;
        let tags = cancel_all(&mut named);
        discard(named);
        for tag in &tags {
            self.waiting.remove(tag);
        }
        Ok(tags)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> Vec<Tag> {
        self.waiting.clear();
        let mut tags = Vec::new();
        for (_, mut named) in self.named.drain() {
            tags.extend(cancel_all(&mut named));
            discard(named);
        }
        tags
    }
}

impl Drop for Fids {
    fn drop(&mut self) {
        self.clear();
    }
}

fn cancel_all(named: &mut Named) -> Vec<Tag> {
    let Named::File {
        open: Some(open), ..
    } = named
    else {
        return Vec::new();
    };
    let mut tags = open.reads.cancel_all();
    tags.extend(open.writes.cancel_all());
    tags
}
