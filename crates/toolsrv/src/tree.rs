use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ninep_rs::{Answer, Directory, File, Node, OpenMode, Qid, Refusal, Stat};
use ollie_protocol::{CallId, ProjectRecord, SandboxReport, tree};
use serde::Serialize;

use crate::call_tree::Proc;
use crate::facts;
use crate::live::{Live, line};
use crate::project::ProjectNode;
use crate::session::Session;
use crate::tool_tree::{Tools, View};
use crate::why::Why;

/// The root of the tree for this agent, as docs/protocol.md describes it.
pub(crate) fn root(view: &View) -> Arc<dyn Node> {
    let session = &view.session;
    let json = |name, path, show: fn(&Session) -> Vec<u8>| {
        let session = Arc::clone(session);
        Live::node(name, path, move || show(&session))
    };
    Arc::new(Directory::new(
        "/",
        0,
        vec![
            json(tree::VERSION, 1, |session| line(&session.version())),
            json(tree::HOST, 2, |session| {
                line(&facts::gather(&session.environment, &session.cwd))
            }),
            json(tree::POLICY, 3, |session| line(&PolicyRecord::of(session))),
            Arc::new(ProjectNode {
                session: Arc::clone(session),
                side: view.side,
            }),
            Arc::new(Why(Arc::clone(session))),
            json(tree::DOOR, 12, |session| {
                session.lobby.book().iter().flat_map(line).collect()
            }),
            json(tree::STATUS, 4, |session| line(&Gauges::of(session))),
            Arc::new(Ctl {
                session: Arc::clone(session),
            }),
            Arc::new(Proc::new(view, 6)),
            Arc::new(Tools::new(view, 16)),
        ],
    ))
}

/// The file `policy`.
#[derive(Serialize)]
struct PolicyRecord<'a> {
    /// What is in force; absent when nothing may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    enforcement: Option<&'a SandboxReport>,
    /// Why nothing may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    /// The policy with the origin of each rule; absent before it is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a ollie_sandbox::Policy>,
    /// What became of the project's file.
    project: ProjectRecord,
}

impl<'a> PolicyRecord<'a> {
    fn of(session: &'a Session) -> Self {
        let sandbox = session.sandbox();
        let confinement = sandbox.map(|sandbox| &sandbox.confinement);
        Self {
            enforcement: confinement.and_then(|c| c.as_ref().ok().map(|c| &c.report)),
            refused: confinement.and_then(|c| c.as_ref().err().map(String::as_str)),
            policy: sandbox.map(|sandbox| &sandbox.policy),
            project: session.project.record(),
        }
    }
}

/// The file `status`.
#[derive(Serialize)]
struct Gauges {
    uptime_s: u64,
    /// Calls whose tree has not ended.
    running: usize,
    /// Calls that are remembered, with the running ones.
    calls: usize,
    /// Open descriptors of the 9P server.
    fds: usize,
    /// Resident memory of the 9P server, bytes.
    rss: u64,
    /// qids handed out.
    qids: u64,
    /// Connections to the socket that ended without having proved anything.
    turned_away: u64,
    /// Seconds that the session lives on without a client.
    lease_s: u64,
}

impl Gauges {
    fn of(session: &Session) -> Self {
        let calls = session.calls.all();
        Self {
            uptime_s: session.uptime(),
            running: calls.iter().filter(|call| !call.is_finished()).count(),
            calls: calls.len(),
            fds: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
            rss: resident(),
            qids: session.paths.load(Ordering::Relaxed),
            turned_away: session.lobby.turned_away(),
            lease_s: session.lease().map_or(0, |lease| lease.as_secs()),
        }
    }
}

/// The second field of /proc/self/statm is resident memory in pages (proc(5)).
fn resident() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * rustix::param::page_size() as u64)
}

/// The file `ctl`: words to toolsrv itself, one a write.
///
/// - `shutdown`: ends every call and then toolsrv.
/// - `bar ID`: from now on no call of this id ever starts; refused if one was
///   started or is being started. So a client that lost its connection learns
///   for certain whether a call of its was ever begun.
/// - `lease SECONDS`: for so long the session lives on without a client, and
///   its background calls with it; 0, the default: not at all. Refused with
///   the reason where the host would end it all the same.
struct Ctl {
    session: Arc<Session>,
}

impl Node for Ctl {
    fn qid(&self) -> Qid {
        Qid::file(5)
    }

    fn stat(&self) -> Stat {
        Stat::new(tree::CTL, self.qid(), 0o222)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(OpenCtl(Arc::clone(&self.session))))
    }
}

struct OpenCtl(Arc<Session>);

impl OpenCtl {
    async fn obey(&self, word: &[u8]) -> Result<(), Refusal> {
        let word = std::str::from_utf8(word).unwrap_or_default();
        match word.split_once(' ') {
            None if word == tree::SHUTDOWN => {
                self.0.ending.notify_one();
                Ok(())
            }
            Some((tree::BAR, id)) => {
                let id = CallId::new(id).map_err(|error| Refusal::new(error.to_string()))?;
                self.0.calls.bar(id)
            }
            Some((tree::LEASE, seconds)) => {
                let seconds = seconds
                    .parse()
                    .map_err(|_| Refusal::new("lease: write a number of seconds, or 0"))?;
                self.0.set_lease(Duration::from_secs(seconds))
            }
            _ => Err(Refusal::new(format!(
                "unknown command: write {}, {} ID or {} SECONDS",
                tree::SHUTDOWN,
                tree::BAR,
                tree::LEASE
            ))),
        }
    }
}

impl File for OpenCtl {
    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(async move {
            self.obey(data.trim_ascii()).await?;
            Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
        })
    }
}
