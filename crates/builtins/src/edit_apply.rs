use memchr::{memchr, memrchr};

use crate::edit::Edit;
use crate::edit_find::{Place, apart, find};
use crate::edit_nearest::nearest;

/// At most so many places of an ambiguous text are named.
const NAMED: usize = 10;

/// Makes one change, or says why it cannot be made.
pub(crate) fn apply(text: &[u8], edit: &Edit) -> Result<Vec<u8>, String> {
    if edit.old.is_empty() {
        return Err("`old` is empty; file_write writes a whole file".to_owned());
    }
    if edit.old == edit.new {
        return Err("`old` and `new` are the same".to_owned());
    }
    let places = find(text, &edit.old);
    if places.is_empty() {
        return Err(format!("`old` is not there{}", nearest(text, &edit.old)));
    }
    if places.len() > 1 && !edit.replace_all {
        return Err(ambiguous(text, &places));
    }
    let mut changed = Vec::with_capacity(text.len());
    let mut from = 0;
    for place in apart(places) {
        changed.extend_from_slice(text.get(from..place.range.start).unwrap_or_default());
        changed.extend_from_slice(&replacement(text, edit, &place));
        from = place.range.end;
    }
    changed.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(changed)
}

fn ambiguous(text: &[u8], places: &[Place]) -> String {
    let lines: Vec<String> = places
        .iter()
        .take(NAMED)
        .map(|place| line_of(text, place.range.start).to_string())
        .collect();
    format!(
        "`old` is there {} times, in lines {}{}; add lines around it until it is unique, \
         or set `replace_all`",
        places.len(),
        lines.join(", "),
        if places.len() > NAMED { ", ..." } else { "" }
    )
}

/// The number of the line that has this byte, from 1.
pub(crate) fn line_of(text: &[u8], at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    memchr::memchr_iter(b'\n', before).count() + 1
}

/// The new text with the line ends that the file has at this place. Somebody
/// who writes a carriage return means what he writes.
fn replacement(text: &[u8], edit: &Edit, place: &Place) -> Vec<u8> {
    let new = match edit.new.strip_suffix('\n') {
        Some(shorter) if place.at_end => shorter,
        _ => &edit.new,
    };
    let literal = edit.old.contains('\r') || new.contains('\r');
    if !literal && has_crlf(text, place) {
        new.replace('\n', "\r\n").into_bytes()
    } else {
        new.as_bytes().to_vec()
    }
}

/// Whether the first line end from this place on, or else the last one before
/// it, is CRLF.
fn has_crlf(text: &[u8], place: &Place) -> bool {
    let start = place.range.start;
    let behind = text.get(start..).and_then(|rest| memchr(b'\n', rest));
    let newline = match behind {
        Some(at) => Some(start + at),
        None => text.get(..start).and_then(|before| memrchr(b'\n', before)),
    };
    newline
        .and_then(|at| at.checked_sub(1))
        .and_then(|at| text.get(at))
        .is_some_and(|byte| *byte == b'\r')
}
