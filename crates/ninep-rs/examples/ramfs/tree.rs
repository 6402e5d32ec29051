//! A tree in memory: files and directories can be made, written, cut, renamed and removed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use ninep_rs::{
    Answer, AuthFile, Created, File, Listing, Node, OpenMode, Qid, Refusal, Service, Stat, answer,
    ename,
};

/// The longest file, so that an offset of 2^60 does not take the machine's memory.
const LONGEST: usize = 64 * 1024 * 1024;

/// Serves one tree to everybody, without authentication.
pub(crate) struct RamFs {
    root: Arc<Entry>,
}

impl RamFs {
    pub(crate) fn new(owner: &str) -> Self {
        RamFs {
            root: Arc::new(Entry {
                path: 0,
                owner: owner.to_owned(),
                directory: true,
                parent: Weak::new(),
                paths: Arc::new(AtomicU64::new(1)),
                state: Mutex::new(State {
                    name: "/".to_owned(),
                    permissions: 0o755,
                    ..State::default()
                }),
            }),
        }
    }
}

impl Service for RamFs {
    fn attach(
        &self,
        _uname: &str,
        _aname: &str,
        _auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        Ok(Arc::new(Place(Arc::clone(&self.root))))
    }
}

struct Entry {
    path: u64,
    owner: String,
    directory: bool,
    parent: Weak<Entry>,
    /// The next free qid path of the whole tree.
    paths: Arc<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    name: String,
    permissions: u32,
    version: u32,
    content: Vec<u8>,
    entries: BTreeMap<String, Arc<Entry>>,
}

impl Entry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stat(&self) -> Stat {
        let state = self.state();
        let mut qid = match self.directory {
            true => Qid::directory(self.path),
            false => Qid::file(self.path),
        };
        qid.version = state.version;
        Stat::new(&state.name, qid, state.permissions)
            .with_length(state.content.len() as u64)
            .with_owner(&self.owner)
    }

    fn set_length(&self, length: u64) -> Result<(), Refusal> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= LONGEST)
            .ok_or_else(|| Refusal::new("file is too long: keep below 64 MiB"))?;
        let mut state = self.state();
        state.content.resize(length, 0);
        state.version += 1;
        Ok(())
    }
}

struct Place(Arc<Entry>);

impl Node for Place {
    fn qid(&self) -> Qid {
        self.0.stat().qid
    }

    fn stat(&self) -> Stat {
        self.0.stat()
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        match self.0.state().entries.get(name) {
            Some(entry) => Ok(Arc::new(Place(Arc::clone(entry)))),
            None => Err(Refusal::not_found()),
        }
    }

    fn open(&self, mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let entry = Arc::clone(&self.0);
        if entry.directory {
            return Ok(Arc::new(Listing::new(move || {
                let entries: Vec<_> = entry.state().entries.values().cloned().collect();
                entries.iter().map(|entry| entry.stat()).collect()
            })));
        }
        if mode.truncate {
            entry.set_length(0)?;
        }
        Ok(Arc::new(Opened(entry)))
    }

    fn create(&self, name: &str, perm: u32, mode: OpenMode) -> Result<Created, Refusal> {
        let entry = Arc::new(Entry {
            path: self.0.paths.fetch_add(1, Ordering::Relaxed),
            owner: self.0.owner.clone(),
            directory: perm & Stat::DIR != 0,
            parent: Arc::downgrade(&self.0),
            paths: Arc::clone(&self.0.paths),
            state: Mutex::new(State {
                name: name.to_owned(),
                permissions: perm & 0o777,
                ..State::default()
            }),
        });
        let mut state = self.0.state();
        if state.entries.contains_key(name) {
            return Err(Refusal::new("file exists: choose another name"));
        }
        state.entries.insert(name.to_owned(), Arc::clone(&entry));
        state.version += 1;
        drop(state);
        let place = Place(entry);
        let file = place.open(mode)?;
        Ok((Arc::new(place), file))
    }

    fn remove(&self) -> Result<(), Refusal> {
        let parent = self.0.parent.upgrade().ok_or_else(Refusal::denied)?;
        let mut siblings = parent.state();
        let state = self.0.state();
        if !state.entries.is_empty() {
            return Err(Refusal::new(
                "directory is not empty: remove its files first",
            ));
        }
        siblings
            .entries
            .remove(&state.name)
            .map(|_| ())
            .ok_or_else(Refusal::not_found)
    }

    fn wstat(&self, change: &Stat) -> Result<(), Refusal> {
        if change.length != u64::MAX {
            if self.0.directory && change.length != 0 {
                return Err(Refusal::new(ename::IS_A_DIRECTORY));
            }
            self.0.set_length(change.length)?;
        }
        if change.mode != u32::MAX {
            self.0.state().permissions = change.mode & 0o777;
        }
        if !change.name.is_empty() {
            let parent = self.0.parent.upgrade().ok_or_else(Refusal::denied)?;
            let mut siblings = parent.state();
            if siblings.entries.contains_key(&change.name) {
                return Err(Refusal::new("file exists: choose another name"));
            }
            let old = std::mem::replace(&mut self.0.state().name, change.name.clone());
            if let Some(entry) = siblings.entries.remove(&old) {
                siblings.entries.insert(change.name.clone(), entry);
            }
        }
        Ok(())
    }
}

struct Opened(Arc<Entry>);

impl Opened {
    fn put(&self, offset: u64, data: &[u8]) -> Result<u32, Refusal> {
        let end = offset.saturating_add(data.len() as u64);
        let length = self.0.state().content.len() as u64;
        self.0.set_length(end.max(length))?;
        // Both are below LONGEST now.
        let start = usize::try_from(offset).map_err(|_| Refusal::denied())?;
        self.0.state().content[start..start + data.len()].copy_from_slice(data);
        u32::try_from(data.len()).map_err(|_| Refusal::denied())
    }
}

impl File for Opened {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        let state = self.0.state();
        let length = state.content.len();
        let start = usize::try_from(offset).map_or(length, |offset| offset.min(length));
        let end = start.saturating_add(count as usize).min(length);
        answer(Ok(Bytes::copy_from_slice(&state.content[start..end])))
    }

    fn write(self: Arc<Self>, offset: u64, data: Bytes) -> Answer<u32> {
        answer(self.put(offset, &data))
    }
}
