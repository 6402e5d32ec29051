use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use crate::{Refusal, ename};

/// Runs a service's code; its panic becomes a refusal, so that it costs its caller one `Rerror`.
///
/// The engine's own state is not touched inside, hence `AssertUnwindSafe`.
pub(super) fn shielded<T>(code: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|_| Err(Refusal::new(ename::INTERNAL)))
}

/// The same for a poll.
pub(super) fn shielded_poll<T>(
    poll: impl FnOnce() -> Poll<Result<T, Refusal>>,
) -> Poll<Result<T, Refusal>> {
    catch_unwind(AssertUnwindSafe(poll))
        .unwrap_or_else(|_| Poll::Ready(Err(Refusal::new(ename::INTERNAL))))
}

/// Drops what belongs to a service; a panic of its `Drop` goes no further.
pub(super) fn discard<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}
