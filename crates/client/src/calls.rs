use bytes::Bytes;
use ninep_rs::{Handle, OpenMode};
use ollie_protocol::{Ask, CallId, CallStatus, Ruling, ToolCall, ToolResult, tree};

use crate::events::Decoder;
use crate::{CallEvent, Error, ToolsrvConn};

/// The longest log that is read whole, in bytes: more is never kept.
const LOG_MAX: usize = 2 * ollie_protocol::limits::LOG_KEEP;

/// Bytes asked for by one read of a log.
const PIECE: u32 = 64 * 1024;

/// What has become of a call whose connection was lost.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fate {
    /// It has ended, and this is how.
    Finished(Box<ToolResult>),
    /// It still runs, or is just being ended because its client went away.
    Running(Box<CallStatus>),
    /// It was never started, and from now on toolsrv refuses to start it.
    NeverStarted,
    /// It was started and has ended; so many calls ended since that its result
    /// is not kept any more.
    Forgotten,
}

/// Calls that do not belong to a reader of their events.
impl ToolsrvConn {
    /// Starts a call that goes on by itself, whatever becomes of this
    /// connection. Returns once it has begun.
    ///
    /// # Errors
    /// [`Error::Refused`] if toolsrv does not start it.
    pub async fn start(&self, call: &ToolCall) -> Result<(), Error> {
        let json = serde_json::to_vec(call).map_err(|source| Error::Malformed {
            record: "tool call",
            source,
        })?;
        let (file, walking) = self.root().walk([tree::PROC, tree::NEW_BG]);
        let opening = file.open(OpenMode::READ_WRITE);
        let most = self.max_data();
        let writes: Vec<_> = json
            .chunks(most)
            .map(|piece| file.write(0, piece.to_vec()))
            .collect();
        let reading = file.read(0, 256);
        walking.await?;
        opening.await?;
        for write in writes {
            write.await?;
        }
        if reading.await?.trim_ascii() == call.id.as_str().as_bytes() {
            Ok(())
        } else {
            Err(Error::Protocol("another id than that of the call"))
        }
    }

    /// Every call that toolsrv remembers, oldest first.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a record is not what this side knows.
    pub async fn calls(&self) -> Result<Vec<CallStatus>, Error> {
        let index = self
            .read_file(&format!("{}/{}", tree::PROC, tree::INDEX))
            .await?;
        index
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(parse)
            .collect()
    }

    /// One call as it stands now.
    ///
    /// # Errors
    /// [`Error::Refused`] if toolsrv remembers none of this id.
    pub async fn status(&self, id: &CallId) -> Result<CallStatus, Error> {
        parse(&self.read_file(&path(id, tree::CALL_STATUS)).await?)
    }

    /// Waits for a call's result.
    ///
    /// # Errors
    /// As [`ToolsrvConn::status`].
    pub async fn wait(&self, id: &CallId) -> Result<ToolResult, Error> {
        let bytes = self.read_file(&path(id, tree::WAIT)).await?;
        serde_json::from_slice(&bytes).map_err(|source| Error::Malformed {
            record: "result",
            source,
        })
    }

    /// A call's log, `stdout`, `stderr` or `output`, from `offset` on; waits
    /// for the end of the call. Where bytes were dropped a line says so.
    ///
    /// # Errors
    /// As [`ToolsrvConn::status`].
    pub async fn log(&self, id: &CallId, log: &'static str, offset: u64) -> Result<Bytes, Error> {
        let file = self.open(&path(id, log)).await?;
        Ok(file.read_to_end(offset, LOG_MAX).await?)
    }

    /// The next piece of a call's log, from `offset` on; waits until there is
    /// one. Empty at the end of the call.
    ///
    /// # Errors
    /// As [`ToolsrvConn::status`].
    pub async fn log_piece(
        &self,
        id: &CallId,
        log: &'static str,
        offset: u64,
    ) -> Result<Bytes, Error> {
        let file = self.open(&path(id, log)).await?;
        Ok(file.read(offset, PIECE).await?)
    }

    /// The length of a call's log so far, kept or not.
    ///
    /// # Errors
    /// As [`ToolsrvConn::status`].
    pub async fn log_length(&self, id: &CallId, log: &'static str) -> Result<u64, Error> {
        let path = path(id, log);
        let (file, walking) = self.root().walk(path.split('/'));
        walking.await?;
        Ok(file.stat().await?.length)
    }

    /// Writes to a call's standard input. Returns when it was taken.
    ///
    /// # Errors
    /// [`Error::Refused`] if the call has none, or does not read it any more.
    pub async fn feed(&self, id: &CallId, data: impl Into<Bytes>) -> Result<(), Error> {
        self.put(&path(id, tree::STDIN), data).await
    }

    async fn put(&self, path: &str, data: impl Into<Bytes>) -> Result<(), Error> {
        let (file, walking) = self.root().walk(path.split('/'));
        let opening = file.open(OpenMode::WRITE);
        walking.await?;
        opening.await?;
        let mut data = data.into();
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(self.max_data()));
            file.write(0, piece).await?;
        }
        Ok(())
    }

    /// What a call asks of the person.
    ///
    /// # Errors
    /// [`Error::Refused`] if it asks nothing.
    pub async fn asked(&self, id: &CallId) -> Result<Ask, Error> {
        let mut decoder = Decoder::default();
        decoder.push(self.read_file(&path(id, tree::ASK)).await?);
        match decoder.next()? {
            Some(CallEvent::Ask(ask)) => Ok(*ask),
            _ => Err(Error::Protocol("a question that is none")),
        }
    }

    /// The person's answer to what a call asks.
    ///
    /// # Errors
    /// [`Error::Refused`] if this is no connection of the person's side, the
    /// ruling is about something else, or it is decided already.
    pub async fn rule(&self, ruling: &Ruling) -> Result<(), Error> {
        self.put(&path(&ruling.id, tree::ASK), ruling.to_string())
            .await
    }

    /// What has become of a call that was written on a connection which was
    /// lost. The answer is definite: what is said to have never started never
    /// starts.
    ///
    /// # Errors
    /// [`Error::Lost`]; then ask again on the next connection.
    pub async fn fate(&self, id: &CallId) -> Result<Fate, Error> {
        match self.command(&format!("{} {id}", tree::BAR)).await {
            Ok(()) => return Ok(Fate::NeverStarted),
            // The id was used before.
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        match self.status(id).await {
            Ok(CallStatus {
                result: Some(result),
                ..
            }) => Ok(Fate::Finished(result)),
            Ok(status) => Ok(Fate::Running(Box::new(status))),
            Err(Error::Refused(_)) => Ok(Fate::Forgotten),
            Err(error) => Err(error),
        }
    }

    /// Lets the session live on for `lease` without a client, and its
    /// background calls with it; for no time at all is the default. In whole
    /// seconds, at most [`ollie_protocol::limits::LEASE_MAX`].
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason where that host ends a user's
    /// processes at logout.
    pub async fn lease(&self, lease: std::time::Duration) -> Result<(), Error> {
        let word = format!("{} {}", tree::LEASE, lease.as_secs());
        self.command(&word).await
    }

    async fn open(&self, path: &str) -> Result<Handle, Error> {
        let (file, walking) = self.root().walk(path.split('/'));
        let opening = file.open(OpenMode::READ);
        walking.await?;
        opening.await?;
        Ok(file)
    }
}

fn path(id: &CallId, file: &str) -> String {
    format!("{}/{id}/{file}", tree::PROC)
}

fn parse(json: &[u8]) -> Result<CallStatus, Error> {
    serde_json::from_slice(json).map_err(|source| Error::Malformed {
        record: "status",
        source,
    })
}
