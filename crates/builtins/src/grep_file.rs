use std::fs::File;
use std::io;
use std::path::Path;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};
use rustix::fs::{Mode, OFlags};

use crate::chars::Pieces;
use crate::encoding::Encoding;
use crate::grep_pattern::Pattern;

/// Memory for one line, or for one file where matches may span lines.
const MEMORY: usize = 64 << 20;

/// What a searcher reads at once, unless a line is longer (grep-searcher).
const BUFFER: u64 = 64 << 10;

/// Bytes of one line that are shown.
const LINE: usize = 1000;

/// How many of them may stand in front of the match.
const BEFORE: usize = 300;

/// What is wanted of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Lines, with so many around each match; the first matches only.
    Lines { context: usize, limit: usize },
    /// Whether there is a match.
    Any,
    /// How many lines match.
    Count,
}

/// What one file has.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// The lines, each with its number.
    pub(crate) text: String,
    /// Where in `text` the part of each match begins.
    pub(crate) cuts: Vec<usize>,
    /// Matching lines that were counted.
    pub(crate) count: u64,
    /// There are more than the limit.
    pub(crate) more: bool,
    /// What the text does not say.
    pub(crate) remark: Option<String>,
}

/// Searches one file after the other, in the same memory.
#[derive(Debug)]
pub(crate) struct FileSearch {
    pattern: Pattern,
    wanted: Wanted,
    kind: SearcherBuilder,
    searcher: Searcher,
}

impl FileSearch {
    /// `named` files are searched although they are binary: what follows a
    /// NUL byte is then counted and not shown.
    pub(crate) fn new(pattern: Pattern, wanted: Wanted, named: bool, multiline: bool) -> Self {
        let binary = if named {
            BinaryDetection::convert(0)
        } else {
            BinaryDetection::quit(0)
        };
        let context = match wanted {
            Wanted::Lines { context, .. } => context,
            Wanted::Any | Wanted::Count => 0,
        };
        let mut kind = SearcherBuilder::new();
        kind.line_terminator(LineTerminator::crlf())
            .line_number(matches!(wanted, Wanted::Lines { .. }))
            .before_context(context)
            .after_context(context)
            .binary_detection(binary)
            .multi_line(multiline)
            .heap_limit(Some(MEMORY));
        Self {
            pattern,
            wanted,
            searcher: kind.build(),
            kind,
        }
    }

    /// What the file has, and what kept the search from its end.
    pub(crate) fn search(&mut self, path: &Path) -> (Matches, Option<io::Error>) {
        let mut sink = Collect {
            pattern: &self.pattern,
            wanted: self.wanted,
            found: Matches::default(),
            pending: None,
            binary: None,
            bytes: 0,
        };
        // What was a file when it was found may be a FIFO by now.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let outcome = rustix::fs::open(path, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|file| {
                self.searcher
                    .search_file(&self.pattern, &File::from(file), &mut sink)
            });
        let may_have_grown = sink.found.count > 0
            || sink.binary.is_some()
            || sink.bytes > BUFFER
            || outcome.is_err();
        let found = sink.end(&self.searcher);
        if may_have_grown {
            // A long line makes the buffer larger for good, and whether a NUL
            // byte is seen before a match depends on the buffer: what is found
            // in a file must not depend on the one before it.
            self.searcher = self.kind.build();
        }
        (found, outcome.err())
    }
}

struct Collect<'a> {
    pattern: &'a Pattern,
    wanted: Wanted,
    found: Matches,
    /// Where in the text lines begin that belong to the next match.
    pending: Option<usize>,
    binary: Option<u64>,
    /// How much was searched.
    bytes: u64,
}

impl Collect<'_> {
    fn end(self, searcher: &Searcher) -> Matches {
        let mut found = self.found;
        if let Some(pending) = self.pending {
            found.text.truncate(pending);
        }
        let Some(at) = self.binary else {
            return found;
        };
        if searcher.binary_detection().quit_byte().is_none() {
            if found.count > 0 {
                found.remark = Some(format!("binary file, NUL byte around offset {at}"));
            }
        } else if matches!(self.wanted, Wanted::Lines { .. }) {
            let remark = format!("binary file, not searched behind the NUL byte around {at}");
            found.remark = (found.count > 0).then_some(remark);
        } else {
            // A list of files is about text files only.
            found.count = 0;
        }
        found
    }

    fn add(&mut self, number: Option<u64>, mark: char, line: &[u8], at: usize) {
        let text = &mut self.found.text;
        text.push_str(&number.unwrap_or_default().to_string());
        text.push(mark);
        show(line, at, text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let Wanted::Lines { limit, .. } = self.wanted else {
            self.found.count += found.lines().count() as u64;
            return Ok(self.wanted == Wanted::Count);
        };
        if self.found.cuts.len() == limit {
            self.found.more = true;
            self.pending.get_or_insert(self.found.text.len());
            return Ok(false);
        }
        self.found.count += 1;
        if self.binary.is_some() && searcher.binary_detection().convert_byte().is_some() {
            return Ok(false);
        }
        let cut = self.pending.take().unwrap_or(self.found.text.len());
        self.found.cuts.push(cut);
        for (line, past) in found.lines().zip(0..) {
            let at = match self.pattern.find(line) {
                Ok(Some(place)) if line.len() > LINE => place.start(),
                _ => 0,
            };
            let number = found.line_number().map(|first| first + past);
            self.add(number, ':', line, at);
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if *context.kind() == SinkContextKind::Before {
            self.pending.get_or_insert(self.found.text.len());
        }
        self.add(context.line_number(), '-', context.bytes(), 0);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.pending.get_or_insert(self.found.text.len());
        self.found.text.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> io::Result<bool> {
        self.binary.get_or_insert(offset);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = self.binary.or(finish.binary_byte_offset());
        self.bytes = finish.byte_count();
        Ok(())
    }
}

/// Appends a line, of a long one the part around `at`. Bytes that are not
/// UTF-8 are shown as windows-1252 or by their value.
fn show(line: &[u8], at: usize, out: &mut String) {
    if line.len() <= LINE
        && let Ok(text) = std::str::from_utf8(line)
    {
        out.push_str(text);
        return;
    }
    let is_inside = |place: usize| line.get(place).is_some_and(|byte| byte & 0xc0 == 0x80);
    let (mut start, mut end) = (0, line.len());
    if line.len() > LINE {
        start = at.saturating_sub(BEFORE).min(line.len() - LINE);
        end = start + LINE;
        // No character is longer than four bytes.
        start += (0..3).take_while(|step| is_inside(start + step)).count();
        end -= (0..3).take_while(|step| is_inside(end - step)).count();
    }
    if start > 0 {
        out.push_str(&format!("[... {start} bytes] "));
    }
    let shown = line.get(start..end).unwrap_or_default();
    Pieces::new(Encoding::judge(&[b"", shown]), shown).for_each(|(piece, _)| piece.show(out));
    if end < line.len() {
        out.push_str(&format!(" [... {} bytes]", line.len() - end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &[u8], at: usize) -> String {
        let mut out = String::new();
        show(line, at, &mut out);
        out
    }

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let line = format!("{}needle{}", "a".repeat(5000), "b".repeat(5000));
        let text = shown(line.as_bytes(), 5000);
        assert_eq!(
            text,
            format!(
                "[... 4700 bytes] {}needle{} [... 4306 bytes]",
                "a".repeat(300),
                "b".repeat(694)
            )
        );
    }

    #[test]
    fn cutting_splits_no_character() {
        let line = "ä→😀".repeat(1000);
        for at in 0..line.len() {
            let text = shown(line.as_bytes(), at);
            assert!(!text.contains("\\x") && !text.contains('Ã'), "{at}: {text}");
        }
    }

    #[test]
    fn latin_1_is_shown_as_text() {
        assert_eq!(shown(b"gr\xf6\xdfer\n", 0), "größer\n");
    }
}
