use std::ops::Range;

use memchr::memchr;

use crate::chars::Pieces;
use crate::encoding::Encoding;
use crate::grep_pattern::Pattern;
use crate::grep_scan::each_line;

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

/// What is told of one file, as it is shown.
pub(crate) struct Collect {
    pub(crate) wanted: Wanted,
    /// Whether the file was named, and is searched although it is binary.
    pub(crate) named: bool,
    found: Matches,
    /// Where in the text lines begin that belong to the next match.
    pending: Option<usize>,
    /// Where the first NUL byte is.
    pub(crate) binary: Option<u64>,
}

impl Collect {
    pub(crate) fn new(wanted: Wanted, named: bool) -> Self {
        Self {
            wanted,
            named,
            found: Matches::default(),
            pending: None,
            binary: None,
        }
    }

    /// What was found, with a word on what was not looked at.
    pub(crate) fn end(self) -> Matches {
        let mut found = self.found;
        if let Some(pending) = self.pending {
            found.text.truncate(pending);
        }
        let Some(at) = self.binary else {
            return found;
        };
        if self.named {
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

    /// Takes note of the first NUL byte. True if that ends the search.
    pub(crate) fn is_binary(&mut self, text: &[u8], range: &Range<usize>) -> bool {
        if self.binary.is_none()
            && let Some(at) = memchr(0, text.get(range.clone()).unwrap_or_default())
        {
            self.binary = Some((range.start + at) as u64);
        }
        self.binary.is_some() && !self.named
    }

    /// Takes a match, which is lines. False when no more is wanted.
    pub(crate) fn matched(&mut self, pattern: &Pattern, number: u64, lines: &[u8]) -> bool {
        let each = || each_line(lines, 0..lines.len()).filter_map(|line| lines.get(line));
        let Wanted::Lines { limit, .. } = self.wanted else {
            self.found.count += each().count() as u64;
            return self.wanted == Wanted::Count;
        };
        if self.found.cuts.len() == limit {
            self.found.more = true;
            self.pending.get_or_insert(self.found.text.len());
            return false;
        }
        self.found.count += 1;
        if self.binary.is_some() {
            return false;
        }
        let cut = self.pending.take().unwrap_or(self.found.text.len());
        self.found.cuts.push(cut);
        for (line, number) in each().zip(number..) {
            let at = match pattern.find(line, 0) {
                Some(place) if line.len() > LINE => place.start,
                _ => 0,
            };
            self.add(number, ':', line, at);
        }
        true
    }

    /// Takes a line before or after a match.
    pub(crate) fn context(&mut self, number: u64, line: &[u8], before: bool) {
        if before {
            self.pending.get_or_insert(self.found.text.len());
        }
        self.add(number, '-', line, 0);
    }

    /// The next line does not follow the last one.
    pub(crate) fn gap(&mut self) {
        self.pending.get_or_insert(self.found.text.len());
        self.found.text.push_str("--\n");
    }

    fn add(&mut self, number: u64, mark: char, line: &[u8], at: usize) {
        let text = &mut self.found.text;
        text.push_str(&number.to_string());
        text.push(mark);
        show(line, at, text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
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
