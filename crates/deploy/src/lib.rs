//! From a target to a ready toolsrv.
//!
//! The steps are types: a [`Plan`] says what to start, a [`Process`] is a
//! toolsrv that has answered the boot record, and its [`Channel`] is the byte
//! stream that leads to it. Whoever holds these does not know where the
//! process runs.
//!
//! [`spawn_local`] installs toolsrv from the bundle on this machine, under its
//! own content hash ([`Installed`]), and starts it.
//!
//! [`spawn_remote`] does the same on a [`Remote`] host with one ssh: a small
//! shell script, stage 0, looks for the very same file there, asks for it if
//! it is not there, and becomes it. Each [`Step`] can be watched, and the
//! [`Arrival`] says what was found and sent.
//!
//! Several sessions on a host can share one ssh connection: [`Connections`].
//!
//! [`ProcessKeeper`] does either for a session that outlives its toolsrv, and
//! with a [`Lease`] finds the toolsrv again that has outlived the connection.

#![forbid(unsafe_code)]

mod answers;
mod arrival;
mod connection;
mod connections;
mod error;
mod forward;
mod identity;
mod install;
mod keeper;
mod kept_call;
mod lease;
mod local;
mod plan;
mod process;
mod ready;
mod remote;
mod silence;
mod sockets;
mod spawn_remote;
mod ssh;
mod stage0;
mod step;
mod target;
mod trouble;
mod upload;

pub use arrival::{Arrival, Upload};
pub use connection::Connection;
pub use connections::Connections;
pub use error::{Error, SshFailure};
pub use identity::identity;
pub use install::{Installed, install};
pub use keeper::{Kept, Leased, Place, ProcessKeeper};
pub use kept_call::Hear;
pub use lease::{Following, Lease, Leases};
pub use local::spawn_local;
pub use plan::Plan;
pub use process::{Channel, Process};
pub use ready::Project;
pub use remote::{Askpass, Remote, Transport};
pub use sockets::Sockets;
pub use spawn_remote::spawn_remote;
pub use step::Step;
pub use target::Target;
pub use upload::Packing;
