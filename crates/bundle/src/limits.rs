//! What a bundle may cost its reader, whatever its author wrote into it.
//!
//! They are far above what ollie ships (about a dozen small files and two
//! megabytes of program for each architecture) and far below what a small
//! virtual machine has.

/// Bytes of the compressed file: 64 MiB.
pub const COMPRESSED: u64 = 64 << 20;

/// Bytes of `manifest.json`: 1 MiB.
pub const MANIFEST: u64 = 1 << 20;

/// Bytes of one file: 32 MiB.
pub const FILE: u64 = 32 << 20;

/// Bytes of all files together: 64 MiB.
pub const TOTAL: u64 = 64 << 20;

/// How many files a bundle holds at most, the manifest not counted.
pub const FILES: usize = 4096;

/// Bytes of a path: 100, the width of the name field of a tar header. A
/// longer one would need an extension entry, and a reader that accepts none
/// has no such entry to be fooled by.
pub const PATH: usize = 100;

/// Memory that the `xz` decoder may take: 16 MiB. The preset that ollie packs
/// with needs 9.
pub const DECODER: u64 = 16 << 20;
