use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat};

use crate::log::{Log, piece};
use crate::session::Session;

/// A log of a session. A read at its end waits for more; it ends when the
/// session is removed.
pub(super) struct LogFile {
    session: Arc<Session>,
    name: &'static str,
    path: u64,
    log: fn(&Session) -> &Log,
}

impl LogFile {
    pub(super) fn node(
        session: &Arc<Session>,
        name: &'static str,
        path: u64,
        log: fn(&Session) -> &Log,
    ) -> Arc<dyn Node> {
        Arc::new(Self {
            session: Arc::clone(session),
            name,
            path,
            log,
        })
    }

    fn entry(&self, length: u64) -> Stat {
        let qid = Qid {
            kind: Qid::APPEND,
            version: u32::try_from(length & 0xFFFF_FFFF).unwrap_or(0),
            path: self.path,
        };
        Stat::new(self.name, qid, 0o444).with_length(length)
    }
}

impl Node for LogFile {
    fn qid(&self) -> Qid {
        self.stat().qid
    }

    fn stat(&self) -> Stat {
        self.entry((self.log)(&self.session).length())
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Reader {
            session: Arc::clone(&self.session),
            log: self.log,
            file: Mutex::new(None),
        }))
    }
}

/// One reader of a log.
struct Reader {
    session: Arc<Session>,
    log: fn(&Session) -> &Log,
    /// Opened at the first read that finds something.
    file: Mutex<Option<std::fs::File>>,
}

impl Reader {
    fn piece(&self, offset: u64, count: u32, length: u64) -> io::Result<Bytes> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = (self.log)(&self.session).open()?;
        }
        match &*file {
            Some(file) => piece(file, offset, count, length),
            None => Ok(Bytes::new()),
        }
    }
}

impl File for Reader {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let mut extent = (self.log)(&self.session).extent();
            // Its sender lives in the session.
            let ready = extent
                .wait_for(|extent| extent.over || offset < extent.length)
                .await;
            let length = ready.map_or(0, |extent| extent.length);
            self.piece(offset, count, length)
                .map_err(|error| Refusal::new(format!("cannot read the log: {error}")))
        })
    }
}
