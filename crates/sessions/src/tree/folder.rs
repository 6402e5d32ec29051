use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ninep_rs::{File, Listing, Node, OpenMode, Qid, Refusal, Stat, answer};

use super::live::Live;
use crate::plain::{TEXT_MAX, read};

/// A directory of the user's configuration, as it is when it is looked at.
/// Its files can be read, and nothing below it.
pub(super) struct Folder {
    stat: Stat,
    at: PathBuf,
}

impl Folder {
    pub(super) fn node(name: &str, path: u64, at: PathBuf) -> Arc<dyn Node> {
        Arc::new(Self {
            stat: Stat::new(name, Qid::directory(path), 0o555),
            at,
        })
    }
}

impl Node for Folder {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        let at = self.at.join(name);
        // The engine has refused what is more than one name.
        if name == ".." || !is_file(&at) {
            return Err(Refusal::not_found());
        }
        Ok(file(self.stat.qid.path, name, at))
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let (folder, at) = (self.stat.qid.path, self.at.clone());
        Ok(Arc::new(Listing::new(move || {
            let mut names: Vec<_> = std::fs::read_dir(&at)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| is_file(&entry.path()))
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect();
            names.sort();
            let stat = |name: &String| file(folder, name, at.join(name)).stat();
            names.iter().map(stat).collect()
        })))
    }
}

fn is_file(at: &Path) -> bool {
    std::fs::metadata(at).is_ok_and(|stat| stat.is_file())
}

fn file(folder: u64, name: &str, at: PathBuf) -> Arc<dyn Node> {
    Live::node(name, path_of(&(folder, name)), move || {
        answer(match read(&at, TEXT_MAX) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(Refusal::not_found()),
            Err(error) => Err(Refusal::new(format!("cannot read {at:?}: {error}"))),
        })
    })
}

/// A qid path for a thing that has no number of its own.
pub(super) fn path_of(what: &impl std::hash::Hash) -> u64 {
    // SipHash with fixed keys: the same for the life of the process.
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish() | 1 << 63
}
