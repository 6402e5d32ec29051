//! The client engine: a [`Client`] speaks to one server over one stream.

mod config;
mod driver;
mod handle;
mod pending;
mod shared;
mod tags;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

pub use {config::ClientConfig, handle::Handle, pending::Pending};

use crate::{Error, Fid, Qid, Rmessage, Tmessage, VERSION};
use driver::{Driver, LINGER};
use shared::Shared;
use tags::Slot;

/// One end of a connection, cheap to clone.
///
/// When the last clone, [`Handle`] and [`Pending`] is gone, what was queued is sent, for a second at most, and the
/// stream is closed.
#[derive(Clone, Debug)]
pub struct Client(Arc<Lifeline>);

/// Held by all that need the connection; its drop ends it.
#[derive(Debug)]
pub(crate) struct Lifeline(Arc<Shared>);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.hang_up();
    }
}

impl Lifeline {
    fn submit<T>(
        self: &Arc<Self>,
        message: &Tmessage,
        asked: u32,
        understand: fn(Rmessage, u32) -> Result<T, Error>,
    ) -> Pending<T> {
        let submitted = self.0.submit(message, Slot::waiting(None), true);
        Pending::new(self, submitted, asked, understand)
    }

    /// The last request of a fid, after whose answer the number may be used anew.
    fn submit_last<T>(
        self: &Arc<Self>,
        message: &Tmessage,
        fid: Fid,
        understand: fn(Rmessage, u32) -> Result<T, Error>,
    ) -> Pending<T> {
        let submitted = self.0.submit(message, Slot::waiting(Some(fid)), false);
        Pending::new(self, submitted, 0, understand).going_on()
    }

    fn clunk(&self, fid: Fid) {
        let slot = Slot::Detached { frees: Some(fid) };
        // The only failure is a closed connection, which has no fids any more.
        let _ = self.0.submit(&Tmessage::Clunk { fid }, slot, false);
    }

    async fn ready(&self) -> Result<(), Error> {
        poll_fn(|cx| self.0.poll_room(cx)).await
    }
}

impl Client {
    /// A client over this stream, driven by a task of the current tokio runtime, which needs its time driver.
    ///
    /// Nothing is sent yet; [`Client::version`] comes first.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`tokio::spawn`] does.
    pub fn spawn<R, W>(reader: R, writer: W, config: ClientConfig) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared::new(config));
        let mut driver = Driver::new(Arc::clone(&shared), reader, writer);
        tokio::spawn(async move {
            let error = poll_fn(|cx| driver.poll(cx)).await;
            // The server may be gone already; what it should know it was told.
            let _ = tokio::time::timeout(LINGER, driver.end(error).shutdown()).await;
        });
        Client(Arc::new(Lifeline(shared)))
    }

    /// `Tversion`: agrees on 9P2000 and returns the longest message. It ends every earlier fid of the connection.
    ///
    /// Until it is answered, messages are kept to 8192 bytes.
    pub fn version(&self) -> Pending<u32> {
        let message = Tmessage::Version {
            msize: self.0.0.config.msize,
            version: VERSION.to_owned(),
        };
        let pending = self.0.submit(&message, 0, |answer, _| match answer {
            Rmessage::Version { msize, version } if version == VERSION => Ok(msize),
            Rmessage::Version { version, .. } => Err(Error::Version(version)),
            _ => Err(Error::Protocol(
                "an answer of another type than its request",
            )),
        });
        pending.going_on()
    }

    /// `Tauth`: a file to prove with who one is; read and write it like any other, without opening it.
    pub fn auth(&self, uname: &str, aname: &str) -> (Handle, Pending<Qid>) {
        let handle = Handle::new(&self.0);
        let message = Tmessage::Auth {
            afid: handle.fid(),
            uname: uname.to_owned(),
            aname: aname.to_owned(),
        };
        let pending = self.0.submit(&message, 0, |answer, _| match answer {
            Rmessage::Auth { aqid } => Ok(aqid),
            _ => Err(Error::Protocol(
                "an answer of another type than its request",
            )),
        });
        (handle, pending)
    }

    /// `Tattach`: the root of the tree `aname`, with the authentication file if one was needed.
    pub fn attach(
        &self,
        auth: Option<&Handle>,
        uname: &str,
        aname: &str,
    ) -> (Handle, Pending<Qid>) {
        let handle = Handle::new(&self.0);
        let message = Tmessage::Attach {
            fid: handle.fid(),
            afid: auth.map_or(Fid::NONE, Handle::fid),
            uname: uname.to_owned(),
            aname: aname.to_owned(),
        };
        let pending = self.0.submit(&message, 0, |answer, _| match answer {
            Rmessage::Attach { qid } => Ok(qid),
            _ => Err(Error::Protocol(
                "an answer of another type than its request",
            )),
        });
        (handle, pending)
    }

    /// Any request but `Tflush`, which is sent when a [`Pending`] is dropped. It is queued before this returns.
    ///
    /// Handles number their fids from 0 up; take other numbers.
    pub fn submit(&self, message: &Tmessage) -> Pending<Rmessage> {
        if let Tmessage::Flush { .. } = message {
            let refused = Err(Error::Protocol("a request is flushed by dropping it"));
            return Pending::new(&self.0, refused, 0, |answer, _| Ok(answer));
        }
        self.0.submit(message, 0, |answer, _| Ok(answer))
    }

    /// Waits until a request can be queued.
    ///
    /// # Errors
    /// [`Error::Closed`]
    pub async fn ready(&self) -> Result<(), Error> {
        self.0.ready().await
    }

    /// The most bytes that one read or write moves: msize less 24.
    #[must_use]
    pub fn max_data(&self) -> u32 {
        self.0.0.max_data()
    }

    /// When the last bytes came from the server; before the first, when the client was made.
    #[must_use]
    pub fn last_heard(&self) -> Instant {
        self.0.0.last_heard()
    }

    /// Waits until the connection is over, and tells why.
    pub async fn closed(&self) -> Arc<Error> {
        poll_fn(|cx| self.0.0.poll_closed(cx)).await
    }
}
