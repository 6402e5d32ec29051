//! Text that arrives in pieces, and text that is too long.

/// Makes text of pieces that may end inside a character.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character, at most three bytes.
    begun: Vec<u8>,
}

impl Decoder {
    /// The text of this piece, as far as it is whole. What is not UTF-8
    /// becomes U+FFFD.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_begun(invalid) {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// What is left when nothing follows.
    pub(crate) fn end(&mut self) -> &'static str {
        if std::mem::take(&mut self.begun).is_empty() {
            ""
        } else {
            "\u{fffd}"
        }
    }
}

/// Whether these bytes are the beginning of a character that further bytes
/// may complete (RFC 3629, section 4). [`std::str::Utf8Error::error_len`] is
/// `None` exactly then.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// `text`, or its beginning and its end with a sentence between them that says
/// how much is missing. The result is at most `most` bytes and that sentence
/// long; no character is split.
pub(crate) fn cut_middle(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    // Where output is long its end tells how it went, its beginning what it
    // was about.
    let head = boundary(&text, most / 2, false);
    let tail = boundary(&text, text.len().saturating_sub(most - most / 2), true);
    let left_out = tail.saturating_sub(head);
    let (head, tail) = (
        text.get(..head).unwrap_or_default(),
        text.get(tail..).unwrap_or_default(),
    );
    format!("{head}\n[{left_out} bytes are left out here]\n{tail}")
}

/// The last `most` bytes of `text` at most, from a character on.
pub(crate) fn keep_end(text: &mut String, most: usize) {
    if text.len() > most {
        let from = boundary(text, text.len().saturating_sub(most), true);
        text.drain(..from);
    }
}

/// The place at `at`, or the nearest one after it or before it, where a
/// character begins.
fn boundary(text: &str, at: usize, after: bool) -> usize {
    let places = |at: &usize| text.is_char_boundary(*at);
    if after {
        (at..=text.len()).find(places).unwrap_or(text.len())
    } else {
        (0..=at.min(text.len())).rev().find(places).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn pieces_give_the_text_of_the_whole(bytes: Vec<u8>, cuts: Vec<proptest::sample::Index>) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let mut text: String = cuts
                .windows(2)
                .map(|piece| decoder.push(&bytes[piece[0]..piece[1]]))
                .collect();
            text.push_str(decoder.end());
            proptest::prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn what_is_cut_keeps_both_ends(text in ".{0,200}", most in 0..200_usize) {
            let cut = cut_middle(text.clone(), most);
            if text.len() <= most {
                proptest::prop_assert_eq!(cut, text);
            } else {
                let (head, rest) = cut.split_once("\n[").unwrap();
                let (number, tail) = rest.split_once(" bytes are left out here]\n").unwrap();
                proptest::prop_assert!(text.starts_with(head) && text.ends_with(tail));
                proptest::prop_assert!(head.len() + tail.len() <= most);
                let missing: usize = number.parse().unwrap();
                proptest::prop_assert_eq!(head.len() + missing + tail.len(), text.len());
            }
        }
    }
}
