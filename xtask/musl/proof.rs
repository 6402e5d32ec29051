//! Ends with status 0 if panics unwind in this program.
//!
//! A std that links is not yet one that unwinds: the first panic of a handler
//! would end toolsrv, and every session with it.

use std::{
    panic::catch_unwind,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Panics `depth` calls down, with something to drop in each.
#[inline(never)]
fn descend(depth: usize) -> usize {
    let _guard = Guard;
    if depth == 0 {
        return Vec::<usize>::new()[std::env::args().count()];
    }
    descend(depth - 1) + 1
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let here = catch_unwind(|| descend(99)).is_err();
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(|| descend(99))).collect();
    let there = threads.into_iter().all(|thread| thread.join().is_err());
    if here && there && DROPPED.load(Ordering::Relaxed) == 500 {
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}
