use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, future};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::agent::Shared;
use crate::machine::{Action, Ask, Happened, Output, Ticket};
use crate::{Chunk, DeltaStream, Hands, ModelCall, Notice};

/// Something that is being done, until it has something to tell.
type Job = BoxFuture<'static, (Ticket, Told)>;

enum Told {
    Happened(Happened),
    /// Something happened, and more will.
    More(Happened, Job),
    Streaming(Streaming),
}

/// A reply that arrives.
struct Streaming {
    deltas: DeltaStream,
    until: Instant,
}

type Chunks = mpsc::UnboundedSender<(Ticket, usize, Chunk)>;

/// Does what the machine wants, and tells it what happens, until it ends.
pub(crate) async fn drive(
    shared: &Shared,
    hands: Arc<dyn Hands>,
    mut sink: impl FnMut(Notice) + Send,
) {
    let mut jobs: FuturesUnordered<Job> = FuturesUnordered::new();
    let mut streaming: Option<(Ticket, Streaming)> = None;
    // Its length is bounded by what each call may stream.
    let (chunks, mut arriving) = mpsc::unbounded_channel();
    loop {
        let outputs = shared.machine().take();
        for output in outputs {
            match output {
                Output::Notice(notice) => sink(notice),
                Output::Cancel => {
                    jobs.clear();
                    streaming = None;
                }
                Output::Do(ticket, action) => {
                    jobs.push(begin(ticket, action, Arc::clone(&hands), chunks.clone()));
                }
                Output::End => return,
            }
        }
        let (ticket, told) = tokio::select! {
            // Commands first, so that nothing that floods delays a stop; then
            // output, so that it is told before the result of its call.
            biased;
            () = shared.wake.notified() => continue,
            Some((ticket, slot, chunk)) = arriving.recv() => {
                (ticket, Told::Happened(Happened::Chunk(slot, chunk)))
            }
            (ticket, happened) = next_delta(&mut streaming) => {
                (ticket, Told::Happened(happened))
            }
            Some((ticket, told)) = jobs.next() => (ticket, told),
        };
        // What a call said before it ended is in the channel already.
        while let Ok((ticket, slot, chunk)) = arriving.try_recv() {
            shared
                .machine()
                .handle(ticket, Happened::Chunk(slot, chunk));
        }
        match told {
            Told::Happened(happened) => shared.machine().handle(ticket, happened),
            Told::More(happened, job) => {
                jobs.push(job);
                shared.machine().handle(ticket, happened);
            }
            Told::Streaming(new) => streaming = Some((ticket, new)),
        }
        // A source that is always ready must not keep others from running.
        tokio::task::coop::consume_budget().await;
    }
}

/// What comes next on the stream, if there is one.
async fn next_delta(streaming: &mut Option<(Ticket, Streaming)>) -> (Ticket, Happened) {
    let Some((ticket, stream)) = streaming else {
        return future::pending().await;
    };
    let ticket = *ticket;
    let happened = match timeout_at(stream.until, stream.deltas.next()).await {
        Ok(Some(Ok(delta))) => return (ticket, Happened::Delta(delta)),
        Ok(Some(Err(error))) => Happened::Failed(error),
        Ok(None) => Happened::Ended,
        Err(_) => Happened::OutOfTime,
    };
    *streaming = None;
    (ticket, happened)
}

fn begin(ticket: Ticket, action: Action, hands: Arc<dyn Hands>, chunks: Chunks) -> Job {
    match action {
        Action::ListTools => Box::pin(async move { (ticket, list_tools(ticket, hands).await) }),
        Action::Ask(ask) => Box::pin(async move { (ticket, connect(*ask).await) }),
        Action::Call {
            slot,
            call,
            streamed,
        } => Box::pin(async move {
            let told = call_tool(ticket, slot, &call, streamed, &*hands, &chunks).await;
            (ticket, told)
        }),
        Action::Hook {
            command,
            stdin,
            limit,
        } => Box::pin(async move {
            let stdin = Bytes::from(stdin);
            let end = hands.shell(&command, stdin, limit).await;
            (ticket, Told::Happened(Happened::HookEnded(end)))
        }),
        Action::Sleep(wait) => Box::pin(async move {
            sleep(wait).await;
            (ticket, Told::Happened(Happened::Elapsed))
        }),
    }
}

/// Tells that it has to wait only if it has to.
async fn list_tools(ticket: Ticket, hands: Arc<dyn Hands>) -> Told {
    let mut listing: BoxFuture<'static, _> = Box::pin(async move { hands.tools().await });
    let first = future::poll_fn(|context| Poll::Ready(listing.as_mut().poll(context))).await;
    match first {
        Poll::Ready(tools) => Told::Happened(Happened::Tools(tools)),
        Poll::Pending => {
            let rest = Box::pin(async move {
                let tools = listing.await;
                (ticket, Told::Happened(Happened::Tools(tools)))
            });
            Told::More(Happened::Connecting, rest)
        }
    }
}

async fn connect(ask: Ask) -> Told {
    let now = Instant::now();
    let until = now.checked_add(ask.limit).unwrap_or(now);
    let asked = timeout_at(until, ask.backend.stream(ask.request())).await;
    match asked {
        Ok(Ok(deltas)) => Told::Streaming(Streaming { deltas, until }),
        Ok(Err(error)) => Told::Happened(Happened::Failed(error)),
        Err(_) => Told::Happened(Happened::OutOfTime),
    }
}

async fn call_tool(
    ticket: Ticket,
    slot: usize,
    call: &ModelCall,
    streamed: usize,
    hands: &dyn Hands,
    chunks: &Chunks,
) -> Told {
    // One byte more than is told says that there was more.
    let mut room = streamed.saturating_add(1);
    let mut output = |mut chunk: Chunk| {
        chunk.data.truncate(room);
        room = room.saturating_sub(chunk.data.len());
        if !chunk.data.is_empty() {
            // The receiver lives as long as this job does.
            let _ = chunks.send((ticket, slot, chunk));
        }
    };
    let end = hands.call(call, &mut output).await;
    Told::Happened(Happened::CallEnded(slot, end))
}
