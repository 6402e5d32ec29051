use std::sync::Arc;

use super::listing::Listing;
use crate::{File, Node, OpenMode, Qid, Refusal, Stat};

/// A directory whose files are known from the start.
///
/// Its listing is made of the files' own stats, so that the two never differ.
pub struct Directory {
    stat: Stat,
    files: Arc<[(String, Arc<dyn Node>)]>,
}

impl Directory {
    /// A directory `name` with the qid path `path`, mode 0555, and these files, which bring their names along.
    ///
    /// Of two files with one name, the first is found.
    #[must_use]
    pub fn new(name: &str, path: u64, files: Vec<Arc<dyn Node>>) -> Self {
        Directory {
            stat: Stat::new(name, Qid::directory(path), 0o555),
            files: files
                .into_iter()
                .map(|file| (file.stat().name, file))
                .collect(),
        }
    }

    /// The same with another owner.
    #[must_use]
    pub fn owned_by(mut self, owner: &str) -> Self {
        self.stat = self.stat.with_owner(owner);
        self
    }
}

impl Node for Directory {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        self.files
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, file)| Arc::clone(file))
            .ok_or_else(Refusal::not_found)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let files = Arc::clone(&self.files);
        Ok(Arc::new(Listing::new(move || {
            files.iter().map(|(_, file)| file.stat()).collect()
        })))
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory")
            .field("name", &self.stat.name)
            .finish_non_exhaustive()
    }
}
