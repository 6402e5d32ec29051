use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Who locks a directory, for as long as the result is kept by this process or
/// one that it forked (flock(2)). `None` where the other kind is held, or where
/// the file system has no locks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holder {
    /// Somebody who uses it, beside others.
    User,
    /// Somebody who is to remove it.
    Remover,
}

impl Holder {
    pub(crate) fn lock(self, directory: &Path) -> Option<File> {
        let how = match self {
            Self::User => FlockOperation::NonBlockingLockShared,
            Self::Remover => FlockOperation::NonBlockingLockExclusive,
        };
        let directory = File::open(directory).ok()?;
        flock(&directory, how).ok()?;
        Some(directory)
    }
}
