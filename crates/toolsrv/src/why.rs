use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Node, OpenMode, Qid, Refusal, Stat};
use ollie_protocol::tree;
use ollie_sandbox::Operation;

use crate::live::line;
use crate::project::piece;
use crate::session::Session;

/// The file `why`: write `OPERATION PATH`, read the policy's verdict.
pub(crate) struct Why(pub(crate) Arc<Session>);

impl Node for Why {
    fn qid(&self) -> Qid {
        Qid::file(11)
    }

    fn stat(&self) -> Stat {
        Stat::new(tree::WHY, self.qid(), 0o666)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Question {
            session: Arc::clone(&self.0),
            verdict: Mutex::default(),
        }))
    }
}

struct Question {
    session: Arc<Session>,
    /// The answer to what was last written.
    verdict: Mutex<Vec<u8>>,
}

impl Question {
    fn ask(&self, question: &[u8]) -> Result<(), Refusal> {
        let question = question.strip_suffix(b"\n").unwrap_or(question);
        let space = question.iter().position(|&byte| byte == b' ');
        let (word, path) = question.split_at(space.unwrap_or(question.len()));
        let operation = std::str::from_utf8(word)
            .ok()
            .and_then(Operation::from_word)
            .filter(|_| path.len() > 1)
            .ok_or_else(|| {
                let words = Operation::ALL.map(Operation::word).join(", ");
                Refusal::new(format!("write one of {words}, a space and a path"))
            })?;
        let sandbox = self.session.sandbox().ok_or_else(|| {
            Refusal::new("the project's policy file is not decided about: write `project`")
        })?;
        let path = Path::new(OsStr::from_bytes(path.get(1..).unwrap_or_default()));
        let verdict = sandbox.policy.why(operation, path);
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = line(&verdict);
        Ok(())
    }
}

impl File for Question {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        let verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = piece(verdict.clone(), offset, count);
        drop(verdict);
        ninep_rs::answer(Ok(bytes))
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        let written = u32::try_from(data.len()).unwrap_or(u32::MAX);
        ninep_rs::answer(self.ask(&data).map(|()| written))
    }
}
