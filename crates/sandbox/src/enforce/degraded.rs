//! What a policy asks for and a kernel does not have, each as a sentence.

use crate::seccomp::Gated;
use crate::{Network, Policy};

/// The sentences for a kernel of Landlock ABI `abi`.
/// (Documentation/userspace-api/landlock.rst, "Previous limitations")
pub(crate) fn missing(policy: &Policy, abi: u32, gated: Gated) -> Vec<String> {
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
    // Tighter again: a gate decides on connections, and what it cannot decide
    // on does not exist.
    lacks(
        super::gate::RESOLVE_UNIX,
        match gated {
            Gated::Pairs => {
                "Unix datagram sockets cannot be made, and socketpair(2) makes sequenced packet sockets of a pair of them"
            }
            _ => "Unix datagram sockets cannot be made, nor pairs of them",
        },
    );
    for (name, limit) in policy.limits.named().into_iter().take(2) {
        if let Some(limit) = limit {
            missing.push(format!(
                "limits.{name} ({}) is watched and not enforced: a call that has more is ended, a moment later",
                limit.value
            ));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostView, Layer, Layered, Network, Origin, Sourced};

    fn policy(network: Network) -> Policy {
        let document = crate::Document {
            network: Some(Sourced {
                value: network,
                origin: Origin::host("test"),
            }),
            ..Default::default()
        };
        let layered = Layered::new("test", &document).unwrap();
        let view = HostView {
            cwd: std::path::Path::new("/"),
            home: None,
            tmpdir: None,
            path: None,
            tools_path: None,
            program: None,
            ollie_roots: &[],
            env: &|_| None,
            identity: None,
        };
        layered.expand(&view).unwrap()
    }

    /// What each ABI brought: 2 refer, 3 truncate, 4 TCP, 5 ioctl, 6 scopes
    /// (two of them), 9 pathname sockets.
    #[test]
    fn each_abi_is_told_what_it_lacks() {
        let open = policy(Network::Unrestricted);
        let ports = policy(Network::Tcp {
            connect: [443].into(),
            bind: [].into(),
        });
        let counts = |p: &Policy| {
            (1..=10)
                .map(|abi| missing(p, abi, Gated::Pairs).len())
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&open), [6, 5, 4, 4, 3, 1, 1, 1, 0, 0]);
        assert_eq!(counts(&ports), [7, 6, 5, 4, 3, 1, 1, 1, 0, 0]);
        assert!(missing(&open, 7, Gated::Pairs)[0].contains("ABI 7, needs 9"));
        assert!(missing(&open, 7, Gated::Pairs)[0].contains("sequenced packet"));
        assert!(missing(&open, 7, Gated::Connections)[0].contains("nor pairs"));
    }

    #[test]
    fn a_limit_that_is_only_watched_is_told() {
        let mut policy = policy(Network::Unrestricted);
        policy.limits.processes = Some(Sourced {
            value: 512,
            origin: Origin {
                layer: Layer::User,
                file: None,
                line: None,
            },
        });
        assert_eq!(missing(&policy, 10, Gated::Nothing).len(), 1);
    }
}
