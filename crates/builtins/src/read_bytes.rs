use crate::binary;
use crate::chars::{Piece, Pieces};
use crate::encoding::Encoding;
use crate::error::Error;
use crate::page::odd_remark;
use crate::read::{BYTES, Source, TEXT};

/// The longest character of any encoding here, less one byte.
const REST: u64 = 3;

/// Shows the characters whose first byte lies within `limit` bytes from
/// `offset` on. So slices that meet show each character once.
pub(crate) fn run(source: &Source<'_>, offset: i64, limit: u64) -> Result<String, Error> {
    let size = source.size();
    let start = match u64::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => size.saturating_sub(offset.unsigned_abs()),
    };
    let limit = limit.min(BYTES as u64);
    let from = start.saturating_sub(REST);
    let before = (start - from) as usize;
    let window = source.bytes(from, before + limit as usize + REST as usize)?;
    if window.len() <= before && (start > 0 || size > 0) {
        return Err(Error::refused(
            source.name,
            format!("`byte_offset` {start} is at or behind the end: the file has {size} bytes"),
        ));
    }
    let shown = window.get(before..).unwrap_or_default();
    must_be_text(source, shown.get(..limit as usize).unwrap_or(shown))?;
    let encoding = judge(source, shown);
    let bom = encoding.bom().len() as u64;
    let first = (start + overlap(encoding, &window, before, start) as u64).max(bom);
    let end = start.saturating_add(limit);
    let (mut text, mut odd, mut next) = (String::new(), 0, first);
    let rest = window.get((first - from) as usize..).unwrap_or_default();
    for (piece, length) in Pieces::new(encoding, rest) {
        if next >= end || text.len() > TEXT {
            break;
        }
        next += length as u64;
        odd += usize::from(piece.is_odd());
        piece.show(&mut text);
    }
    text.push('\n');
    let mut part = format!("bytes {first} to {next} of {size}");
    if next < size {
        part.push_str(&format!("; read on with byte_offset={next}"));
    }
    let remarks: Vec<String> = odd_remark(odd).into_iter().collect();
    Ok(text + &source.note(&part, encoding, &remarks)?)
}

/// Text may have a few NUL bytes, as a log has after a crash.
fn must_be_text(source: &Source<'_>, shown: &[u8]) -> Result<(), Error> {
    let wide = Encoding::of_bom(&source.head).is_some_and(Encoding::is_wide);
    let zeros = memchr::memchr_iter(0, shown).count();
    if wide || zeros * 16 <= shown.len() {
        return Ok(());
    }
    Err(Error::refused(
        source.name,
        format!(
            "no text: {zeros} of the {} bytes there are NUL; the file has {} bytes",
            shown.len(),
            source.size()
        ),
    ))
}

/// The encoding by the beginning of the file, if that is text, and by what is
/// to be shown.
fn judge(source: &Source<'_>, shown: &[u8]) -> Encoding {
    // A character that began earlier is no reason against UTF-8.
    let split = shown
        .iter()
        .take(REST as usize)
        .take_while(|byte| (0x80..0xc0).contains(*byte))
        .count();
    let shown = shown.get(split..).unwrap_or_default();
    let head = match binary::must_be_text(source) {
        Ok(()) => &source.head[..],
        Err(_) => &[],
    };
    Encoding::judge(&[head, shown])
}

/// How many bytes at `start` belong to a character that began before it.
fn overlap(encoding: Encoding, window: &[u8], before: usize, start: u64) -> usize {
    (1..=before)
        .filter(|back| !encoding.is_wide() || (start - *back as u64).is_multiple_of(2))
        .filter_map(|back| {
            let rest = window.get(before - back..)?;
            let (piece, length) = Pieces::new(encoding, rest).next()?;
            let whole = encoding.is_wide() || matches!(piece, Piece::Char(_));
            whole.then(|| length.saturating_sub(back))
        })
        .max()
        .unwrap_or(0)
}
