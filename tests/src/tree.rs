use rustix::process::{Pid, Signal, kill_process};

use crate::Process;

/// The processes of a session on this machine, by what they do.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The 9P server: the child of olliesrv.
    pub server: u32,
    /// The companion: the child of the server.
    pub companion: u32,
    /// One for each call: the children of the companion.
    pub supervisors: Vec<u32>,
}

impl Tree {
    /// That of an olliesrv, if there is a call already.
    pub(crate) fn below(olliesrv: u32) -> Option<Self> {
        let all = Process::all();
        let children = |parent: u32| -> Vec<u32> {
            all.iter()
                .filter(|process| process.parent == parent)
                // After fork and before exec, any process looks like its parent.
                .filter(|process| crate::processes::contains(&process.cmdline, b"toolsrv\0serve"))
                .map(|process| process.pid)
                .collect()
        };
        let server = *children(olliesrv).first()?;
        let companion = *children(server).first()?;
        let supervisors = children(companion);
        (!supervisors.is_empty()).then_some(Self {
            server,
            companion,
            supervisors,
        })
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        [self.server, self.companion]
            .into_iter()
            .chain(self.supervisors.iter().copied())
            .collect()
    }

    /// kill -9.
    pub fn kill(pid: u32) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
