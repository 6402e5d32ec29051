use std::fmt;

/// How a file's characters are written.
///
/// A byte order mark decides. Without one it is UTF-8, unless what is there
/// makes no sense as that: then it is windows-1252, which has every character
/// of ISO 8859-1 in the same place and a character for every byte (WHATWG
/// Encoding Standard).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf8Bom,
    Utf16Le,
    Utf16Be,
    Windows1252,
}

impl Encoding {
    /// What a byte order mark says.
    pub(crate) fn of_bom(bytes: &[u8]) -> Option<Self> {
        [Self::Utf8Bom, Self::Utf16Le, Self::Utf16Be]
            .into_iter()
            .find(|it| bytes.starts_with(it.bom()))
    }

    /// Judges by parts of a file, the first of which is its beginning. A
    /// character that is cut off at the end of a part is no reason against
    /// UTF-8.
    pub(crate) fn judge(parts: &[&[u8]]) -> Self {
        if let Some(encoding) = parts.first().and_then(|first| Self::of_bom(first)) {
            return encoding;
        }
        let (mut characters, mut strangers) = (0, 0);
        for part in parts {
            let (some, other) = census(part);
            characters += some;
            strangers += other;
        }
        // Text in UTF-8 with some damage has more sound characters than
        // damaged ones; in windows-1252 there are next to none by chance.
        if strangers == 0 || characters > strangers {
            Self::Utf8
        } else {
            Self::Windows1252
        }
    }

    pub(crate) fn bom(self) -> &'static [u8] {
        match self {
            Self::Utf8 | Self::Windows1252 => b"",
            Self::Utf8Bom => b"\xef\xbb\xbf",
            Self::Utf16Le => b"\xff\xfe",
            Self::Utf16Be => b"\xfe\xff",
        }
    }

    /// Bytes of a code unit.
    pub(crate) fn unit(self) -> usize {
        match self {
            Self::Utf16Le | Self::Utf16Be => 2,
            _ => 1,
        }
    }

    pub(crate) fn is_wide(self) -> bool {
        self.unit() == 2
    }

    /// Two bytes as a code unit of UTF-16.
    pub(crate) fn wide(self, bytes: [u8; 2]) -> u16 {
        if self == Self::Utf16Be {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    }

    /// Writes one character. `None` when the encoding has no such character.
    pub(crate) fn put(self, one: char, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Utf8 | Self::Utf8Bom => {
                out.extend_from_slice(one.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Self::Utf16Le | Self::Utf16Be => {
                for unit in one.encode_utf16(&mut [0; 2]) {
                    let bytes = match self {
                        Self::Utf16Be => unit.to_be_bytes(),
                        _ => unit.to_le_bytes(),
                    };
                    out.extend_from_slice(&bytes);
                }
            }
            Self::Windows1252 if one.is_ascii() => out.push(one as u8),
            Self::Windows1252 => {
                out.push((0x80..=u8::MAX).find(|byte| windows_1252(*byte) == one)?);
            }
        }
        Some(())
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf8Bom => "UTF-8 with BOM",
            Self::Utf16Le => "UTF-16LE with BOM",
            Self::Utf16Be => "UTF-16BE with BOM",
            Self::Windows1252 => "windows-1252",
        })
    }
}

/// How many characters outside of ASCII UTF-8 finds, and how many places that
/// are none.
fn census(part: &[u8]) -> (usize, usize) {
    let (mut characters, mut strangers) = (0, 0);
    let mut rest = part;
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, other) = rest
            .split_at_checked(error.valid_up_to())
            .unwrap_or_default();
        characters += beginnings(valid);
        let Some(length) = error.error_len() else {
            return (characters, strangers);
        };
        strangers += 1;
        rest = other.get(length..).unwrap_or_default();
    }
    (characters + beginnings(rest), strangers)
}

fn beginnings(valid: &[u8]) -> usize {
    valid.iter().filter(|byte| **byte >= 0xc0).count()
}

/// What windows-1252 has where ISO 8859-1 has control characters, from 0x80
/// on (WHATWG Encoding Standard, index windows-1252).
const CONTROLS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// A byte of windows-1252.
pub(crate) fn windows_1252(byte: u8) -> char {
    let at = byte.checked_sub(0x80).map(usize::from);
    let other = at.and_then(|at| CONTROLS.get(at));
    other.copied().unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_windows_1252_is_a_character_and_back() {
        for byte in 0..=u8::MAX {
            let mut back = Vec::new();
            Encoding::Windows1252
                .put(windows_1252(byte), &mut back)
                .unwrap();
            assert_eq!(back, [byte]);
        }
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let (expected, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&all);
        let ours: String = all.iter().copied().map(windows_1252).collect();
        assert_eq!(ours, expected);
        assert_eq!(Encoding::Windows1252.put('→', &mut Vec::new()), None);
    }

    #[test]
    fn the_encoding_is_judged_by_what_is_there() {
        for (sample, expected) in [
            (&b""[..], Encoding::Utf8),
            (b"plain", Encoding::Utf8),
            ("größer".as_bytes(), Encoding::Utf8),
            // Cut within the last character.
            (b"gr\xc3", Encoding::Utf8),
            (b"gr\xf6\xdfer", Encoding::Windows1252),
            // One damaged byte among sound characters.
            (b"\xc3\xa4\xc3\xb6 \xff \xc3\xbc", Encoding::Utf8),
            (b"\xef\xbb\xbfx", Encoding::Utf8Bom),
            (b"\xff\xfex\0", Encoding::Utf16Le),
            (b"\xfe\xff\0x", Encoding::Utf16Be),
        ] {
            assert_eq!(Encoding::judge(&[sample]), expected, "{sample:?}");
        }
    }
}
