use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Answer, File, Listing, Node, OpenMode, Qid, Refusal, Stat, answer};

use super::live::Live;
use super::log_file::LogFile;
use super::order::Order;
use super::passage::Passage;
use super::refused;
use super::wait::Wait;
use crate::session::Session;
use crate::{Error, SessionId, Sessions};

/// How many qid paths a session has.
pub(super) const PATHS: u64 = 64;
/// The first qid path of the first session.
pub(super) const FIRST_PATH: u64 = 1 << 20;

/// The directory of a session. Removing it ends the session, and a new name in
/// a Twstat renames it.
pub(super) struct SessionDirectory {
    sessions: Arc<Sessions>,
    session: Arc<Session>,
}

impl SessionDirectory {
    pub(super) fn node(sessions: &Arc<Sessions>, session: Arc<Session>) -> Arc<dyn Node> {
        Arc::new(Self {
            sessions: Arc::clone(sessions),
            session,
        })
    }

    fn path(&self) -> u64 {
        FIRST_PATH + self.session.number() * PATHS
    }

    fn files(&self) -> Vec<Arc<dyn Node>> {
        let session = &self.session;
        let at = self.path();
        let text = |name, path, show: fn(&Session) -> Result<Vec<u8>, Error>| {
            let session = Arc::clone(session);
            Live::node(name, at + path, move || {
                answer(show(&session).map_err(refused))
            })
        };
        let (models, prompt, ctl, queue, cfg) = (
            Arc::clone(session),
            Arc::clone(session),
            Arc::clone(session),
            Arc::clone(session),
            Arc::clone(session),
        );
        let (sessions, sessions_too) = (Arc::clone(&self.sessions), Arc::clone(&self.sessions));
        vec![
            Order::node("prompt", at + 1, move |data| {
                let session = Arc::clone(&prompt);
                order(data, move |text| async move { session.prompt(text) })
            }),
            LogFile::node(session, "chat", at + 2, Session::chat),
            LogFile::node(session, "events", at + 3, Session::events),
            text("state", 4, |session| {
                Ok(format!("{}\n", session.states().now()).into_bytes())
            }),
            Wait::node(session, at + 5),
            Order::shown(
                "queue",
                at + 6,
                move |data| {
                    let session = Arc::clone(&queue);
                    order(data, move |text| async move { session.edit_queue(&text) })
                },
                {
                    let session = Arc::clone(session);
                    move || answer(session.queue().map_err(refused))
                },
            ),
            Order::node("ctl", at + 7, move |data| {
                let (sessions, session) = (Arc::clone(&sessions), Arc::clone(&ctl));
                order(data, move |text| async move {
                    sessions.command(&session, &text).await
                })
            }),
            Order::shown(
                "cfg",
                at + 8,
                move |data| {
                    let (sessions, session) = (Arc::clone(&sessions_too), Arc::clone(&cfg));
                    order(data, move |text| async move {
                        sessions.configure(&session, &text)
                    })
                },
                {
                    let session = Arc::clone(session);
                    move || answer(Ok(session.cfg().into_bytes()))
                },
            ),
            text("context", 9, Session::context),
            text("systemprompt", 10, Session::system_prompt),
            text("usage", 11, Session::usage),
            text("ctxsz", 12, Session::context_size),
            Live::node("models", at + 13, move || {
                let session = Arc::clone(&models);
                Box::pin(async move { session.models().await.map_err(refused) })
            }),
            text("asks", 16, |session| Ok(session.asks())),
            text("env", 14, Session::env),
            text("remote", 15, Session::remote),
            Passage::to_tools(session),
            Passage::to_proc(session),
        ]
    }
}

/// Takes an order in UTF-8, byte for byte.
fn order<F>(data: Bytes, obey: impl FnOnce(String) -> F) -> Answer<()>
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    match String::from_utf8(data.into()) {
        Ok(text) => {
            let obeying = obey(text);
            Box::pin(async move { obeying.await.map_err(refused) })
        }
        Err(_) => answer(Err(Refusal::new("write text in UTF-8"))),
    }
}

impl Node for SessionDirectory {
    fn qid(&self) -> Qid {
        Qid::directory(self.path())
    }

    fn stat(&self) -> Stat {
        Stat::new(self.session.id().as_str(), self.qid(), 0o755)
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        self.files()
            .into_iter()
            .find(|file| file.stat().name == name)
            .ok_or(Refusal::not_found())
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let files = self.files();
        Ok(Arc::new(Listing::new(move || {
            files.iter().map(|file| file.stat()).collect()
        })))
    }

    fn remove(&self) -> Result<(), Refusal> {
        self.sessions.remove(&self.session).map_err(refused)
    }

    fn wstat(&self, change: &Stat) -> Result<(), Refusal> {
        let nothing_else = Stat {
            name: String::new(),
            ..change.clone()
        };
        if nothing_else != Stat::untouched() {
            return Err(Refusal::new("of a session only the name can be changed"));
        }
        if change.name.is_empty() {
            return Ok(());
        }
        let to = SessionId::new(change.name.as_str()).map_err(refused)?;
        self.sessions.rename(&self.session, to).map_err(refused)
    }
}
