use std::io::{self, Read};

use crate::encoding::Encoding;

const BLOCK: usize = 64 << 10;

/// A line longer than this is not measured to its end.
pub(crate) const LONGEST: u64 = 64 << 20;

/// Takes a file apart into lines, in memory that does not depend on it.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    encoding: Encoding,
    block: Vec<u8>,
    /// What of the block was used.
    used: usize,
    /// Where in the file the unused part of the block begins.
    offset: u64,
}

/// One line, its end included.
#[derive(Debug)]
pub(crate) struct Line {
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Its beginning.
    pub(crate) bytes: Vec<u8>,
    /// How many bytes it has.
    pub(crate) length: u64,
    /// Whether all of it was measured; otherwise it is longer than
    /// [`LONGEST`].
    pub(crate) measured: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(reader: R, encoding: Encoding) -> Self {
        Self {
            reader,
            encoding,
            block: Vec::new(),
            used: 0,
            offset: 0,
        }
    }

    /// How much of the file was gone through.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line with no more than `keep` of its bytes.
    pub(crate) fn next(&mut self, keep: usize) -> io::Result<Option<Line>> {
        let mut line = Line {
            offset: self.offset,
            bytes: Vec::new(),
            length: 0,
            measured: true,
        };
        loop {
            if self.used == self.block.len() {
                self.fill()?;
            }
            let rest = self.block.get(self.used..).unwrap_or_default();
            if rest.is_empty() {
                return Ok((line.length > 0).then_some(line));
            }
            let end = newline(self.encoding, rest);
            let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
            let room = keep.saturating_sub(line.bytes.len()).min(part.len());
            line.bytes
                .extend_from_slice(part.get(..room).unwrap_or(part));
            line.length += part.len() as u64;
            self.used += part.len();
            self.offset += part.len() as u64;
            if end.is_some() {
                return Ok(Some(line));
            }
            if line.length > LONGEST {
                line.measured = false;
                return Ok(Some(line));
            }
        }
    }

    /// Fills the block as far as the file goes, so that no code unit lies
    /// across its end.
    fn fill(&mut self) -> io::Result<()> {
        self.used = 0;
        self.block.clear();
        (&mut self.reader)
            .take(BLOCK as u64)
            .read_to_end(&mut self.block)
            .map(drop)
    }
}

/// Where the first line ends, behind its newline.
fn newline(encoding: Encoding, bytes: &[u8]) -> Option<usize> {
    if !encoding.is_wide() {
        return memchr::memchr(b'\n', bytes).map(|at| at + 1);
    }
    let units = bytes.as_chunks::<2>().0;
    let at = units
        .iter()
        .position(|unit| encoding.wide(*unit) == u16::from(b'\n'))?;
    Some(2 * (at + 1))
}
