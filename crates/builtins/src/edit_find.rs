use std::ops::Range;

use memchr::memmem;

/// A place where the text to be replaced was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) range: Range<usize>,
    /// What was looked for ends with a newline that the file has not.
    pub(crate) at_end: bool,
}

/// Every place in `text` that says `old`, those that overlap included.
///
/// Without a carriage return in `old`, each newline of it stands for the line
/// end that the file has there, LF or CRLF. And if `old` ends with a newline,
/// it is found at the end of a file that lacks it.
pub(crate) fn find(text: &[u8], old: &str) -> Vec<Place> {
    let folded = if old.contains('\r') {
        Folded::not(text)
    } else {
        Folded::new(text)
    };
    let mut places: Vec<Place> = occurrences(&folded.text, old.as_bytes())
        .into_iter()
        .map(|start| Place {
            range: folded.original(start)..folded.original(start + old.len()),
            at_end: false,
        })
        .collect();
    if let (true, Some(shorter)) = (places.is_empty(), old.strip_suffix('\n'))
        && !shorter.is_empty()
        && !folded.text.ends_with(b"\n")
        && folded.text.ends_with(shorter.as_bytes())
    {
        let start = folded.text.len() - shorter.len();
        places.push(Place {
            range: folded.original(start)..text.len(),
            at_end: true,
        });
    }
    places
}

/// Those of the places that do not overlap, from the first on.
pub(crate) fn apart(places: Vec<Place>) -> Vec<Place> {
    let mut kept: Vec<Place> = Vec::new();
    for place in places {
        if kept
            .last()
            .is_none_or(|last| last.range.end <= place.range.start)
        {
            kept.push(place);
        }
    }
    kept
}

fn occurrences(text: &[u8], old: &[u8]) -> Vec<usize> {
    let finder = memmem::Finder::new(old);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| finder.find(rest)) {
        found.push(from + at);
        from += at + 1;
    }
    found
}

/// A text with LF for CRLF, and the way back.
#[derive(Debug)]
struct Folded {
    text: Vec<u8>,
    /// Places in `text` of the newlines that had a carriage return.
    newlines: Vec<usize>,
}

impl Folded {
    fn not(text: &[u8]) -> Self {
        Self {
            text: text.to_vec(),
            newlines: Vec::new(),
        }
    }

    fn new(original: &[u8]) -> Self {
        let mut text = Vec::with_capacity(original.len());
        let mut newlines = Vec::new();
        let mut from = 0;
        for at in memmem::find_iter(original, b"\r\n") {
            text.extend_from_slice(original.get(from..at).unwrap_or_default());
            newlines.push(text.len());
            from = at + 1;
        }
        text.extend_from_slice(original.get(from..).unwrap_or_default());
        Self { text, newlines }
    }

    /// A carriage return belongs to what follows it.
    fn original(&self, place: usize) -> usize {
        place + self.newlines.partition_point(|newline| *newline < place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str, old: &str) -> Vec<(usize, usize)> {
        find(text.as_bytes(), old)
            .into_iter()
            .map(|place| (place.range.start, place.range.end))
            .collect()
    }

    #[test]
    fn a_newline_stands_for_the_line_end_that_is_there() {
        assert_eq!(ranges("a\r\nb\nc", "a\nb\nc"), [(0, 6)]);
        assert_eq!(ranges("xa\r\ny", "\ny"), [(2, 5)]);
        assert_eq!(ranges("xa\r\ny", "a\n"), [(1, 4)]);
        assert_eq!(ranges("xa\r\ny", "y"), [(4, 5)]);
    }

    #[test]
    fn a_carriage_return_stands_for_itself() {
        assert_eq!(ranges("a\r\nb a\nb", "a\r\nb"), [(0, 4)]);
        assert!(ranges("a\nb", "a\r\nb").is_empty());
    }

    #[test]
    fn overlapping_places_are_all_found_and_told_apart() {
        assert_eq!(ranges("aaaa", "aa"), [(0, 2), (1, 3), (2, 4)]);
        let apart: Vec<_> = apart(find(b"aaaa", "aa"))
            .into_iter()
            .map(|place| (place.range.start, place.range.end))
            .collect();
        assert_eq!(apart, [(0, 2), (2, 4)]);
    }

    #[test]
    fn a_missing_last_newline_is_forgiven() {
        let places = find(b"a\r\nlast", "a\nlast\n");
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].range, 0..7);
        assert!(places[0].at_end);
        assert!(find(b"last\nx", "last\n\n").is_empty());
        assert!(find(b"last\n\n", "last\n\n\n").is_empty());
    }
}
