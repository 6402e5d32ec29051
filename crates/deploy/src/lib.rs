//! From a target to a ready toolsrv.
//!
//! The steps are types: a [`Plan`] says what to start, a [`Process`] is a
//! toolsrv that has answered the boot record, and its [`Channel`] is the byte
//! stream that leads to it. Whoever holds these does not know where the
//! process runs.
//!
//! [`spawn_local`] installs toolsrv from the bundle on this machine, under its
//! own content hash ([`Installed`]), and starts it.

#![forbid(unsafe_code)]

mod error;
mod install;
mod local;
mod plan;
mod process;
mod ready;

pub use error::Error;
pub use install::{Installed, install};
pub use local::spawn_local;
pub use plan::Plan;
pub use process::{Channel, Process};
