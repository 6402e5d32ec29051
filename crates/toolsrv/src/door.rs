use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ninep_rs::{AuthFile, Node, Refusal, Service};
use ollie_protocol::auth::{Handshake, LEN, OWNER};
use ollie_protocol::{Nonce, NotLetIn, Proof, limits};

use crate::lobby::Visit;
use crate::session::{Session, Side};
use crate::tool_tree::View;
use crate::tree;

/// Wrong session or agent name, or a proof that does not match. One text for
/// all, so that a stranger learns nothing from it.
pub(crate) const FAILED: &str = "authentication failed: the connection is closed";
/// Attach without the afid of this session.
pub(crate) const REQUIRED: &str = "authentication required: send Tauth and the proof first";
/// Attach when there are too many connections.
const FULL: &str = "too many connections to this session: close one first";
/// A proof where there was one.
const TWICE: &str = "already authenticated: attach";
/// Something else than nonce and proof was written.
const SHAPE: &str = "write 64 bytes at once: the client's nonce and its proof";

/// The door of one connection: who has proved to know the session's key gets
/// in (module [`ollie_protocol::auth`]).
pub(crate) struct Door {
    session: Arc<Session>,
    /// The nonce of the ready line, for the first handshake on standard input.
    announced: Mutex<Option<Nonce>>,
    /// The connection's place, on the socket.
    visit: Option<Arc<Visit>>,
    verdict: Arc<Verdict>,
}

/// What became of those who tried.
#[derive(Default)]
struct Verdict {
    reason: Mutex<Option<NotLetIn>>,
    passed: AtomicBool,
}

impl Verdict {
    /// The refusal of one, who is told `text`.
    fn refuse(&self, reason: NotLetIn, text: &'static str) -> Refusal {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        Refusal::closing(text)
    }
}

impl Door {
    /// The door of a connection to the socket: every nonce is fresh.
    pub(crate) fn of_socket(session: &Arc<Session>, visit: Arc<Visit>) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            announced: Mutex::new(None),
            visit: Some(visit),
            verdict: Arc::default(),
        })
    }

    /// The door of standard input, whose first nonce the client knows already.
    pub(crate) fn of_stdio(session: &Arc<Session>, announced: Nonce) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            announced: Mutex::new(Some(announced)),
            visit: None,
            verdict: Arc::default(),
        })
    }

    /// Why somebody was refused here, if one was.
    pub(crate) fn reason(&self) -> Option<NotLetIn> {
        let reason = self.verdict.reason.lock();
        *reason.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody was let in.
    pub(crate) fn was_passed(&self) -> bool {
        self.verdict.passed.load(Ordering::Relaxed)
    }
}

impl Service for Door {
    fn auth(&self, uname: &str, aname: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        if uname != self.session.name {
            return Err(self.verdict.refuse(NotLetIn::WrongSession, FAILED));
        }
        if !(limits::is_name(aname) || aname == OWNER) {
            return Err(self.verdict.refuse(NotLetIn::BadName, FAILED));
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
            verdict: Arc::clone(&self.verdict),
            uname: uname.to_owned(),
            aname: aname.to_owned(),
            server,
            proved: Mutex::new(None),
        }))
    }

    fn attach(
        &self,
        _uname: &str,
        aname: &str,
        auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        let exchange = auth.and_then(|auth| (auth as &dyn Any).downcast_ref::<Exchange>());
        let proved = exchange.and_then(|exchange| exchange.proved().map(|(_, side)| side));
        let Some(side) = proved else {
            return Err(self.verdict.refuse(NotLetIn::NoProof, REQUIRED));
        };
        if self.visit.as_ref().is_some_and(|visit| !visit.admit()) {
            return Err(self.verdict.refuse(NotLetIn::Full, FULL));
        }
        self.verdict.passed.store(true, Ordering::Relaxed);
        Ok(tree::root(&View {
            session: Arc::clone(&self.session),
            agent: aname.into(),
            side,
        }))
    }
}

/// One handshake.
struct Exchange {
    session: Arc<Session>,
    verdict: Arc<Verdict>,
    uname: String,
    aname: String,
    server: Nonce,
    /// The server's proof, once the client's was right, and whose key that was.
    proved: Mutex<Option<(Proof, Side)>>,
}

impl AuthFile for Exchange {
    fn read(&self, count: u32) -> Result<Bytes, Refusal> {
        let bytes = match *self.proved() {
            Some((proof, _)) => *proof.as_bytes(),
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
            .ok_or_else(|| self.verdict.refuse(NotLetIn::BadProof, SHAPE))?;
        let mut proved = self.proved();
        if proved.is_some() {
            return Err(self.verdict.refuse(NotLetIn::BadProof, TWICE));
        }
        let handshake = Handshake {
            server: self.server,
            client: Nonce::from_bytes(*nonce),
            uname: &self.uname,
            aname: &self.aname,
        };
        let theirs = Proof::from_bytes(*proof);
        let (key, side) = self
            .session
            .unlock(&self.aname, |key| {
                key.client_proof(&handshake).matches(&theirs)
            })
            .ok_or_else(|| self.verdict.refuse(NotLetIn::WrongProof, FAILED))?;
        *proved = Some((key.server_proof(&handshake), side));
        Ok(2 * LEN as u32)
    }

    fn done(&self) -> bool {
        self.proved().is_some()
    }
}

impl Exchange {
    fn proved(&self) -> std::sync::MutexGuard<'_, Option<(Proof, Side)>> {
        self.proved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
