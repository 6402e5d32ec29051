//! The tree of files: sessions, and what they are made of.

mod folder;
mod live;
mod log_file;
mod new_session;
mod order;
mod passage;
mod root;
mod session_directory;
mod wait;

pub use root::Tree;

use ninep_rs::Refusal;

use crate::Error;

/// What a client is told of an error.
fn refused(error: Error) -> Refusal {
    match error {
        Error::Unknown(_) => Refusal::not_found(),
        error => Refusal::new(error.to_string()),
    }
}

/// `data` from `offset` on, at most `count` bytes.
fn slice(data: &bytes::Bytes, offset: u64, count: u32) -> bytes::Bytes {
    let start = usize::try_from(offset).map_or(data.len(), |at| at.min(data.len()));
    let end = start.saturating_add(count as usize).min(data.len());
    data.slice(start..end)
}
