use std::sync::Arc;

use bytes::Bytes;

use crate::{Answer, File, Node, OpenMode, Qid, Refusal, Stat, answer};

/// A read-only file, mode 0444, whose content a function gives.
///
/// The content is taken at each open, so that one fid reads one version to its end. The function is also asked for the
/// length at each stat: it must be quick.
pub struct Text<F> {
    stat: Stat,
    content: F,
}

impl<F: Fn() -> Bytes + Send + Sync + 'static> Text<F> {
    /// A file `name` with the qid path `path`.
    pub fn new(name: &str, path: u64, content: F) -> Self {
        Text {
            stat: Stat::new(name, Qid::file(path), 0o444),
            content,
        }
    }

    /// The same with another owner.
    #[must_use]
    pub fn owned_by(mut self, owner: &str) -> Self {
        self.stat = self.stat.with_owner(owner);
        self
    }
}

impl<F: Fn() -> Bytes + Send + Sync + 'static> Node for Text<F> {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone().with_length((self.content)().len() as u64)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Snapshot::new((self.content)())))
    }
}

impl<F> std::fmt::Debug for Text<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text")
            .field("name", &self.stat.name)
            .finish_non_exhaustive()
    }
}

/// The open half of a file whose bytes stay what they were at the open.
#[derive(Clone, Debug)]
pub struct Snapshot {
    content: Bytes,
}

impl Snapshot {
    /// A snapshot of `content`.
    #[must_use]
    pub fn new(content: impl Into<Bytes>) -> Self {
        Snapshot {
            content: content.into(),
        }
    }
}

impl File for Snapshot {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        let length = self.content.len();
        let start = usize::try_from(offset).map_or(length, |offset| offset.min(length));
        let end = start.saturating_add(count as usize).min(length);
        answer(Ok(self.content.slice(start..end)))
    }
}
