//! The server and the client engine, through byte streams.
#![expect(
    clippy::unwrap_used,
    reason = "the harness is test code outside of test functions"
)]

mod basics;
mod client;
mod files;
mod flush;
mod handshake;
mod harness;
mod hostile;
mod order;
mod peers;
#[path = "../../examples/ramfs/tree.rs"]
mod ramfs;
