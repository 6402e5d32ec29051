use std::io::{Read, Write};

use crate::arguments;
use crate::error::Error;
use crate::{edit, glob, grep, read, write};

/// Runs the tool `name` and returns the exit status of its process: 0 when it
/// did what was asked, 1 when it could not or would not (one sentence on
/// `stderr` says why), 2 when there is no such tool or its arguments make no
/// sense.
///
/// `arguments` is read to its end: one JSON object of at most 32 MiB. Relative
/// paths are relative to the working directory of the process.
pub fn run(
    name: &str,
    arguments: &mut dyn Read,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8 {
    let outcome = match name {
        "file_read" => arguments::parse(arguments).and_then(|it| read::run(&it)),
        "file_write" => arguments::parse(arguments).and_then(|it| write::run(&it)),
        "file_edit" => arguments::parse(arguments).and_then(|it| edit::run(&it)),
        "file_glob" => arguments::parse(arguments).and_then(|it| glob::run(&it)),
        "file_grep" => arguments::parse(arguments).and_then(|it| grep::run(&it)),
        other => Err(Error::NoSuchTool {
            name: other.to_owned(),
        }),
    };
    let outcome = outcome.and_then(|text| {
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|source| Error::Output { source })
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // Whoever would read this may be gone as well.
            let _ = writeln!(stderr, "{}", error.chain());
            error.status()
        }
    }
}
