use std::sync::Arc;

use ninep_rs::{
    AuthFile, Directory, File, Listing, Node, OpenMode, Qid, Refusal, Service, Stat, Text, answer,
};

use super::folder::Folder;
use super::live::Live;
use super::new_session::NewSession;
use super::session_directory::SessionDirectory;
use crate::Sessions;

/// What `help` says.
const HELP: &str = include_str!("help.txt");

/// The tree, for any number of connections. Who may connect is decided before.
#[derive(Debug, Clone)]
pub struct Tree {
    sessions: Arc<Sessions>,
}

impl Tree {
    /// The tree of these sessions.
    #[must_use]
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions }
    }

    fn root(&self) -> Arc<dyn Node> {
        let sessions = &self.sessions;
        let house = sessions.house();
        let text = |name, path, show: fn(&Sessions) -> String| {
            let sessions = Arc::clone(sessions);
            Live::node(name, path, move || answer(Ok(show(&sessions).into_bytes())))
        };
        let mut files = vec![
            text("help", 1, |_| HELP.to_owned()),
            {
                let sessions = Arc::clone(sessions);
                Live::node("backends", 2, move || {
                    let text = sessions.house().backends_text();
                    answer(text.map(String::into_bytes).map_err(super::refused))
                })
            },
            Arc::new(SessionList::new(sessions)) as Arc<dyn Node>,
        ];
        let folders = house.folders();
        files.extend(
            (4..)
                .zip(folders)
                .map(|(path, (name, at))| Folder::node(name, path, at)),
        );
        // As they are at the attach. What is wrong with the configuration
        // keeps nobody out: `backends` says it, and each new session.
        let remotes = (house.configured)().unwrap_or_default().remotes;
        let remotes = (32..).zip(&remotes).map(|(path, (name, text))| {
            let text = bytes::Bytes::from(text.clone());
            Arc::new(Text::new(name, path, move || text.clone())) as Arc<dyn Node>
        });
        files.push(Arc::new(Directory::new("remotes", 7, remotes.collect())));
        Arc::new(Directory::new("/", 0, files))
    }
}

impl Service for Tree {
    fn attach(
        &self,
        _uname: &str,
        _aname: &str,
        _auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        Ok(self.root())
    }
}

/// The directory `session`.
struct SessionList {
    sessions: Arc<Sessions>,
    files: [Arc<dyn Node>; 2],
}

impl SessionList {
    fn new(sessions: &Arc<Sessions>) -> Self {
        let index = Arc::clone(sessions);
        Self {
            sessions: Arc::clone(sessions),
            files: [
                NewSession::node(sessions, 16),
                Live::node("idx", 17, move || answer(Ok(index.index().into_bytes()))),
            ],
        }
    }
}

impl Node for SessionList {
    fn qid(&self) -> Qid {
        Qid::directory(3)
    }

    fn stat(&self) -> Stat {
        Stat::new("session", self.qid(), 0o555)
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        if let Some(file) = self.files.iter().find(|file| file.stat().name == name) {
            return Ok(Arc::clone(file));
        }
        let session = self.sessions.get(name).ok_or(Refusal::not_found())?;
        Ok(SessionDirectory::node(&self.sessions, session))
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let (sessions, files) = (Arc::clone(&self.sessions), self.files.clone());
        Ok(Arc::new(Listing::new(move || {
            let directories = sessions.all();
            files
                .iter()
                .map(|file| file.stat())
                .chain(
                    directories
                        .into_iter()
                        .map(|session| SessionDirectory::node(&sessions, session).stat()),
                )
                .collect()
        })))
    }
}
