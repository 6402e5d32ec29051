//! The file tools that toolsrv carries with it: `file_read`, `file_write`,
//! `file_edit`, `file_glob` and `file_grep`.
//!
//! toolsrv runs each as a process of its own inside the sandbox
//! (`toolsrv builtin NAME`), so they need no program on the host and can do
//! no more than any other tool. [`run`] is all of it: arguments are one JSON
//! object, the result is text for a model, an error is one sentence, and the
//! status says whose fault it was. What each tool is for and what its
//! arguments are stands in `tools/NAME/tool.yaml`.
//!
//! Three things hold for all of them:
//!
//! - Nothing but a regular file is opened, and never in a way that waits: a
//!   FIFO, a device or a directory is refused by its kind.
//! - A path is shown, and taken back, as git shows it: as it is, or in double
//!   quotes with escapes where it has bytes that text has not.
//! - Memory and output are bounded whatever the file is.
//!
//! [`run`]: run()

#![forbid(unsafe_code)]

mod arguments;
mod attributes;
mod binary;
mod chars;
mod edit;
mod edit_apply;
mod edit_diff;
mod edit_find;
mod edit_nearest;
mod encoding;
mod error;
mod glob;
mod grep;
mod grep_file;
mod grep_lines;
mod grep_pattern;
mod grep_results;
mod grep_scan;
mod grep_source;
mod in_place;
mod kind;
mod lines;
mod name;
mod page;
mod read;
mod read_bytes;
mod read_lines;
mod replace;
mod run;
mod text;
mod version;
mod walk;
mod write;

pub use run::run;
