use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat};
use tokio::sync::OnceCell;

use super::slice;

/// A read-only file whose content is made for each open of it, at its first
/// read.
///
/// Its length is given as 0, as is usual for files that are made up (proc(5)):
/// a stat must not do the work of a read.
pub(super) struct Live<F> {
    stat: Stat,
    content: Arc<F>,
}

impl<F: Fn() -> Answer<Vec<u8>> + Send + Sync + 'static> Live<F> {
    pub(super) fn node(name: &str, path: u64, content: F) -> Arc<dyn Node> {
        Arc::new(Self {
            stat: Stat::new(name, Qid::file(path), 0o444),
            content: Arc::new(content),
        })
    }
}

impl<F: Fn() -> Answer<Vec<u8>> + Send + Sync + 'static> Node for Live<F> {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Made::file(Arc::clone(&self.content)))
    }
}

/// The open half: one version for all reads of a fid.
pub(super) struct Made<F> {
    content: Arc<F>,
    made: OnceCell<Bytes>,
}

impl<F: Fn() -> Answer<Vec<u8>> + Send + Sync + 'static> Made<F> {
    pub(super) fn file(content: Arc<F>) -> Arc<dyn File> {
        Arc::new(Self {
            content,
            made: OnceCell::new(),
        })
    }
}

impl<F: Fn() -> Answer<Vec<u8>> + Send + Sync + 'static> File for Made<F> {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let making = || async { (self.content)().await.map(Bytes::from) };
            let made = self.made.get_or_try_init(making).await?;
            Ok(slice(made, offset, count))
        })
    }
}
