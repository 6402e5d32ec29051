//! A call through a keeper, with what a drop of the connection means for it.

use std::pin::Pin;

use bytes::Bytes;
use ollie_client::{CallEvent, Fate};
use ollie_protocol::{CallId, Stream, ToolCall, ToolResult};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::keeper::{Kept, Leased, ProcessKeeper};
use crate::{Error, Step};

/// How often a host that cannot be reached is asked again while a lease lasts:
/// the keeper's own pauses come on top.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Where what a call says goes. Whoever is slow to take it slows down nothing
/// but this; once nobody takes it any more it is dropped.
pub type Hear<'a> = &'a mpsc::Sender<CallEvent>;

/// How the connection failed while a call was followed.
enum Broken {
    /// It ended, or its host was silent.
    Lost(Error),
    /// The call cannot be followed.
    Final(Error),
}

impl ProcessKeeper {
    /// Runs a call to its end; `hear` gets every event but the result, and has
    /// to be read meanwhile. Dropping the future ends the call.
    ///
    /// Without a lease the call belongs to its connection: if that is lost,
    /// toolsrv ends the call, and the error is [`Error::Unknown`]. Under one
    /// it goes on there, this finds the session again and goes on with the
    /// output where it was, for as long as the lease lasts. Then output comes
    /// from the call's logs: a command that is faster than the way back is not
    /// slowed down, and what is not kept there is missing, with a notice that
    /// says how much ([`ollie_protocol::limits::LOG_KEEP`]). Such a call has
    /// no standard input.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::NeverStarted`], [`Error::Call`] if toolsrv
    /// refuses it; before it was made, those of [`ProcessKeeper::get`].
    pub async fn call(
        &self,
        call: &ToolCall,
        hear: Hear<'_>,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<ToolResult, Error> {
        let kept = self.get(tell).await?;
        match kept.leased() {
            Leased::For(_) => self.lasting(kept, call, hear, tell).await,
            Leased::No | Leased::Refused(_) => self.passing(&kept, call, hear).await,
        }
    }

    async fn passing(
        &self,
        kept: &Kept,
        call: &ToolCall,
        hear: Hear<'_>,
    ) -> Result<ToolResult, Error> {
        let mut running = kept.conn().call(call).map_err(Error::Call)?;
        let mut silence = std::pin::pin!(kept.silence());
        loop {
            let event = tokio::select! {
                quiet = &mut silence => {
                    self.abandon(kept).await;
                    return Err(unknown(Error::Silent(quiet)));
                }
                event = running.next() => event,
            };
            match event.map_err(broken) {
                Ok(Some(CallEvent::Result(result))) => return Ok(*result),
                Ok(Some(event)) => {
                    let _ = hear.send(event).await;
                }
                Ok(None) => {
                    let none = ollie_client::Error::Protocol("the call ended without a result");
                    return Err(Error::Call(none));
                }
                Err(Broken::Lost(error)) => return Err(unknown(error)),
                Err(Broken::Final(error)) => return Err(error),
            }
        }
    }

    async fn lasting(
        &self,
        mut kept: Kept,
        call: &ToolCall,
        hear: Hear<'_>,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<ToolResult, Error> {
        let mut follower = Follower::new(call.id.clone());
        let mut ending = Ending::new(&kept, &call.id);
        let begun = kept.conn().start(call).await;
        let mut outcome = match begun.map_err(broken) {
            Ok(()) => follower.follow(&kept, hear).await,
            Err(broken) => Err(broken),
        };
        loop {
            match outcome {
                Ok(result) => {
                    ending.disarm();
                    return Ok(result);
                }
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Lost(error)) => {
                    // What is lost must not be told later to end the call.
                    ending.disarm();
                    let generation = kept.generation;
                    self.abandon(&kept).await;
                    kept = match self.again(&kept, tell).await {
                        Ok(kept) if kept.generation == generation => kept,
                        Ok(_) => return Err(unknown(error)),
                        Err(error) => return Err(unknown(error)),
                    };
                    ending = Ending::new(&kept, &call.id);
                }
            }
            outcome = follower.resume(&kept, hear).await;
        }
    }

    /// Follows a call of this session that was started with
    /// [`ollie_client::ToolsrvConn::start`], from the beginning of what is kept
    /// of its output. Dropping the future leaves the call as it is.
    ///
    /// # Errors
    /// As [`ProcessKeeper::call`].
    pub async fn resume(
        &self,
        id: &CallId,
        hear: Hear<'_>,
        tell: &(dyn Fn(&Step) + Sync),
    ) -> Result<ToolResult, Error> {
        let mut follower = Follower::new(id.clone());
        let mut kept = self.get(tell).await?;
        let generation = kept.generation;
        loop {
            match follower.resume(&kept, hear).await {
                Ok(result) => return Ok(result),
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Lost(error)) => {
                    self.abandon(&kept).await;
                    kept = self.again(&kept, tell).await.map_err(unknown)?;
                    if kept.generation != generation {
                        return Err(unknown(error));
                    }
                }
            }
        }
    }

    /// The next connection, for as long as the session may live on.
    async fn again(&self, kept: &Kept, tell: &(dyn Fn(&Step) + Sync)) -> Result<Kept, Error> {
        let Leased::For(time) = kept.leased() else {
            return self.get(tell).await;
        };
        let until = Instant::now() + *time;
        loop {
            match self.get(tell).await {
                Err(error) if !matches!(error, Error::Final(_)) && Instant::now() < until => {
                    sleep(AGAIN).await;
                }
                other => return other,
            }
        }
    }
}

/// Ends the call when its future is dropped.
struct Ending {
    kept: Option<Kept>,
    id: CallId,
}

impl Ending {
    fn new(kept: &Kept, id: &CallId) -> Self {
        Self {
            kept: Some(kept.clone()),
            id: id.clone(),
        }
    }

    fn disarm(&mut self) {
        self.kept = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        // On its way at once; without a runtime the connection has ended too.
        let ending = kept.conn().control(self.id.as_str(), "end");
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = ending.await;
                drop(kept);
            });
        }
    }
}

/// How far the logs of a call have been read.
struct Follower {
    id: CallId,
    /// Offsets in the streams themselves.
    at: [u64; 2],
}

const STREAMS: [(Stream, &str); 2] = [(Stream::Stdout, "stdout"), (Stream::Stderr, "stderr")];

type Reading<'a> = Pin<Box<dyn Future<Output = Result<Bytes, ollie_client::Error>> + Send + 'a>>;

impl Follower {
    fn new(id: CallId) -> Self {
        Self { id, at: [0; 2] }
    }

    /// On a new connection: asks first what has become of the call.
    async fn resume(&mut self, kept: &Kept, hear: Hear<'_>) -> Result<ToolResult, Broken> {
        match kept.conn().fate(&self.id).await.map_err(broken)? {
            Fate::Finished(_) | Fate::Running(_) => self.follow(kept, hear).await,
            Fate::NeverStarted => Err(Broken::Final(Error::NeverStarted)),
            _ => Err(Broken::Final(unknown(Error::Gone(
                "so many calls have ended since that this one is forgotten".to_owned(),
            )))),
        }
    }

    /// Reads both logs to their ends, and then the result.
    async fn follow(&mut self, kept: &Kept, hear: Hear<'_>) -> Result<ToolResult, Broken> {
        let id = self.id.clone();
        let read = |number: usize, at: u64| -> Option<Reading<'_>> {
            let (_, log) = *STREAMS.get(number)?;
            Some(Box::pin(kept.conn().log_piece(&id, log, at)))
        };
        let mut silence = std::pin::pin!(kept.silence());
        let [mut out, mut err] = [read(0, self.at[0]), read(1, self.at[1])];
        while out.is_some() || err.is_some() {
            let (number, piece) = tokio::select! {
                quiet = &mut silence => return Err(Broken::Lost(Error::Silent(quiet))),
                piece = next(&mut out) => (0, piece),
                piece = next(&mut err) => (1, piece),
            };
            let piece = piece.map_err(broken)?;
            let more = !piece.is_empty();
            self.hear(kept, number, piece, hear).await?;
            let reading = if more {
                read(number, self.at[number])
            } else {
                None
            };
            if number == 0 {
                out = reading;
            } else {
                err = reading;
            }
        }
        tokio::select! {
            quiet = silence => Err(Broken::Lost(Error::Silent(quiet))),
            result = kept.conn().wait(&id) => result.map_err(broken),
        }
    }

    /// Passes a piece on. Where bytes are missing the log has a line instead,
    /// which a command could also have printed; the log's state tells.
    async fn hear(
        &mut self,
        kept: &Kept,
        number: usize,
        data: Bytes,
        hear: Hear<'_>,
    ) -> Result<(), Broken> {
        let (stream, _) = STREAMS[number];
        let at = self.at[number];
        if let Some(missing) = missing(&data) {
            let status = kept.conn().status(&self.id).await.map_err(broken)?;
            let dropped = status.logs.and_then(|logs| match stream {
                Stream::Stdout => logs.stdout.dropped,
                Stream::Stderr => logs.stderr.dropped,
            });
            let gap = dropped.is_some_and(|[from, next]| from <= at && at < next);
            if gap {
                self.at[number] = at + missing;
                let text = format!("{missing} bytes of its output are not kept");
                let _ = hear.send(CallEvent::Notice { text }).await;
                return Ok(());
            }
        }
        self.at[number] = at + data.len() as u64;
        if !data.is_empty() {
            let _ = hear.send(CallEvent::Output { stream, data }).await;
        }
        Ok(())
    }
}

async fn next(reading: &mut Option<Reading<'_>>) -> Result<Bytes, ollie_client::Error> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

/// How many bytes are missing, if this is the line that stands for them.
fn missing(data: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(data).ok()?;
    let number = text.strip_prefix("\n[... ")?;
    number
        .strip_suffix(" bytes are not kept ...]\n")?
        .parse()
        .ok()
}

fn unknown(error: Error) -> Error {
    match error {
        Error::Unknown(_) => error,
        error => Error::Unknown(Box::new(error)),
    }
}

fn broken(error: ollie_client::Error) -> Broken {
    match error {
        ollie_client::Error::Lost(_) => Broken::Lost(Error::Connect(error)),
        error => Broken::Final(Error::Call(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_stands_for_missing_bytes_is_told_from_others() {
        assert_eq!(missing(b"\n[... 17 bytes are not kept ...]\n"), Some(17));
        for other in [
            &b"[... 17 bytes are not kept ...]\n"[..],
            b"\n[... x bytes are not kept ...]\n",
            b"\n[... 17 bytes are not kept ...]\nmore",
            b"\xff",
            b"",
        ] {
            assert_eq!(missing(other), None);
        }
    }
}
