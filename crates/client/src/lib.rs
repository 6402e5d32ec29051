//! A typed client of toolsrv over any byte stream.
//!
//! [`dial_toolsrv`] proves both sides to each other and returns a
//! [`ToolsrvConn`]; [`ToolsrvConn::call`] starts a tool call, whose
//! [`Call::next`] gives its events and whose [`Call::stdin`] feeds it.
//!
//! [`ToolsrvConn::start`] starts a call that outlives its connection, and
//! [`ToolsrvConn::fate`] tells what has become of one.
//!
//! [`ToolsrvConn::tools`] lists what can be called there, and [`Toolset`] is
//! what a session wants to be there: it is applied to every toolsrv that is
//! started for the session.
//!
//! The handshake is one burst where the server's nonce is known already, and
//! a call is always one: walk, open, write and the first reads leave together,
//! so the first output is one round trip away. On a new session's own stream
//! the first call leaves with the handshake ([`Opening::call`]).

#![forbid(unsafe_code)]

mod call;
mod calls;
mod conn;
mod error;
mod events;
mod tools;
mod toolset;

pub use call::{Call, CallEvent, Stdin};
pub use calls::Fate;
pub use conn::{Credentials, Opening, ToolsrvConn, dial_toolsrv, open_toolsrv};
pub use error::Error;
pub use toolset::{Offer, Rejected, Toolset};
