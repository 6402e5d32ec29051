//! Finding the descendants of this process, and signalling the very ones that
//! were found.

use std::collections::{HashMap, HashSet};
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// A process and when it started (field 22 of /proc/PID/stat, proc(5)), which
/// tells it from a later one with the same number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    started: u64,
}

impl Process {
    /// Sends a signal to this very process, not to a later one of its number.
    pub(crate) fn signal(self, signal: Signal) {
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(fd) => {
                if stat(self.pid).is_some_and(|stat| stat.started == self.started) {
                    let _ = pidfd_send_signal(fd, signal);
                }
            }
            // Linux before 5.3.
            Err(Errno::NOSYS) => {
                let _ = kill_process(self.pid, signal);
            }
            Err(_) => {}
        }
    }
}

/// Every living descendant of this process, without `spare` and theirs.
///
/// One that is made, orphaned or reaped in the same moment may be missed;
/// whoever wants all of them looks again until waitpid(2) finds no child.
pub(crate) fn descendants(spare: &HashSet<u32>) -> Vec<Process> {
    // With some to be spared there is no such end, so that an empty answer has
    // to be taken as it is. A list of children skips some when others of them
    // end while it is read (proc(5)); a list of all processes does not.
    if spare.is_empty()
        && let Ok(found) = by_children()
    {
        return found;
    }
    by_parents(spare)
}

/// From parent to children by `/proc/PID/task/TID/children` (proc(5)): costs
/// what the tree costs, however many other processes there are.
///
/// # Errors
/// ENOENT where the kernel has no such file (CONFIG_PROC_CHILDREN).
fn by_children() -> io::Result<Vec<Process>> {
    let own = rustix::process::getpid();
    let mut found = Vec::new();
    let mut queue = children(own)?;
    while let Some((pid, parent)) = queue.pop() {
        // Between the look at the list and this one the number may have become
        // another's.
        let Some(stat) = stat(pid).filter(|stat| stat.living && stat.parent == parent) else {
            continue;
        };
        found.push(Process {
            pid,
            started: stat.started,
        });
        // That it has ended in the meantime is no error.
        queue.extend(children(pid).unwrap_or_default());
    }
    Ok(found)
}

/// The children of all threads of a process, each with the process's number.
fn children(parent: Pid) -> io::Result<Vec<(Pid, i32)>> {
    let parent = parent.as_raw_pid();
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{parent}/task"))? {
        let list = std::fs::read_to_string(thread?.path().join("children"))?;
        let numbers = list.split_ascii_whitespace();
        let pids = numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?));
        found.extend(pids.map(|pid| (pid, parent)));
    }
    Ok(found)
}

/// From all processes of the machine, each of which names its parent.
fn by_parents(spare: &HashSet<u32>) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<(Process, bool)>> = HashMap::new();
    let Ok(list) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    for entry in list.flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.parse().ok())
            .and_then(Pid::from_raw)
        else {
            continue;
        };
        if let Some(stat) = stat(pid) {
            let process = Process {
                pid,
                started: stat.started,
            };
            children
                .entry(stat.parent)
                .or_default()
                .push((process, stat.living));
        }
    }
    let mut found = Vec::new();
    let mut queue = vec![rustix::process::getpid().as_raw_pid()];
    while let Some(parent) = queue.pop() {
        for (process, living) in children.remove(&parent).unwrap_or_default() {
            let number = process.pid.as_raw_pid();
            if spare.contains(&number.unsigned_abs()) {
                continue;
            }
            // A zombie has no children: its own went to the subreaper.
            if living {
                found.push(process);
                queue.push(number);
            }
        }
    }
    found
}

pub(crate) struct Stat {
    pub(crate) parent: i32,
    started: u64,
    living: bool,
}

/// Reads what is needed of /proc/PID/stat. The name in parentheses may hold
/// anything, so fields are counted from the last closing one.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let text = std::str::from_utf8(text.get(end + 2..)?).ok()?;
    let fields: Vec<_> = text.split_ascii_whitespace().collect();
    // The first thread of a program may end before the others: the process is
    // shown as a zombie then, and lives on with more than one thread.
    let threads: u32 = fields.get(17)?.parse().ok()?;
    Some(Stat {
        living: !matches!(*fields.first()?, "Z" | "X") || threads > 1,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use rustix::process::getpgid;

    use super::*;

    #[test]
    fn both_ways_find_the_same_processes() {
        // Three shells, one within the other, and the four they wait for.
        let code = "sleep 60 & (sleep 60 & (sleep 60 & sleep 60 & echo ready; wait) & wait) & wait";
        let mut shell = Command::new("sh")
            .args(["-c", code])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        // Other tests may have children of this process at the same time.
        let group = Pid::from_child(&shell);
        let of_shell = |found: Vec<Process>| -> HashSet<Process> {
            let in_group = |process: &Process| getpgid(Some(process.pid)) == Ok(group);
            found.into_iter().filter(in_group).collect()
        };
        let all = of_shell(by_parents(&HashSet::new()));
        match by_children() {
            Ok(found) => assert_eq!(of_shell(found), all),
            Err(error) => assert!(
                !std::path::Path::new("/proc/thread-self/children").exists(),
                "{error}"
            ),
        }
        assert_eq!(all.len(), 7, "{all:?}");
        for process in all {
            process.signal(Signal::KILL);
        }
        shell.wait().unwrap();
    }

    #[test]
    fn the_parent_is_read_from_the_stat_file_whatever_the_name() {
        let own = stat(rustix::process::getpid()).unwrap();
        let parent = rustix::process::getppid().unwrap();
        assert_eq!(own.parent, parent.as_raw_pid());
        assert!(own.living && own.started > 0);
    }
}
