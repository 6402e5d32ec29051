use std::pin::pin;
use std::task::Context;

/// Polls this task again, once the runtime has looked which streams are ready.
///
/// A task that wakes itself is polled again before that, on tokio some sixty times: a request that comes in meanwhile
/// would wait for sixty long answers.
pub(crate) fn ask_again(cx: &mut Context<'_>) {
    // Its first poll leaves the waker with the runtime.
    let _pending = pin!(tokio::task::yield_now()).poll(cx);
}
