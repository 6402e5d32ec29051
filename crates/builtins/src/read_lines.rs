use std::fs::File;

use crate::encoding::Encoding;
use crate::error::Error;
use crate::lines::{Line, Lines};
use crate::page::Page;
use crate::read::{BYTES, Source};
use crate::version::HASHED;

/// Bytes of one line that are shown.
pub(crate) const LINE: usize = 4096;

/// How far into a file lines are counted. This takes about a second.
const COUNTED: u64 = 2 << 30;

/// Which lines are wanted and how.
#[derive(Debug)]
pub(crate) struct Part {
    /// The first one, from 1.
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    pub(crate) numbers: bool,
}

pub(crate) fn run(source: &Source<'_>, part: &Part) -> Result<String, Error> {
    let bom = Encoding::of_bom(&source.head).unwrap_or(Encoding::Utf8);
    let mut lines = Lines::new(&source.file, bom);
    let passed = skip(source, &mut lines, part.offset - 1)?;
    let kept = take(source, &mut lines, part.limit)?;
    if kept.is_empty() {
        return match part.offset {
            1 => source.note("an empty file", bom, &[]),
            offset => Err(Error::refused(
                source.name,
                format!("`offset` {offset} is behind the end: the file has {passed} lines"),
            )),
        };
    }
    let mut parts = vec![&source.head[..]];
    parts.extend(kept.iter().map(|line| &line.bytes[..]));
    let mut page = Page::new(Encoding::judge(&parts));
    for (line, number) in kept.iter().zip(part.offset..) {
        if !page.add(line, part.numbers.then_some(number)) {
            break;
        }
    }
    let shown = position(source, &mut lines, part.offset, &kept, page.lines())?;
    let note = source.note(&shown, page.encoding(), &page.remarks())?;
    Ok(page.into_text() + &note)
}

/// Which lines these are, and how to read on.
fn position(
    source: &Source<'_>,
    lines: &mut Lines<&File>,
    first: u64,
    kept: &[Line],
    shown: usize,
) -> Result<String, Error> {
    let last = first + shown as u64 - 1;
    let part = format!("lines {first}-{last}");
    let unseen = kept.get(shown..).unwrap_or_default();
    let reached = unseen.first().map_or(lines.offset(), |line| line.offset);
    if kept.iter().any(|line| !line.measured) {
        return Ok(format!("{part}; the last one is too long to be measured"));
    }
    let behind = lines.next(0).map_err(Error::io("read", source.name))?;
    if unseen.is_empty() && behind.is_none() {
        return Ok(format!("{part} of {last}"));
    }
    let next = last + 1;
    if source.size() > HASHED || lines.offset() > HASHED {
        let size = source.size();
        return Ok(format!(
            "{part}, to byte {reached} of {size}; read on with offset={next}"
        ));
    }
    let counted = last + unseen.len() as u64 + u64::from(behind.is_some());
    let total = counted + skip(source, lines, u64::MAX)?;
    Ok(format!("{part} of {total}; read on with offset={next}"))
}

/// Passes over `count` lines and says how many there were.
fn skip(source: &Source<'_>, lines: &mut Lines<&File>, count: u64) -> Result<u64, Error> {
    let mut passed = 0;
    while passed < count {
        let next = lines.next(0).map_err(Error::io("read", source.name))?;
        let Some(line) = next else {
            break;
        };
        if !line.measured || lines.offset() > COUNTED {
            let wanted = count.saturating_add(1);
            return Err(Error::refused(
                source.name,
                format!(
                    "line {wanted} lies more than {} bytes into the file; \
                     look there with `byte_offset`",
                    line.offset
                ),
            ));
        }
        passed += 1;
    }
    Ok(passed)
}

/// The lines that a result may show.
fn take(source: &Source<'_>, lines: &mut Lines<&File>, limit: u64) -> Result<Vec<Line>, Error> {
    let mut kept = Vec::new();
    let mut bytes = 0;
    while (kept.len() as u64) < limit && bytes < BYTES {
        let next = lines.next(LINE).map_err(Error::io("read", source.name))?;
        let Some(line) = next else {
            break;
        };
        bytes += line.bytes.len();
        let measured = line.measured;
        kept.push(line);
        if !measured {
            break;
        }
    }
    Ok(kept)
}
