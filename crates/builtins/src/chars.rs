use std::fmt::Write as _;

use crate::encoding::{Encoding, windows_1252};

/// What stands at one place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Char(char),
    /// A byte that is not UTF-8.
    Byte(u8),
    /// Half of a surrogate pair.
    Unit(u16),
}

impl Piece {
    /// Whether it is shown by its value.
    pub(crate) fn is_odd(self) -> bool {
        !matches!(self, Self::Char('\u{1}'..))
    }

    /// Appends it as it is shown.
    pub(crate) fn show(self, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Self::Char('\0') => out.write_str("\\x00"),
            Self::Char(one) => out.write_char(one),
            Self::Byte(byte) => write!(out, "\\x{byte:02x}"),
            Self::Unit(unit) => write!(out, "\\u{{{unit:04x}}}"),
        };
    }
}

/// The pieces of `bytes` with the number of bytes of each, which together are
/// all of them. A character that is cut off at the end comes as its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Pieces<'a> {
    encoding: Encoding,
    rest: &'a [u8],
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(encoding: Encoding, bytes: &'a [u8]) -> Self {
        Self {
            encoding,
            rest: bytes,
        }
    }

    fn look(&self) -> Option<(Piece, usize)> {
        let &first = self.rest.first()?;
        Some(match self.encoding {
            Encoding::Windows1252 => (Piece::Char(windows_1252(first)), 1),
            Encoding::Utf8 | Encoding::Utf8Bom => match utf8(self.rest) {
                Some(one) => (Piece::Char(one), one.len_utf8()),
                None => (Piece::Byte(first), 1),
            },
            Encoding::Utf16Le | Encoding::Utf16Be => match self.utf16() {
                Some(found) => found,
                None => (Piece::Byte(first), 1),
            },
        })
    }

    fn utf16(&self) -> Option<(Piece, usize)> {
        let mut units = self.rest.as_chunks::<2>().0.iter();
        let mut next = || units.next().map(|bytes| self.encoding.wide(*bytes));
        let first = next()?;
        let pair = [Some(first), next()].into_iter().flatten();
        Some(match char::decode_utf16(pair).next()? {
            Ok(one) => (Piece::Char(one), 2 * one.len_utf16()),
            Err(_) => (Piece::Unit(first), 2),
        })
    }
}

impl Iterator for Pieces<'_> {
    type Item = (Piece, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (piece, length) = self.look()?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some((piece, length))
    }
}

/// The character at the beginning.
fn utf8(bytes: &[u8]) -> Option<char> {
    let start = bytes.get(..bytes.len().min(4))?;
    let valid = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(start.get(..error.valid_up_to())?).ok()?,
    };
    valid.chars().next()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encodings() -> impl Strategy<Value = Encoding> {
        prop::sample::select(vec![
            Encoding::Utf8,
            Encoding::Utf16Le,
            Encoding::Utf16Be,
            Encoding::Windows1252,
        ])
    }

    proptest! {
        #[test]
        fn pieces_cover_any_bytes(encoding in encodings(), bytes: Vec<u8>) {
            let total: usize = Pieces::new(encoding, &bytes).map(|(_, length)| length).sum();
            prop_assert_eq!(total, bytes.len());
        }

        #[test]
        fn what_is_put_is_taken(encoding in encodings(), text: String) {
            let mut bytes = Vec::new();
            let kept: String = text
                .chars()
                .filter(|one| *one != '\0' && encoding.put(*one, &mut bytes).is_some())
                .collect();
            let mut back = String::new();
            Pieces::new(encoding, &bytes).for_each(|(piece, _)| piece.show(&mut back));
            prop_assert_eq!(back, kept);
        }

        #[test]
        fn utf8_is_read_as_the_standard_library_reads_it(bytes: Vec<u8>) {
            let chars: String = Pieces::new(Encoding::Utf8, &bytes)
                .filter_map(|(piece, _)| match piece {
                    Piece::Char(one) => Some(one),
                    _ => None,
                })
                .collect();
            let expected: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
            prop_assert_eq!(chars, expected);
        }
    }

    #[test]
    fn what_is_no_character_is_shown_by_its_value() {
        let shown = |encoding, bytes: &[u8]| {
            let mut out = String::new();
            Pieces::new(encoding, bytes).for_each(|(piece, _)| piece.show(&mut out));
            out
        };
        assert_eq!(shown(Encoding::Utf8, b"a\xffb\xe2\x82"), r"a\xffb\xe2\x82");
        assert_eq!(shown(Encoding::Utf16Le, b"\x00\xd8a\0b"), r"\u{d800}a\x62");
    }
}
