use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use crate::grep_lines::{Collect, Wanted};
use crate::grep_pattern::Pattern;

/// Goes through a text that comes in pieces, and tells [`Collect`] of the
/// lines that match and of those around them. All places are in the piece.
pub(crate) struct Scan<'a> {
    pattern: &'a Pattern,
    pub(crate) found: Collect,
    context: usize,
    numbered: bool,
    /// The number of the line at `counted`.
    number: u64,
    counted: usize,
    /// Where the last line ends that was told.
    told: usize,
    /// Lines in front of the piece were not told, after some that were.
    gap: bool,
    any_told: bool,
    /// Lines that are still to be told as the context of the last match.
    after: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(pattern: &'a Pattern, found: Collect) -> Self {
        let (context, numbered) = match found.wanted {
            Wanted::Lines { context, .. } => (context, true),
            Wanted::Any | Wanted::Count => (0, false),
        };
        Self {
            pattern,
            found,
            context,
            numbered,
            number: 1,
            counted: 0,
            told: 0,
            gap: false,
            any_told: false,
            after: 0,
        }
    }

    /// Searches the whole lines from `at` on; what is before was searched.
    /// False when no more is wanted.
    pub(crate) fn lines(&mut self, text: &[u8], mut at: usize) -> bool {
        while let Some(line) = self.next(text, at) {
            at = line.end;
            if !self.matched(text, line) {
                return false;
            }
        }
        self.rest(text);
        true
    }

    /// Searches a text as a whole, where a match may have many lines.
    pub(crate) fn whole(&mut self, text: &[u8]) {
        let (mut at, mut last) = (0, None::<Range<usize>>);
        while at < text.len()
            && let Some(found) = self.pattern.find(text, at)
        {
            at = found.end + usize::from(found.is_empty());
            let lines = line_start(text, 0, found.start)..match_end(text, &found);
            // Matches whose lines touch are one.
            last = match last {
                Some(before) if before.end >= lines.start => Some(before.start..lines.end),
                Some(before) => {
                    if !self.matched(text, before) {
                        return;
                    }
                    Some(lines)
                }
                None => Some(lines),
            };
        }
        // Behind the last line end there is no line.
        if let Some(lines) = last.filter(|it| !it.is_empty())
            && !self.matched(text, lines)
        {
            return;
        }
        self.rest(text);
    }

    /// Forgets the piece but for what may be told later. Returns how much of
    /// it must stay in front of the next one begins with that.
    pub(crate) fn forget(&mut self, text: &[u8]) -> usize {
        let kept = preceding(text, self.context).max(self.told.min(text.len()));
        self.count(text, kept);
        self.counted = 0;
        self.gap |= kept > self.told;
        self.told = self.told.saturating_sub(kept);
        kept
    }

    /// The next line from `at` on, which is where a line begins, that matches.
    fn next(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        if self.pattern.is_within_lines() {
            let place = self.pattern.end(text, at)?;
            let start = line_start(text, at, place);
            // A match of nothing behind the last line end is in no line.
            return (start < text.len()).then(|| start..line_end(text, place));
        }
        // What is about the beginning or end of the text is about each line.
        let mut start = at;
        while start < text.len() {
            let end = line_end(text, start);
            let line = text.get(start..end).unwrap_or_default();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if self.pattern.end(line, 0).is_some() {
                return Some(start..end);
            }
            start = end;
        }
        None
    }

    fn matched(&mut self, text: &[u8], lines: Range<usize>) -> bool {
        self.tell_after(text, lines.start);
        let between = text.get(self.told..lines.start).unwrap_or_default();
        let first = self.told + preceding(between, self.context);
        for line in each_line(text, first..lines.start) {
            self.part(line.start);
            if self.found.is_binary(text, &line) {
                return false;
            }
            let number = self.count(text, line.start);
            self.found.context(number, slice(text, &line), true);
            self.told = line.end;
        }
        self.part(lines.start);
        if self.found.is_binary(text, &lines) {
            return false;
        }
        let number = self.count(text, lines.start);
        self.told = lines.end;
        self.any_told = true;
        self.after = self.context;
        self.found
            .matched(self.pattern, number, slice(text, &lines))
    }

    /// Tells the lines after the last match as far as they go in this piece.
    fn rest(&mut self, text: &[u8]) {
        self.tell_after(text, text.len());
    }

    fn tell_after(&mut self, text: &[u8], end: usize) {
        for line in each_line(text, self.told..end) {
            if self.after == 0 || self.found.is_binary(text, &line) {
                break;
            }
            let number = self.count(text, line.start);
            self.found.context(number, slice(text, &line), false);
            self.told = line.end;
            self.after -= 1;
        }
    }

    /// A mark between lines that do not follow each other.
    fn part(&mut self, start: usize) {
        if self.context > 0 && self.any_told && (self.gap || self.told < start) {
            self.found.gap();
        }
        self.gap = false;
        self.told = start;
    }

    /// The number of the line that begins at `upto`.
    fn count(&mut self, text: &[u8], upto: usize) -> u64 {
        if self.numbered {
            let more = text.get(self.counted..upto).unwrap_or_default();
            self.number += memchr_iter(b'\n', more).count() as u64;
            self.counted = self.counted.max(upto);
        }
        self.number
    }
}

fn slice<'t>(text: &'t [u8], range: &Range<usize>) -> &'t [u8] {
    text.get(range.clone()).unwrap_or_default()
}

/// The lines of a range that begins and ends with one.
pub(crate) fn each_line(text: &[u8], range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let line = (start < range.end).then(|| start..line_end(text, start).min(range.end))?;
        start = line.end;
        Some(line)
    })
}

/// Where the line of `place` begins, which is not before `least`.
fn line_start(text: &[u8], least: usize, place: usize) -> usize {
    let before = text.get(least..place).unwrap_or_default();
    memrchr(b'\n', before).map_or(least, |at| least + at + 1)
}

/// Where the line of `place` ends, behind its line end.
fn line_end(text: &[u8], place: usize) -> usize {
    let behind = text.get(place..).unwrap_or_default();
    memchr(b'\n', behind).map_or(text.len(), |at| place + at + 1)
}

/// Where the last line of a match ends.
fn match_end(text: &[u8], found: &Range<usize>) -> usize {
    if !found.is_empty() && slice(text, found).ends_with(b"\n") {
        return found.end;
    }
    line_end(text, found.end)
}

/// Where the last `count` lines of `text` begin, which are whole.
fn preceding(text: &[u8], count: usize) -> usize {
    let mut start = text.len();
    for _ in 0..count {
        let Some(end) = start.checked_sub(1) else {
            break;
        };
        start = line_start(text, 0, end);
    }
    start
}
