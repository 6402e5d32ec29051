use std::path::PathBuf;

use ollie_catalogue::{Catalogue, Change, Tool};
use ollie_client::{Error, Offer, ToolsrvConn};
use ollie_deploy::Kept;
use ollie_protocol::{ToolOrigin, chain};
use tokio::sync::Mutex;

use crate::Tell;
use crate::session::blocking;

/// The tools of the user's `tools/` directory, as a session's toolsrv has
/// them.
///
/// The directory is read again before each request of the model and for each
/// new toolsrv, so a changed tool is there for the next call without anybody
/// who watches files.
pub(crate) struct UserTools {
    directory: PathBuf,
    brought: Mutex<Brought>,
    tell: Tell,
}

#[derive(Default)]
struct Brought {
    catalogue: Catalogue,
    /// Which toolsrv has what is in the catalogue; the first one is 1.
    generation: u64,
    /// Why the directory could not be read, once it was told.
    unread: Option<String>,
}

impl UserTools {
    pub(crate) fn new(directory: PathBuf, tell: Tell) -> Self {
        Self {
            directory,
            brought: Mutex::default(),
            tell,
        }
    }

    /// Brings a toolsrv up to date: a new one is offered everything, any other
    /// what has changed. A tool that it does not take is told of, and keeps no
    /// other from being there.
    pub(crate) async fn bring(&self, kept: &Kept) -> Result<(), Error> {
        let mut brought = self.brought.lock().await;
        let directory = &self.directory;
        let updated = blocking(|| brought.catalogue.update(directory, ToolOrigin::User));
        let changes = match updated {
            Ok(changes) => {
                brought.unread = None;
                changes
            }
            Err(error) => {
                let why = chain(&error);
                if brought.unread.as_ref() != Some(&why) {
                    (self.tell)(&why);
                    brought.unread = Some(why);
                }
                Vec::new()
            }
        };
        for change in &changes {
            if let Change::Broken { name, problem, .. } = change {
                (self.tell)(&format!("the tool {name} is not used as it is: {problem}"));
            }
        }
        let conn = kept.conn();
        if brought.generation != kept.generation {
            for tool in brought.catalogue.tools() {
                self.told(&tool.spec.name, offer(conn, tool).await)?;
            }
            brought.generation = kept.generation;
            return Ok(());
        }
        for change in &changes {
            let (name, outcome) = match (change, change.definition()) {
                (Change::Tool(tool), _) => (&tool.spec.name, offer(conn, tool).await),
                (Change::Broken { name, .. } | Change::Removed(name), Some(definition)) => {
                    (name, conn.define(&definition).await.map(|_| ()))
                }
                (_, None) => continue,
            };
            self.told(name, outcome)?;
        }
        Ok(())
    }

    /// What was brought is gone: the next toolsrv is a first one again.
    pub(crate) async fn forget(&self) {
        self.brought.lock().await.generation = 0;
    }

    fn told(&self, name: &str, outcome: Result<(), Error>) -> Result<(), Error> {
        match outcome {
            Err(Error::Refused(reason)) => {
                (self.tell)(&format!("the tool {name} is not used there: {reason}"));
                Ok(())
            }
            other => other,
        }
    }
}

async fn offer(conn: &ToolsrvConn, tool: &Tool) -> Result<(), Error> {
    let offer = Offer {
        spec: tool.spec.clone(),
        scripts: tool.scripts.clone(),
        problem: None,
    };
    conn.offer(&offer).await.map(|_| ())
}
