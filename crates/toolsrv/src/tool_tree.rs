use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, Directory, File, Listing, Node, OpenMode, Qid, Refusal, Stat, answer};
use ollie_protocol::{Definition, ValueReader, limits, tree};
use tokio::sync::watch;

use crate::call_file::refused;
use crate::live::{Live, line};
use crate::session::{Session, Side};
use crate::tool::Tool;
use crate::unfinished::Unfinished;

/// The directory `tools`, as one agent sees it.
pub(crate) struct Tools {
    view: View,
    qid: Qid,
    files: [Arc<dyn Node>; 3],
}

/// A session, and who looks at it.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) session: Arc<Session>,
    pub(crate) agent: Arc<str>,
    pub(crate) side: Side,
}

impl Tools {
    pub(crate) fn new(view: &View, path: u64) -> Self {
        let file = |name, at, mode, kind| {
            Arc::new(Special {
                view: view.clone(),
                stat: Stat::new(name, Qid::file(path + at), mode),
                kind,
            }) as Arc<dyn Node>
        };
        Self {
            view: view.clone(),
            qid: Qid::directory(path),
            files: [
                file(tree::INDEX, 1, 0o444, Kind::Index),
                file(tree::CTL, 2, 0o222, Kind::Ctl),
                file(tree::DEFINE, 3, 0o666, Kind::Define),
            ],
        }
    }
}

impl Node for Tools {
    fn qid(&self) -> Qid {
        self.qid
    }

    fn stat(&self) -> Stat {
        Stat::new(tree::TOOLS, self.qid, 0o555)
    }

    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        if let Some(file) = self.files.iter().find(|file| file.stat().name == name) {
            return Ok(Arc::clone(file));
        }
        let tool = self.view.session.registry.get(name);
        Ok(directory(&self.view, &tool.ok_or(Refusal::not_found())?))
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let (view, files) = (self.view.clone(), self.files.clone());
        Ok(Arc::new(Listing::new(move || {
            let tools = view.session.registry.all(&view.agent);
            files
                .iter()
                .map(|file| file.stat())
                .chain(tools.iter().map(|(tool, _)| directory(&view, tool).stat()))
                .collect()
        })))
    }
}

/// The directory of one tool.
fn directory(view: &View, tool: &Arc<Tool>) -> Arc<dyn Node> {
    let at = tool.path;
    let (spec, doc) = (Arc::clone(tool), Arc::clone(tool));
    Arc::new(Directory::new(
        &tool.spec.name,
        at,
        vec![
            Live::node(tree::SPEC, at + 1, move || line(&spec.spec)),
            Live::node(tree::DOC, at + 2, move || {
                doc.spec.to_markdown().into_bytes()
            }),
            Arc::new(Special {
                view: view.clone(),
                stat: Stat::new(tree::VARIANT, Qid::file(at + 3), 0o444),
                kind: Kind::Variant(Arc::clone(tool)),
            }),
        ],
    ))
}

/// Files that have to wait for what they say, or that do something.
struct Special {
    view: View,
    stat: Stat,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Index,
    Ctl,
    Define,
    Variant(Arc<Tool>),
}

impl Node for Special {
    fn qid(&self) -> Qid {
        self.stat.qid
    }

    fn stat(&self) -> Stat {
        self.stat.clone()
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        let view = self.view.clone();
        Ok(match &self.kind {
            Kind::Ctl => Arc::new(Ctl(view)),
            Kind::Define => Arc::new(Define {
                view,
                state: Mutex::new(State::Reading(
                    ValueReader::new("definition", limits::DEFINITION_MAX),
                    Unfinished::default(),
                )),
                ready: watch::Sender::new(false),
            }),
            Kind::Index => Arc::new(Found {
                view,
                tool: None,
                content: tokio::sync::OnceCell::new(),
            }),
            Kind::Variant(tool) => Arc::new(Found {
                view,
                tool: Some(Arc::clone(tool)),
                content: tokio::sync::OnceCell::new(),
            }),
        })
    }
}

/// `index` or a tool's `variant`: to know what runs here a program may have to
/// be asked, so the first read waits.
struct Found {
    view: View,
    tool: Option<Arc<Tool>>,
    content: tokio::sync::OnceCell<Bytes>,
}

impl Found {
    async fn find(&self) -> Bytes {
        let View { session, agent, .. } = &self.view;
        let mut text = Vec::new();
        match &self.tool {
            Some(tool) => {
                let choice = tool.choice(session).await;
                text.extend_from_slice(choice.reason.as_bytes());
                text.push(b'\n');
            }
            None => {
                for (tool, loaded) in session.registry.all(agent) {
                    text.extend(line(&tool.info(session, loaded).await));
                }
            }
        }
        text.into()
    }
}

impl File for Found {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let text = self.content.get_or_init(|| self.find()).await;
            Ok(part(text, offset, count))
        })
    }
}

/// At most `count` bytes of `text` at `offset`.
fn part(text: &Bytes, offset: u64, count: u32) -> Bytes {
    let start = usize::try_from(offset).map_or(text.len(), |at| at.min(text.len()));
    let end = start.saturating_add(count as usize).min(text.len());
    text.slice(start..end)
}

/// The file `ctl`: words about tools, one a write.
///
/// - `load NAME`, `unload NAME`: this agent has the tool, or has it not.
/// - `reload`: what was found out about this host is looked at anew.
struct Ctl(View);

impl Ctl {
    async fn obey(&self, word: &[u8]) -> Result<(), Refusal> {
        let View { session, agent, .. } = &self.0;
        let registry = &session.registry;
        match std::str::from_utf8(word)
            .unwrap_or_default()
            .split_once(' ')
        {
            Some((tree::LOAD, name)) => registry.set_loaded(agent, name.trim(), true),
            Some((tree::UNLOAD, name)) => registry.set_loaded(agent, name.trim(), false),
            None if word == tree::RELOAD.as_bytes() => {
                registry.reload().await;
                Ok(())
            }
            _ => Err(Refusal::new(
                "unknown command: write load NAME, unload NAME or reload",
            )),
        }
    }
}

impl File for Ctl {
    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(async move {
            self.obey(data.trim_ascii()).await?;
            Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
        })
    }
}

/// The open `define`: takes one definition, and then says what became of it.
struct Define {
    view: View,
    state: Mutex<State>,
    /// True once the definition was taken or refused: a read that was sent
    /// together with it waits.
    ready: watch::Sender<bool>,
}

enum State {
    Reading(ValueReader, Unfinished),
    Answered(Bytes),
    Refused(Refusal),
}

impl Define {
    fn take(&self, data: &[u8]) -> Result<(), Refusal> {
        let mut state = self.state();
        let (reader, room) = match &mut *state {
            State::Reading(reader, room) => (reader, room),
            State::Answered(_) if data.iter().all(u8::is_ascii_whitespace) => return Ok(()),
            State::Answered(_) => {
                return Err(Refusal::new("one definition for each open of this file"));
            }
            State::Refused(refusal) => return Err(refusal.clone()),
        };
        let taken = (|| {
            room.add(data.len())?;
            let Some(end) = reader.push(data).map_err(|error| refused(&error))? else {
                return Ok(None);
            };
            if !data.get(end..).unwrap_or_default().trim_ascii().is_empty() {
                return Err(Refusal::new("something follows the definition"));
            }
            let definition: Definition = reader.parse().map_err(|error| refused(&error))?;
            self.view.session.registry.define(definition).map(Some)
        })();
        match taken {
            Ok(None) => Ok(()),
            Ok(Some(defined)) => {
                *state = State::Answered(line(&defined).into());
                self.ready.send_replace(true);
                Ok(())
            }
            Err(refusal) => {
                *state = State::Refused(refusal.clone());
                self.ready.send_replace(true);
                Err(refusal)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for Define {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let mut ready = self.ready.subscribe();
            // The sender lives as long as `self`.
            let _ = ready.wait_for(|ready| *ready).await;
            match &*self.state() {
                State::Answered(text) => Ok(part(text, offset, count)),
                State::Refused(refusal) => Err(refusal.clone()),
                State::Reading(..) => Ok(Bytes::new()),
            }
        })
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        answer(self.take(&data).map(|()| count))
    }
}
