//! What the tree of a call uses, while a limit on it is set.

use ollie_sandbox::TreeLimits;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// A limit that a call went beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exceeded {
    /// Processes and threads.
    Processes {
        /// How many there may be.
        most: u64,
        /// How many there were.
        found: u64,
    },
    /// Memory, in MiB.
    Memory {
        /// How much there may be.
        most: u64,
        /// How much there was.
        found: u64,
    },
}

/// The first limit that these processes together are beyond.
pub(crate) fn exceeded(limits: TreeLimits, tree: &[Pid]) -> Option<Exceeded> {
    let usages: Vec<_> = tree.iter().filter_map(|pid| usage(*pid)).collect();
    let threads = usages.iter().map(|usage| usage.threads).sum();
    if let Some(most) = limits.processes.filter(|most| threads > *most) {
        return Some(Exceeded::Processes {
            most,
            found: threads,
        });
    }
    let most = limits.memory_mb?;
    let resident: u64 = usages.iter().map(|usage| usage.resident).sum();
    if resident >> 20 <= most {
        return None;
    }
    // That counted what processes share once for each of them. The kernel
    // divides it, which costs a walk through their memory, so only now.
    let found = tree.iter().filter_map(|pid| share(*pid)).sum::<u64>() >> 20;
    (found > most).then_some(Exceeded::Memory { most, found })
}

struct Usage {
    threads: u64,
    resident: u64,
}

/// Fields 20 and 24 of /proc/PID/stat (proc(5)), counted from behind the name,
/// which may hold anything.
fn usage(pid: Pid) -> Option<Usage> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let mut fields = text.get(text.rfind(')')? + 2..)?.split_ascii_whitespace();
    let threads = fields.nth(17)?.parse().ok()?;
    let pages: u64 = fields.nth(3)?.parse().ok()?;
    Some(Usage {
        threads,
        resident: pages * rustix::param::page_size() as u64,
    })
}

/// Memory of one process, shared pages divided by those who share them (Pss
/// of /proc/PID/smaps_rollup); all that is resident where it hides its memory.
fn share(pid: Pid) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_pid()));
    let pss = rollup.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    });
    pss.or_else(|| usage(pid).map(|usage| usage.resident))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_threads_and_memory() {
        let own = [rustix::process::getpid()];
        let limits = |processes, memory_mb| TreeLimits {
            processes,
            memory_mb,
        };
        assert_eq!(exceeded(limits(Some(10_000), Some(100_000)), &own), None);
        let found = |exceeded| match exceeded {
            Some(Exceeded::Processes { most: 0, found } | Exceeded::Memory { most: 0, found }) => {
                found
            }
            other => panic!("{other:?}"),
        };
        // Memory that no other process shares, so that its share is not less.
        let own_memory = vec![7u8; 8 << 20];
        // The test's own thread and the one that started it.
        assert!(found(exceeded(limits(Some(0), None), &own)) >= 2);
        assert!(found(exceeded(limits(None, Some(0)), &own)) >= 8);
        assert_eq!(own_memory.iter().rev().take(1).sum::<u8>(), 7);
    }
}
