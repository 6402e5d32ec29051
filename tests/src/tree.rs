use rustix::process::{Pid, Signal, kill_process};

use crate::Process;
use crate::processes::contains;

/// The processes of a session on this machine, by what they do.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The 9P server: the child of olliesrv.
    pub server: u32,
    /// The companion: the child of the server.
    pub companion: u32,
    /// The child of the companion that looks after the call.
    pub supervisor: u32,
    /// The one that waits for the next call, if it is there.
    pub spare: Option<u32>,
}

impl Tree {
    /// That of an olliesrv, if its call runs already.
    pub(crate) fn below(olliesrv: u32) -> Option<Self> {
        let all = Process::all();
        let children = |parent: u32| all.iter().filter(move |process| process.parent == parent);
        // After fork and before exec, a process looks like its parent.
        let is_toolsrv = |process: &&Process| contains(&process.cmdline, b"toolsrv\0serve");
        let server = children(olliesrv).find(is_toolsrv)?.pid;
        let companion = children(server).find(is_toolsrv)?.pid;
        let (busy, idle): (Vec<_>, Vec<_>) = children(companion)
            .filter(is_toolsrv)
            .map(|process| process.pid)
            .partition(|&pid| children(pid).any(|process| !is_toolsrv(&process)));
        Some(Self {
            server,
            companion,
            supervisor: *busy.first()?,
            spare: idle.first().copied(),
        })
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        [self.server, self.companion, self.supervisor]
            .into_iter()
            .chain(self.spare)
            .collect()
    }

    /// kill -9.
    pub fn kill(pid: u32) {
        Self::send(pid, Signal::KILL);
    }

    /// kill -STOP: whoever is stopped does not react to what happens to others.
    pub fn stop(pid: u32) {
        Self::send(pid, Signal::STOP);
    }

    fn send(pid: u32, signal: Signal) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }
}
