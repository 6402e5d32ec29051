use std::sync::atomic::{AtomicUsize, Ordering};

use ninep_rs::Refusal;

/// What all calls and definitions that are not complete yet may have
/// together, in bytes: eight of the longest.
const MOST: usize = 32 * 1024 * 1024;

/// What they have. One toolsrv serves one session.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// What one of them has, until it is complete or its file is closed.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(usize);

impl Unfinished {
    /// `count` bytes more.
    ///
    /// # Errors
    /// There is no room for them.
    pub(crate) fn add(&mut self, count: usize) -> Result<(), Refusal> {
        let taken = TAKEN.fetch_add(count, Ordering::Relaxed);
        self.0 += count;
        if taken + count > MOST {
            return Err(Refusal::new(
                "the calls and definitions that are not complete have 32 MiB together: complete \
                 or close others first",
            ));
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}
