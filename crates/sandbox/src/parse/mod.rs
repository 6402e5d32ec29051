//! The local side: YAML, embedded profiles, layering.

mod explain;
mod nearest;
mod profile;
mod schema;
mod yaml;

pub use profile::{profile, profile_names};
pub use schema::schema;
pub use yaml::{Source, parse};

use crate::{Document, Error, Layered};

/// Lays documents on the embedded profile `name`: the user's file, then the
/// project's, then the session's options, each if there is one.
///
/// # Errors
/// [`Error::NoProfile`], or [`Error::TooLarge`].
pub fn layer(name: &str, documents: &[Document]) -> Result<Layered, Error> {
    let base = Layered::new(name, &profile(name)?)?;
    documents.iter().try_fold(base, Layered::with)
}
