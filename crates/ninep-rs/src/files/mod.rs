//! Files that most trees need.

mod directory;
mod listing;
mod text;

pub use {
    directory::Directory,
    listing::Listing,
    text::{Snapshot, Text},
};
