use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ninep_rs::{AuthFile, Node, Refusal, Service};
use ollie_protocol::auth::{Handshake, LEN, OWNER};
use ollie_protocol::{Nonce, Proof, limits};

use crate::lobby::Visit;
use crate::session::Session;
use crate::tool_tree::View;
use crate::tree;

/// Wrong session or agent name, or a proof that does not match. One text for
/// all, so that a stranger learns nothing from it.
pub(crate) const FAILED: &str = "authentication failed: the connection is closed";
/// Attach without the afid of this session.
pub(crate) const REQUIRED: &str = "authentication required: send Tauth and the proof first";
/// Attach when there are too many connections.
const FULL: &str = "too many connections to this session: close one first";
/// Something else than nonce and proof was written.
const SHAPE: &str = "write 64 bytes at once: the client's nonce and its proof";

/// The door of one connection: who has proved to know the session's key gets
/// in (module [`ollie_protocol::auth`]).
pub(crate) struct Door {
    session: Arc<Session>,
    /// The nonce of the ready line, for the first handshake on standard input.
    announced: Mutex<Option<Nonce>>,
    /// The connection's place, on the socket.
    visit: Option<Visit>,
}

impl Door {
    /// The door of a connection to the socket: every nonce is fresh.
    pub(crate) fn of_socket(session: &Arc<Session>, visit: Visit) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            announced: Mutex::new(None),
            visit: Some(visit),
        })
    }

    /// The door of standard input, whose first nonce the client knows already.
    pub(crate) fn of_stdio(session: &Arc<Session>, announced: Nonce) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            announced: Mutex::new(Some(announced)),
            visit: None,
        })
    }
}

impl Service for Door {
    fn auth(&self, uname: &str, aname: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        if uname != self.session.name || !(limits::is_name(aname) || aname == OWNER) {
            return Err(Refusal::closing(FAILED));
        }
        let announced = self
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let server = match announced {
            Some(nonce) => nonce,
            None => Nonce::random().map_err(|_| Refusal::closing(FAILED))?,
        };
        Ok(Box::new(Exchange {
            session: Arc::clone(&self.session),
            uname: uname.to_owned(),
            aname: aname.to_owned(),
            server,
            answer: Mutex::new(None),
        }))
    }

    fn attach(
        &self,
        _uname: &str,
        aname: &str,
        auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        if !auth.is_some_and(AuthFile::done) {
            return Err(Refusal::closing(REQUIRED));
        }
        match &self.visit {
            Some(visit) if !visit.admit() => Err(Refusal::closing(FULL)),
            _ => Ok(tree::root(&View {
                session: Arc::clone(&self.session),
                agent: aname.into(),
            })),
        }
    }
}

/// One handshake.
struct Exchange {
    session: Arc<Session>,
    uname: String,
    aname: String,
    server: Nonce,
    /// The server's proof, once the client's was right.
    answer: Mutex<Option<Proof>>,
}

impl AuthFile for Exchange {
    fn read(&self, count: u32) -> Result<Bytes, Refusal> {
        let bytes = match *self.answer() {
            Some(proof) => *proof.as_bytes(),
            None => *self.server.as_bytes(),
        };
        if (count as usize) < LEN {
            return Err(Refusal::new("read 32 bytes at once"));
        }
        Ok(Bytes::copy_from_slice(&bytes))
    }

    fn write(&self, data: &[u8]) -> Result<u32, Refusal> {
        let (nonce, proof) = data
            .split_first_chunk::<LEN>()
            .and_then(|(nonce, rest)| Some((nonce, <&[u8; LEN]>::try_from(rest).ok()?)))
            .ok_or(Refusal::closing(SHAPE))?;
        let mut answer = self.answer();
        if answer.is_some() {
            return Err(Refusal::closing("already authenticated: attach"));
        }
        let handshake = Handshake {
            server: self.server,
            client: Nonce::from_bytes(*nonce),
            uname: &self.uname,
            aname: &self.aname,
        };
        let theirs = Proof::from_bytes(*proof);
        let key = self
            .session
            .unlock(&self.aname, |key| {
                key.client_proof(&handshake).matches(&theirs)
            })
            .ok_or(Refusal::closing(FAILED))?;
        *answer = Some(key.server_proof(&handshake));
        Ok(2 * LEN as u32)
    }

    fn done(&self) -> bool {
        self.answer().is_some()
    }
}

impl Exchange {
    fn answer(&self) -> std::sync::MutexGuard<'_, Option<Proof>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
