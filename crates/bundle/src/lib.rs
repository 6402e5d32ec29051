//! The bundle: everything that ollie puts on a host, in one file.
//!
//! A bundle is a `tar` archive inside one `xz` stream. Its first entry is
//! `manifest.json`, which names every other entry with its path, mode, size
//! and SHA-256; the others follow in the manifest's order:
//!
//! ```text
//! manifest.json
//! sandbox-profiles/default.yaml
//! toolsrv/linux-x86_64/toolsrv
//! tools/file_grep/tool.yaml
//! ```
//!
//! [`Builder`] makes one. The same files give the same bytes, wherever and
//! whenever they are packed: entries are sorted, owner, mode and time are
//! fixed, and one thread of one compressor preset is used.
//!
//! [`Manifest::read`] looks at the manifest alone and decompresses nothing
//! behind it; it is what a program calls at each start. [`Bundle::open`]
//! reads and verifies all of it. Neither trusts the file: an entry that the
//! manifest does not name, a link, a device, a path that leaves the bundle, a
//! wrong size or hash is an [`Error`], and memory stays below [`limits`].
//!
//! Nothing here unpacks to a directory: a [`File`]'s contents are bytes, and
//! where they go is for the caller to decide.

mod archive;
mod builder;
mod bundle;
mod digest;
mod error;
pub mod limits;
mod manifest;
mod mode;
mod path;
mod reader;

pub use builder::Builder;
pub use bundle::{Bundle, File};
pub use digest::Digest;
pub use error::Error;
pub use manifest::{Entry, FORMAT, MANIFEST, Manifest};
pub use mode::Mode;
