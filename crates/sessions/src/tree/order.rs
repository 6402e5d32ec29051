use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat};

use super::live::Made;

/// Does what a write says.
pub(super) type Take = dyn Fn(Bytes) -> Answer<()> + Send + Sync;
/// Makes what a read shows.
pub(super) type Show = dyn Fn() -> Answer<Vec<u8>> + Send + Sync;

/// A file to which orders are written, one a write: what it asks for is done,
/// or refused, before the write is answered. A write of nothing does nothing,
/// and so does the truncation that comes with `>` of a shell.
pub(super) struct Order {
    stat: Stat,
    take: Arc<Take>,
    show: Option<Arc<Show>>,
}

impl Order {
    /// A file that is only written.
    pub(super) fn node(
        name: &str,
        path: u64,
        take: impl Fn(Bytes) -> Answer<()> + Send + Sync + 'static,
    ) -> Arc<dyn Node> {
        Arc::new(Self {
            stat: Stat::new(name, Qid::file(path), 0o222),
            take: Arc::new(take),
            show: None,
        })
    }

    /// A file that shows as well what it is about.
    pub(super) fn shown(
        name: &str,
        path: u64,
        take: impl Fn(Bytes) -> Answer<()> + Send + Sync + 'static,
        show: impl Fn() -> Answer<Vec<u8>> + Send + Sync + 'static,
    ) -> Arc<dyn Node> {
        Arc::new(Self {
            stat: Stat::new(name, Qid::file(path), 0o666),
            take: Arc::new(take),
            show: Some(Arc::new(show)),
        })
    }
}

impl Node for Order {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let shown = self
            .show
            .clone()
            .map(|show| Made::file(Arc::new(move || show())));
        Ok(Arc::new(Opened {
            take: Arc::clone(&self.take),
            shown,
        }))
    }

    fn wstat(&self, change: &Stat) -> Result<(), Refusal> {
        truncation(change)
    }
}

/// A change that truncates and no more, which is what a shell's `>` and a
/// touch of the times come to; both do nothing here.
pub(super) fn truncation(change: &Stat) -> Result<(), Refusal> {
    let nothing = Stat {
        length: u64::MAX,
        mtime: u32::MAX,
        atime: u32::MAX,
        ..change.clone()
    };
    if nothing == Stat::untouched() && matches!(change.length, 0 | u64::MAX) {
        Ok(())
    } else {
        Err(Refusal::denied())
    }
}

struct Opened {
    take: Arc<Take>,
    shown: Option<Arc<dyn File>>,
}

impl File for Opened {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        match &self.shown {
            Some(shown) => Arc::clone(shown).read(offset, count),
            None => ninep_rs::answer(Err(Refusal::denied())),
        }
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(async move {
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            if length > 0 {
                (self.take)(data).await?;
            }
            Ok(length)
        })
    }
}
