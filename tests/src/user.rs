use std::sync::atomic::{AtomicU32, Ordering};

use crate::gap;

/// Numbers for ordinary users: above those that systems give to people, and
/// below 65536, which is all that a container may have.
const FIRST: u32 = 20_000;
const COUNT: u32 = 40_000;

/// Who runs ollie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The superuser.
    Root,
    /// An ordinary user. Where root runs the tests, it is one whom nobody else
    /// on the machine is, so that every process of this user is the test's.
    Ordinary(u32),
}

impl User {
    /// Root, if the tests run as root; else a gap that names `what`.
    #[must_use]
    pub fn root(what: &str) -> Option<Self> {
        if is_root() {
            return Some(Self::Root);
        }
        gap(what, "needs root");
        None
    }

    /// An ordinary user.
    #[must_use]
    pub fn ordinary() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !is_root() {
            return Self::Ordinary(rustix::process::getuid().as_raw());
        }
        let number = std::process::id()
            .wrapping_mul(8)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        Self::Ordinary(FIRST + number % COUNT)
    }

    /// Both, for what must hold for either. An ordinary user who runs the
    /// tests can only be himself.
    pub fn each(what: &str) -> impl Iterator<Item = Self> {
        Self::root(what)
            .into_iter()
            .chain(std::iter::once(Self::ordinary()))
    }

    /// The number.
    #[must_use]
    pub fn uid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Ordinary(uid) => uid,
        }
    }

    /// Whether a process has to change its user to become this one.
    pub(crate) fn is_other(self) -> bool {
        self.uid() != rustix::process::getuid().as_raw()
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}
