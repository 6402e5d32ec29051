//! Tools as people write them.
//!
//! A directory of tools holds, for each tool, either a directory with a
//! `tool.yaml` and its scripts, or one executable script whose header comments
//! describe it. [`read`] makes [`Tool`]s of them, which are what a toolsrv is
//! told ([`Tool::definition`]) and what [`Catalogue`] compares to find what has
//! changed.
//!
//! toolsrv itself reads no YAML: the tools that it brings along are converted
//! when it is built.
//!
//! The page `docs/tools.md` describes both forms.

#![forbid(unsafe_code)]

mod catalogue;
mod directory;
mod error;
mod file;
mod header;
mod metadata;
mod tool;

pub use catalogue::{Catalogue, Change};
pub use directory::{Found, read};
pub use error::Error;
pub use tool::Tool;
