//! What a policy asks for and a kernel does not have, each as a sentence.

use crate::{Network, Policy};

/// The sentences for a kernel of Landlock ABI `abi`.
/// (Documentation/userspace-api/landlock.rst, "Previous limitations")
pub(crate) fn missing(policy: &Policy, abi: u32) -> Vec<String> {
    let mut missing = Vec::new();
    let mut lacks = |needed: u32, what: &str| {
        if abi < needed {
            missing.push(format!("{what} (Landlock ABI {abi}, needs {needed})"));
        }
    };
    // Below ABI 2 the kernel refuses every rename and link between
    // directories, which is tighter, not looser; but work breaks.
    lacks(
        2,
        "files cannot be renamed or linked from one directory to another, not even inside a grant",
    );
    lacks(
        3,
        "truncating a file that may not be written is not restricted",
    );
    if let Network::Tcp { .. } = policy.network() {
        lacks(
            4,
            "TCP ports are not restricted, every port can be connected to and bound",
        );
    }
    lacks(5, "ioctl on devices is not restricted");
    lacks(
        6,
        "signals to processes outside of the call are not restricted",
    );
    lacks(
        6,
        "abstract Unix sockets of other processes are not restricted",
    );
    lacks(
        9,
        "pathname Unix sockets are not restricted: docker.sock, ssh-agent, D-Bus and systemd of this user stay reachable",
    );
    for (name, limit) in policy.limits.named().into_iter().take(2) {
        if let Some(limit) = limit {
            missing.push(format!(
                "limits.{name} ({}) is neither enforced nor watched in this version",
                limit.value
            ));
        }
    }
    missing
}
