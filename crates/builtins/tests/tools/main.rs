//! Each tool at its boundary: arguments in, text out, files as they are after.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod call;
mod edit;
mod glob;
mod grep;
mod read;
mod write;
