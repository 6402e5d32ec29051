use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Enforcement, doorman, ruleset, sys};
use crate::{Error, Network, Policy};

/// The Landlock ABI that restricts pathname Unix sockets by itself
/// (LANDLOCK_ACCESS_FS_RESOLVE_UNIX).
pub(crate) const RESOLVE_UNIX: u32 = 9;

/// What a gate lets pass, and what the process that decides is held to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateRules {
    /// Listed sockets, and directories of writable grants. What lies below
    /// one is allowed.
    places: Vec<PlaceRecord>,
    network: Network,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct PlaceRecord(#[serde(with = "crate::octets_path")] PathBuf);

impl GateRules {
    pub(crate) fn new(policy: &Policy) -> Self {
        let sockets = policy.sockets.iter().map(|socket| &socket.path);
        let writable = policy.grants.iter().filter(|grant| grant.access.writes());
        Self {
            places: sockets
                .chain(writable.map(|grant| &grant.path))
                .map(|path| PlaceRecord(path.clone()))
                .collect(),
            network: policy.network().clone(),
        }
    }

    /// Whether a tool may connect to the socket at `path`, which the kernel
    /// named: absolute, without links.
    pub(crate) fn allow(&self, path: &Path) -> bool {
        path.is_absolute() && self.places.iter().any(|place| path.starts_with(&place.0))
    }
}

/// Stands before every connect(2) of a call, where the kernel's Landlock
/// knows nothing of pathname Unix sockets (below ABI 9).
///
/// The call's seccomp filter asks a listener (seccomp_unotify(2)) and the
/// calling process waits. The listener's process never lets the system call
/// go on, because between its look and the call another thread could change
/// the address or the descriptor. It takes a duplicate of the socket
/// (pidfd_getfd(2)) and a copy of the address, and makes the connection
/// itself, of that socket, to the very file that it looked at. Only the
/// outcome goes back.
///
/// It answers socketpair(2) of datagram sockets as well, with a pair of
/// sequenced packet sockets: they take no address with a message.
///
/// The deciding threads have no capabilities and are in a Landlock domain of
/// their own that the call's is nested in, with the same rules on TCP ports
/// and on abstract sockets. So a connection made for a tool reaches nothing
/// that the tool's own would not.
#[derive(Debug)]
pub struct Gate {
    ours: UnixStream,
    theirs: UnixStream,
    rules: GateRules,
}

impl Enforcement {
    /// Makes the gate for one call; `None` where none is needed: Landlock
    /// restricts pathname sockets itself, or nothing is enforced.
    ///
    /// **The calling thread enters the outer Landlock domain**, for good,
    /// together with no_new_privs. The call must be started by it, so that
    /// its domain is nested in the outer one, and the thread can then signal
    /// and trace nobody but the call. Any process may do that which does no
    /// more than watch over one call.
    ///
    /// # Errors
    /// [`Error::Gate`] with the kernel's answer; [`Error::Ruleset`].
    pub fn gate(&self) -> Result<Option<Gate>, Error> {
        let Some(rules) = self.plan().gate.clone() else {
            return Ok(None);
        };
        let (ours, theirs) = UnixStream::pair().map_err(Error::Gate)?;
        if let Some(outer) = ruleset::outer(&rules.network)? {
            sys::enter(outer.as_fd()).map_err(Error::Gate)?;
        }
        Ok(Some(Gate {
            ours,
            theirs,
            rules,
        }))
    }
}

impl Gate {
    /// What the child gives to [`Enforcement::restrict_self`], which sends the
    /// filter's listener over it. Closed on exec.
    #[must_use]
    pub fn child_end(&self) -> BorrowedFd<'_> {
        self.theirs.as_fd()
    }

    /// The listener, once the child has confined itself.
    ///
    /// # Errors
    /// End-of-file as [`io::ErrorKind::UnexpectedEof`], when the child ended
    /// before it came that far.
    pub fn listener(self) -> io::Result<Listener> {
        drop(self.theirs);
        Ok(Listener {
            fd: sys::notify::receive(self.ours.as_fd())?,
            rules: self.rules,
        })
    }
}

/// Where the questions of one call arrive. It can be polled, and
/// [`Listener::is_asked`] tells a question from the end of the call. If it is
/// closed, what would be asked about answers ENOSYS.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    rules: GateRules,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listener {
    /// Whether somebody waits for an answer now. poll(2) returns as well when
    /// nobody is left that could ask (POLLHUP, seccomp_unotify(2)).
    #[must_use]
    pub fn is_asked(&self) -> bool {
        sys::notify::is_asked(self.fd.as_fd())
    }

    /// Answers from now on, in threads of this process that end when the call
    /// has ended. The process must have the call's user, and should not be
    /// dumpable (PR_SET_DUMPABLE, prctl(2)).
    ///
    /// # Errors
    /// What thread creation says.
    pub fn serve(self) -> io::Result<()> {
        doorman::start(self.fd, self.rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_a_place_passes_and_its_neighbours_do_not() {
        let rules = GateRules {
            places: ["/run/a.sock", "/home/u/p"]
                .map(|path| PlaceRecord(path.into()))
                .into(),
            network: Network::Unrestricted,
        };
        for (path, allowed) in [
            ("/run/a.sock", true),
            ("/home/u/p/x/y.sock", true),
            ("/run/a.sock2", false),
            ("/home/u/p2/y.sock", false),
            ("/run/docker.sock", false),
            ("(unreachable)/home/u/p/x", false),
            ("", false),
        ] {
            assert_eq!(rules.allow(Path::new(path)), allowed, "{path}");
        }
    }
}
