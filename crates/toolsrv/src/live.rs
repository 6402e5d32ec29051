use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{File, Node, OpenMode, Qid, Refusal, Snapshot, Stat};
use serde::Serialize;

/// A read-only file whose content is made when it is opened.
///
/// Its length is given as 0, as is usual for files that are made up (proc(5)):
/// a stat must not do the work of an open.
pub(crate) struct Live<F> {
    name: &'static str,
    path: u64,
    content: F,
}

impl<F: Fn() -> Vec<u8> + Send + Sync + 'static> Live<F> {
    pub(crate) fn node(name: &'static str, path: u64, content: F) -> Arc<dyn Node> {
        Arc::new(Self {
            name,
            path,
            content,
        })
    }
}

impl<F: Fn() -> Vec<u8> + Send + Sync + 'static> Node for Live<F> {
    fn qid(&self) -> Qid {
        Qid::file(self.path)
    }

    fn stat(&self) -> Stat {
        Stat::new(self.name, self.qid(), 0o444)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Snapshot::new(Bytes::from((self.content)()))))
    }
}

/// A record as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    // The records of this crate have no map with keys that are not text,
    // which is the one thing that cannot be written.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
