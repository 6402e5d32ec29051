use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Client, Handle, OpenMode, Pending, Qid};
use ollie_protocol::{Ask, CallId, Stream, ToolCall, ToolResult, limits, tree};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;
use crate::events::Decoder;

/// Bytes asked for by one read. An answer rarely has more than a pipe holds,
/// 64 KiB (pipe(7)).
const READ: u32 = 256 * 1024;
/// Reads that are outstanding at first: one for the start, two for a short
/// output, one for the result, so that a short call costs one round trip from
/// beginning to end.
const READS_FIRST: usize = 4;
/// Reads that are outstanding besides in a call that has much to say: with the
/// first ones some 1.75 MiB, which keeps a link of 50 ms busy at 35 MB/s, as
/// much as an ssh channel lets through (its window is 2 MiB). One call of a
/// connection at a time has them, because toolsrv takes 64 requests.
const READS_AHEAD: usize = 24;
/// Bytes of an answer that make a call one of those.
const MUCH: usize = 16 * 1024;
/// Bytes of one write to standard input.
const WRITE: usize = 128 * 1024;
/// Writes to standard input that are outstanding at once.
const WRITES_MOST: usize = 16;

/// What happens in a call.
#[derive(Debug)]
pub enum CallEvent {
    /// The person is asked whether it may run outside of the sandbox:
    /// [`crate::ToolsrvConn::rule`].
    Ask(Box<Ask>),
    /// The process runs, with this id on the tool host.
    Started {
        /// Its process id.
        pid: u32,
    },
    /// It said something.
    Output {
        /// Where.
        stream: Stream,
        /// What.
        data: Bytes,
    },
    /// A sentence of toolsrv for the person or the model.
    Notice {
        /// The sentence.
        text: String,
    },
    /// It has ended; nothing follows.
    Result(Box<ToolResult>),
}

/// A call in flight. Dropping it and every [`Stdin`] of it cancels the call.
#[derive(Debug)]
pub struct Call {
    id: CallId,
    client: Client,
    file: Arc<Handle>,
    start: Start,
    reads: VecDeque<Pending<Bytes>>,
    ahead: Ahead,
    /// Held by a call that reads ahead.
    reading_ahead: Option<OwnedSemaphorePermit>,
    decoder: Decoder,
    ended: bool,
}

/// The right to read ahead, which the calls of a connection share.
#[derive(Debug, Clone)]
pub(crate) struct Ahead(Arc<Semaphore>);

impl Ahead {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

fn written(call: &ToolCall) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(call).map_err(|source| Error::Malformed {
        record: "tool call",
        source,
    })
}

/// The requests before the first read, until each was answered.
#[derive(Debug)]
struct Start {
    walking: Option<Pending<Vec<Qid>>>,
    opening: Option<Pending<(Qid, u32)>>,
    writing: VecDeque<Pending<u32>>,
}

/// Waits for a request that is not answered yet. Nothing is lost if this is
/// dropped while it waits.
async fn answered<T>(request: &mut Option<Pending<T>>) -> Result<(), Error> {
    if let Some(pending) = request {
        let answer = pending.await;
        *request = None;
        answer?;
    }
    Ok(())
}

impl Call {
    pub(crate) fn start(
        client: &Client,
        root: &Handle,
        ahead: &Ahead,
        call: &ToolCall,
    ) -> Result<Self, Error> {
        let json = written(call)?;
        if json.len() > limits::CALL_MAX {
            return Err(Error::Refused(format!(
                "the tool call has {} bytes, at most {} are taken: give long text on standard \
                 input",
                json.len(),
                limits::CALL_MAX
            )));
        }
        Ok(Self::begin(client, root, ahead, call, json))
    }

    /// Before it is known what the server takes; `None` if it may be more.
    pub(crate) fn start_early(
        client: &Client,
        root: &Handle,
        ahead: &Ahead,
        call: &ToolCall,
    ) -> Result<Option<Self>, Error> {
        let json = written(call)?;
        let fits = json.len() <= client.max_data() as usize;
        Ok(fits.then(|| Self::begin(client, root, ahead, call, json)))
    }

    fn begin(
        client: &Client,
        root: &Handle,
        ahead: &Ahead,
        call: &ToolCall,
        json: Vec<u8>,
    ) -> Self {
        let (file, walking) = root.walk(tree::PROC_NEW);
        let opening = file.open(OpenMode::READ_WRITE);
        let json = Bytes::from(json);
        let most = client.max_data() as usize;
        let writing = (0..json.len())
            .step_by(most)
            .map(|at| file.write(0, json.slice(at..json.len().min(at + most))))
            .collect();
        let mut new = Self {
            id: call.id.clone(),
            client: client.clone(),
            file: Arc::new(file),
            start: Start {
                walking: Some(walking),
                opening: Some(opening),
                writing,
            },
            reads: VecDeque::new(),
            ahead: ahead.clone(),
            reading_ahead: None,
            decoder: Decoder::default(),
            ended: false,
        };
        new.ask();
        new
    }

    /// The id it was given.
    #[must_use]
    pub fn id(&self) -> &CallId {
        &self.id
    }

    /// Its standard input, if the call was made with it.
    #[must_use]
    pub fn stdin(&self) -> Stdin {
        Stdin {
            client: self.client.clone(),
            file: Arc::clone(&self.file),
            writes: VecDeque::new(),
        }
    }

    /// The next event; `None` after the result. Cancel safe: what a dropped
    /// future had read comes with the next one.
    ///
    /// # Errors
    /// [`Error::Refused`] if toolsrv does not run it, [`Error::Lost`] if the
    /// connection ends before the result.
    pub async fn next(&mut self) -> Result<Option<CallEvent>, Error> {
        loop {
            if let Some(event) = self.decoder.next()? {
                if let CallEvent::Result(_) = event {
                    self.ended = true;
                }
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            self.confirm_start().await?;
            self.ask();
            let Some(read) = self.reads.front_mut() else {
                return Err(Error::Protocol("no read is outstanding"));
            };
            let bytes = read.await;
            self.reads.pop_front();
            let bytes = bytes?;
            if bytes.is_empty() {
                self.ended = true;
                if !self.decoder.is_empty() {
                    return Err(Error::Protocol("the event stream ends inside an event"));
                }
                return Err(Error::Protocol("the event stream ends without a result"));
            }
            if bytes.len() >= MUCH && self.reading_ahead.is_none() {
                self.reading_ahead = Arc::clone(&self.ahead.0).try_acquire_owned().ok();
            }
            self.decoder.push(bytes);
        }
    }

    /// The answers to what went before the first read: an error among them
    /// says more than the one of the read.
    async fn confirm_start(&mut self) -> Result<(), Error> {
        answered(&mut self.start.walking).await?;
        answered(&mut self.start.opening).await?;
        while let Some(writing) = self.start.writing.front_mut() {
            let written = writing.await;
            self.start.writing.pop_front();
            written?;
        }
        Ok(())
    }

    /// Keeps as many reads outstanding as are useful.
    fn ask(&mut self) {
        let ahead = self.reading_ahead.as_ref().map_or(0, |_| READS_AHEAD);
        while self.reads.len() < READS_FIRST + ahead {
            self.reads.push_back(self.file.read(0, READ));
        }
    }
}

/// Standard input of a call.
#[derive(Debug)]
pub struct Stdin {
    client: Client,
    file: Arc<Handle>,
    writes: VecDeque<(usize, Pending<u32>)>,
}

impl Stdin {
    /// Sends `data`. Returns when it is on its way and there is room for
    /// more: a process that reads slowly slows this down.
    ///
    /// # Errors
    /// [`Error::Refused`] once the process does not read any more.
    pub async fn write(&mut self, mut data: Bytes) -> Result<(), Error> {
        let most = WRITE.min(self.client.max_data() as usize);
        while !data.is_empty() {
            while self.writes.len() >= WRITES_MOST {
                self.settle().await?;
            }
            self.client.ready().await?;
            let piece = data.split_to(data.len().min(most));
            let length = piece.len();
            self.writes.push_back((length, self.file.write(0, piece)));
        }
        Ok(())
    }

    /// Ends the input and waits until all of it was taken.
    ///
    /// # Errors
    /// As [`Stdin::write`].
    pub async fn end(mut self) -> Result<(), Error> {
        while !self.writes.is_empty() {
            self.settle().await?;
        }
        self.file.write(0, Bytes::new()).await?;
        Ok(())
    }

    /// Waits for the oldest write.
    async fn settle(&mut self) -> Result<(), Error> {
        let Some((length, write)) = self.writes.front_mut() else {
            return Ok(());
        };
        let taken = write.await;
        let whole = *length;
        self.writes.pop_front();
        if taken? as usize != whole {
            return Err(Error::Protocol(
                "a write of standard input was taken in part",
            ));
        }
        Ok(())
    }
}
