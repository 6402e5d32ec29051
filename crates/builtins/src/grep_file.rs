use std::fs::File;
use std::io;
use std::path::Path;

use memchr::{memchr, memrchr};
use rustix::fs::{Mode, OFlags};

use crate::grep_lines::{Collect, Matches, Wanted};
use crate::grep_pattern::Pattern;
use crate::grep_scan::Scan;
use crate::grep_source::Source;

/// Memory for one line, or for one file where matches may span lines.
const MEMORY: usize = 64 << 20;

/// What is read at once. Where a NUL byte is in it nothing of it is searched,
/// so that what is found in a binary file depends on this (as in ripgrep).
const BUFFER: usize = 64 << 10;

/// Searches one file after the other, in the same memory.
#[derive(Debug)]
pub(crate) struct FileSearch {
    pattern: Pattern,
    wanted: Wanted,
    named: bool,
    multiline: bool,
    buffer: Vec<u8>,
}

impl FileSearch {
    /// `named` files are searched although they are binary: what follows a
    /// NUL byte is then counted and not shown.
    pub(crate) fn new(pattern: Pattern, wanted: Wanted, named: bool, multiline: bool) -> Self {
        Self {
            pattern,
            wanted,
            named,
            multiline,
            buffer: Vec::new(),
        }
    }

    /// What the file has, and what kept the search from its end.
    pub(crate) fn search(&mut self, path: &Path) -> (Matches, Option<io::Error>) {
        let mut scan = Scan::new(&self.pattern, Collect::new(self.wanted, self.named));
        // What was a file when it was found may be a FIFO by now.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let outcome = rustix::fs::open(path, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|file| {
                let mut source = Source::new(File::from(file));
                if self.multiline {
                    whole(&mut source, &mut self.buffer, &mut scan)
                } else {
                    pieces(&mut source, &mut self.buffer, &mut scan)
                }
            });
        let found = scan.found.end();
        if self.buffer.len() > BUFFER {
            // One long line must not cost memory for all files to come.
            self.buffer = Vec::new();
        }
        (found, outcome.err())
    }
}

/// Searches as much at once as the buffer holds of whole lines.
fn pieces(source: &mut Source, buffer: &mut Vec<u8>, scan: &mut Scan<'_>) -> io::Result<()> {
    buffer.resize(BUFFER, 0);
    let mut offset = 0_u64;
    // What is in the buffer, and what of that was searched.
    let (mut filled, mut searched) = (0, 0);
    let mut is_end = false;
    while !is_end {
        let lines = loop {
            if filled == buffer.len() {
                grow(buffer)?;
            }
            let room = buffer.get_mut(filled..).unwrap_or_default();
            let count = source.read(room)?;
            if count == 0 {
                is_end = true;
                break filled;
            }
            let fresh = room.get_mut(..count).unwrap_or_default();
            if let Some(at) = memchr(0, fresh) {
                let at = offset + (filled + at) as u64;
                scan.found.binary.get_or_insert(at);
                if !scan.found.named {
                    return Ok(());
                }
                // ripgrep takes them for line ends.
                fresh
                    .iter_mut()
                    .filter(|byte| **byte == 0)
                    .for_each(|byte| *byte = b'\n');
            }
            let end = memrchr(b'\n', fresh).map(|at| filled + at + 1);
            filled += count;
            if let Some(end) = end {
                break end;
            }
        };
        let text = buffer.get(..lines).unwrap_or_default();
        if !scan.lines(text, searched) {
            break;
        }
        let gone = scan.forget(text);
        buffer.copy_within(gone..filled, 0);
        offset += gone as u64;
        filled -= gone;
        searched = lines - gone;
    }
    Ok(())
}

/// Searches all of a file at once.
fn whole(source: &mut Source, buffer: &mut Vec<u8>, scan: &mut Scan<'_>) -> io::Result<()> {
    buffer.resize(BUFFER, 0);
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            grow(buffer)?;
        }
        match source.read(buffer.get_mut(filled..).unwrap_or_default())? {
            0 => break,
            count => filled += count,
        }
    }
    let text = buffer.get(..filled).unwrap_or_default();
    if !scan.found.is_binary(text, &(0..filled.min(BUFFER))) {
        scan.whole(text);
    }
    Ok(())
}

fn grow(buffer: &mut Vec<u8>) -> io::Result<()> {
    if buffer.len() >= MEMORY {
        let problem = "a line, or a file that is searched as a whole, has more than 64 MiB";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    buffer.resize(2 * buffer.len(), 0);
    Ok(())
}
