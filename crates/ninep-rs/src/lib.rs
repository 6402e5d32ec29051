//! 9P2000 with authentication: the codec, a server engine, a client engine.
//!
//! The protocol is that of section 5 of Plan 9's manual. Nothing else is spoken: no `.u`, no `.L`.
//!
//! # The codec
//! [`Tmessage`] and [`Rmessage`] are the messages, each under its line of the manual. [`Frames`] cuts a byte stream
//! into whole messages. None of it does I/O. [`Tagged`] prints a message on one line, data by their length only.
//!
//! # The server
//! [`serve`] answers one connection from a [`Service`], a tree of [`Node`]s. Opening a node gives a [`File`], the state
//! of that one fid. [`Directory`], [`Listing`], [`Text`] and [`Snapshot`] are the nodes and files that most trees need.
//! A [`Refusal`] is what a service says instead of doing something; the engine's own are in [`ename`].
//!
//! What the engine promises:
//! - Every request gets exactly one answer, or is flushed. Walk, open, stat, clunk and their like are answered in the
//!   order in which they came, reads of one fid among themselves, writes among themselves. A read that waits delays no
//!   write and no other fid. So a client may send `Twalk`, `Topen`, `Twrite` and `Tread` without waiting in between.
//! - `Tflush` and `Tclunk` cancel what waits, are always read, and count against no limit. A flushed read loses
//!   nothing: what it took is answered, or it took nothing.
//! - No peer makes it panic, allocate more than the limits of [`ServerConfig`], or spin. A handler that panics costs
//!   its caller an `Rerror`.
//! - The end of the connection drops all that it owned.
//!
//! `..` is walked as walk(5) says: the parent, and at the root of an attach the root itself. Other names that no file
//! can have are refused. Remove-on-close is not supported and refused.
//!
//! # The client
//! A [`Client`] sends requests in the order of its calls and does not wait between them: a [`Handle`]'s methods return
//! a [`Pending`] answer. Dropping that flushes the request, dropping a handle clunks its fid.
//!
//! # An example
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use ninep_rs::{
//!     AuthFile, Client, ClientConfig, Directory, Node, OpenMode, Refusal, ServerConfig, Service, Text, serve,
//! };
//!
//! struct Greeter;
//!
//! impl Service for Greeter {
//!     fn attach(&self, uname: &str, _: &str, _: Option<&dyn AuthFile>) -> Result<Arc<dyn Node>, Refusal> {
//!         let greeting = Bytes::from(format!("hello, {uname}"));
//!         let file = Text::new("greeting", 1, move || greeting.clone());
//!         Ok(Arc::new(Directory::new("/", 0, vec![Arc::new(file)])))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ninep_rs::Error> {
//! let (near, far) = tokio::io::duplex(64 * 1024);
//! let (reader, writer) = tokio::io::split(far);
//! tokio::spawn(serve(reader, writer, Arc::new(Greeter), ServerConfig::default()));
//!
//! let (reader, writer) = tokio::io::split(near);
//! let client = Client::spawn(reader, writer, ClientConfig::default());
//! let version = client.version();
//! let (root, attached) = client.attach(None, "glenda", "");
//! let (file, walked) = root.walk(["greeting"]);
//! let opened = file.open(OpenMode::READ);
//! let content = file.read(0, 100);
//! // All five are on their way: one round trip.
//! version.await?;
//! attached.await?;
//! walked.await?;
//! opened.await?;
//! assert_eq!(content.await?, "hello, glenda");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod client;
pub mod ename;
mod error;
mod files;
mod outbox;
mod refusal;
mod server;
mod trace;
mod turn;
mod wire;

pub use client::{Client, ClientConfig, Handle, Pending};
pub use error::Error;
pub use files::{Directory, Listing, Snapshot, Text};
pub use refusal::Refusal;
pub use server::{Answer, AuthFile, Created, File, Node, ServerConfig, Service, answer, serve};
pub use trace::{Direction, Trace};
pub use wire::{
    Access, Fid, Frames, IO_HEADER, MAX_WALK, OpenMode, Qid, Rmessage, Stat, Tag, Tagged, Tmessage,
    VERSION,
};
