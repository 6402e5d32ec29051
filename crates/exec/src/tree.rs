//! The descendants of this process, and their end.
//!
//! A process group is not enough: `setsid` and double forks leave it. The
//! caller is a subreaper, so every orphan of the tree is its own child, and
//! waitpid(2) answering ECHILD proves that nothing is left.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use crate::kin::{descendants, stat};

/// How long to wait for killed processes to be gone. A process in
/// uninterruptible sleep (a dead NFS server, say) does not die before its
/// system call returns.
const DEATH: Duration = Duration::from_secs(5);

/// Ends every descendant of the calling process except `spare` and their
/// descendants: SIGTERM, up to `grace`, then stop-and-kill until waitpid(2)
/// finds no child. Each reaped child is shown to `reaped`.
///
/// Returns whether the end was confirmed.
pub fn end_descendants(
    grace: Duration,
    spare: &HashSet<u32>,
    reaped: &mut dyn FnMut(Pid, WaitStatus),
) -> bool {
    if !grace.is_zero() {
        for process in descendants(spare) {
            process.signal(Signal::TERM);
            process.signal(Signal::CONT);
        }
        if all_reaped_within(grace, spare, reaped) {
            return true;
        }
    }
    let deadline = Instant::now() + DEATH;
    loop {
        stop_all(spare);
        for process in descendants(spare) {
            process.signal(Signal::KILL);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if all_reaped_within(left.min(Duration::from_millis(50)), spare, reaped) {
            return true;
        }
        if left.is_zero() {
            return false;
        }
    }
}

/// Waits until a child has ended, and reaps it; at most `limit`.
pub fn wait_for(pid: u32, limit: Duration) {
    let deadline = Instant::now() + limit;
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    while let Ok(None) | Err(Errno::INTR) =
        rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).map(|found| found.map(drop))
    {
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process is a descendant of this one, as far as /proc shows it.
#[must_use]
pub fn is_descendant(pid: u32) -> bool {
    let own = rustix::process::getpid().as_raw_pid();
    let mut at = i32::try_from(pid).unwrap_or(0);
    // A parent may end between two looks; no chain is longer than this.
    for _ in 0..10_000 {
        let Some(parent) = Pid::from_raw(at).and_then(stat).map(|stat| stat.parent) else {
            return false;
        };
        if parent == own {
            return true;
        }
        at = parent;
    }
    false
}

/// How many descendants there are now, zombies not counted.
pub(crate) fn count() -> u32 {
    let living = descendants(&HashSet::new());
    u32::try_from(living.len()).unwrap_or(u32::MAX)
}

/// The numbers of the descendants that there are now.
pub(crate) fn pids() -> Vec<Pid> {
    let living = descendants(&HashSet::new());
    living.into_iter().map(|process| process.pid).collect()
}

/// Stops every descendant, again and again until a round finds none that is
/// new: a fork bomb whose members are all stopped forks no more.
fn stop_all(spare: &HashSet<u32>) {
    let mut stopped = HashSet::new();
    for _ in 0..1000 {
        let fresh: Vec<_> = descendants(spare)
            .into_iter()
            .filter(|process| stopped.insert(*process))
            .collect();
        if fresh.is_empty() {
            return;
        }
        for process in fresh {
            process.signal(Signal::STOP);
        }
    }
}

/// Reaps children until there are none but `spare`, or the time is up.
fn all_reaped_within(
    limit: Duration,
    spare: &HashSet<u32>,
    reaped: &mut dyn FnMut(Pid, WaitStatus),
) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_micros(200);
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                reaped(pid, status);
                continue;
            }
            Ok(None) if !spare.is_empty() && descendants(spare).is_empty() => return true,
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return true,
        }
        if Instant::now() >= deadline {
            return false;
        }
        // Deaths of grandchildren send no SIGCHLD here, so this is a poll;
        // it lasts milliseconds and only while a tree is being ended.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::is_descendant;

    #[test]
    fn a_child_is_a_descendant_and_a_parent_is_not() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(is_descendant(child.id()));
        let parent = rustix::process::getppid().unwrap();
        assert!(!is_descendant(parent.as_raw_pid().unsigned_abs()));
        assert!(!is_descendant(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
