//! Sessions of an agent as a tree of files, kept over restarts.
//!
//! [`Sessions`] are all sessions of a process; a [`Session`] is one. A
//! [`House`] is what they need of the world around them: the [`Store`], the
//! model back ends, and the ground on which a session's tools stand. Whether
//! that is this machine or another nobody in this crate knows.
//!
//! A [`Tree`] shows them over 9P, for any number of connections at once.
//! docs/sessions.md describes each file.

#![forbid(unsafe_code)]

mod catalogue;
mod chat;
mod error;
mod hands;
mod house;
mod id;
mod link;
mod log;
mod outcome;
mod persona;
mod plain;
mod prime;
mod question;
mod record;
mod session;
mod sessions;
mod settings;
mod states;
mod store;
mod tree;
mod user_tools;

pub use chat::ruled;
pub use error::Error;
pub use house::{
    AboutBackend, BackendFacts, Configured, ConfiguredNow, GroundOf, House, OpenBackend, Tell,
};
pub use id::SessionId;
pub use question::question;
pub use session::Session;
pub use sessions::Sessions;
pub use settings::Settings;
pub use store::Store;
pub use tree::Tree;
