use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::{OpenMode, Qid, Refusal, Stat, ename};

/// What reading and writing return: a boxed future that owns what it needs.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send>>;

/// An [`Answer`] that is there already.
pub fn answer<T: Send + 'static>(result: Result<T, Refusal>) -> Answer<T> {
    Box::pin(std::future::ready(result))
}

/// A new file, and it opened: what [`Node::create`] returns.
pub type Created = (Arc<dyn Node>, Arc<dyn File>);

/// A tree of files that can be attached to.
///
/// One value may serve many connections, or each connection its own: then the value knows whose it is.
pub trait Service: Send + Sync + 'static {
    /// `Tauth`: makes an authentication file for this user and tree.
    ///
    /// Default: [`ename::AUTH_NOT_REQUIRED`].
    ///
    /// # Errors
    /// What the `Rerror` says.
    fn auth(&self, uname: &str, aname: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        let _ = (uname, aname);
        Err(Refusal::new(ename::AUTH_NOT_REQUIRED))
    }

    /// `Tattach`: the root of the tree `aname` as `uname` may see it.
    ///
    /// `auth` is the file of the `afid`, which the engine has checked to be one made for the same two names; `None`
    /// for `NOFID`. The service decides whether it suffices: see [`AuthFile::done`].
    ///
    /// # Errors
    /// What the `Rerror` says; [`Refusal::closing`] is the choice for a missing proof.
    fn attach(
        &self,
        uname: &str,
        aname: &str,
        auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal>;
}

/// The file of one `Tauth`. Its methods are called in the order in which the requests came, and return at once.
///
/// A service that keeps more in it than `done` gets its own type back with `(auth as &dyn Any).downcast_ref()`.
pub trait AuthFile: Any + Send + Sync {
    /// `Tread`: what the server says next, at most `count` bytes. The offset counts nothing here.
    ///
    /// # Errors
    /// What the `Rerror` says.
    fn read(&self, count: u32) -> Result<Bytes, Refusal>;

    /// `Twrite`: what the client says next; returns how much of it was taken.
    ///
    /// # Errors
    /// What the `Rerror` says; [`Refusal::closing`] for a proof that is wrong.
    fn write(&self, data: &[u8]) -> Result<u32, Refusal>;

    /// Whether the client has proved who it is.
    fn done(&self) -> bool;
}

/// A file in the tree.
///
/// Every method returns at once: it does no I/O outside of the process and waits for nothing. What a walk, a stat or a
/// directory read shows is never changed by showing it.
pub trait Node: Send + Sync + 'static {
    /// The file's qid, the same as in [`Node::stat`].
    fn qid(&self) -> Qid;

    /// `Tstat`: its entry, the same as in the listing of its directory.
    fn stat(&self) -> Stat;

    /// One step of a `Twalk`. The engine asks directories only, checks names, and answers `..` itself.
    ///
    /// Default: [`ename::NOT_FOUND`].
    ///
    /// # Errors
    /// What the `Rerror` says, if this is the first step.
    fn walk(&self, name: &str) -> Result<Arc<dyn Node>, Refusal> {
        let _ = name;
        Err(Refusal::not_found())
    }

    /// `Topen`: what is read and written through this fid. A clone file makes its new thing here.
    ///
    /// The engine has refused what no bit of the permissions in [`Node::stat`] allows, and directories for writing.
    ///
    /// # Errors
    /// What the `Rerror` says.
    fn open(&self, mode: OpenMode) -> Result<Arc<dyn File>, Refusal>;

    /// `Tcreate` in this directory: the new file, and it opened. Default: [`ename::PERMISSION_DENIED`].
    ///
    /// # Errors
    /// What the `Rerror` says.
    fn create(&self, name: &str, perm: u32, mode: OpenMode) -> Result<Created, Refusal> {
        let _ = (name, perm, mode);
        Err(Refusal::denied())
    }

    /// `Tremove`. Default: [`ename::PERMISSION_DENIED`].
    ///
    /// # Errors
    /// What the `Rerror` says.
    fn remove(&self) -> Result<(), Refusal> {
        Err(Refusal::denied())
    }

    /// `Twstat`: all of it or nothing. Default: [`ename::PERMISSION_DENIED`].
    ///
    /// # Errors
    /// What the `Rerror` says.
    fn wstat(&self, change: &Stat) -> Result<(), Refusal> {
        let _ = change;
        Err(Refusal::denied())
    }
}

/// What one open fid reads and writes. Dropped at its clunk, or with the connection.
///
/// A future that is still waiting is dropped when its request is flushed or its fid clunked. The future of a read
/// must take bytes only in the poll that returns them: the engine sends what a finished poll returned, always, so a
/// flushed read loses nothing. Reads of one fid run one after the other, in the order in which they came; so do
/// writes; a read and a write of one fid run beside each other.
///
/// Futures are polled on the task of their connection. One that computes for long should hand that to another task.
pub trait File: Send + Sync + 'static {
    /// `Tread`: at most `count` bytes at `offset`; none means the end of the file. Default:
    /// [`ename::PERMISSION_DENIED`].
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        let _ = (offset, count);
        answer(Err(Refusal::denied()))
    }

    /// `Twrite`: returns how many bytes were taken. Default: [`ename::PERMISSION_DENIED`].
    fn write(self: Arc<Self>, offset: u64, data: Bytes) -> Answer<u32> {
        let _ = (offset, data);
        answer(Err(Refusal::denied()))
    }
}
