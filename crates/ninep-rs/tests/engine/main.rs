//! The server and the client engine, through byte streams.
#![expect(
    clippy::unwrap_used,
    reason = "the harness is test code outside of test functions"
)]

mod basics;
mod flush;
mod handshake;
mod harness;
mod hostile;
mod order;
