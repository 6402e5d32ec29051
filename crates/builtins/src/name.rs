use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};

/// A path as a model sees it and gives it back.
///
/// Most paths are shown as they are. One that has control characters,
/// invisible characters or bytes that are not UTF-8, or that begins with a
/// double quote, is shown in double quotes with the escapes of C: `\n`, `\"`,
/// `\\`, and three octal digits for any other byte. This is what git does
/// (git-config(1), `core.quotePath=false`). What begins with a double quote is
/// therefore always such a form, in both directions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(PathBuf);

impl Name {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl From<PathBuf> for Name {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_os_str().as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.starts_with('"') && !text.chars().any(is_unseen) => f.write_str(text),
            _ => quote(bytes, f),
        }
    }
}

fn quote(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for chunk in bytes.utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '"' | '\\' => write!(f, "\\{one}")?,
                _ if is_unseen(one) => {
                    for &byte in one.encode_utf8(&mut [0; 4]).as_bytes() {
                        escape(byte, f)?;
                    }
                }
                _ => f.write_char(one)?,
            }
        }
        for &byte in chunk.invalid() {
            escape(byte, f)?;
        }
    }
    f.write_char('"')
}

fn escape(byte: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match LETTERS.iter().find(|(_, value)| *value == byte) {
        Some((letter, _)) => write!(f, "\\{letter}"),
        None => write!(f, "\\{byte:03o}"),
    }
}

const LETTERS: [(char, u8); 7] = [
    ('a', 7),
    ('b', 8),
    ('t', 9),
    ('n', 10),
    ('v', 11),
    ('f', 12),
    ('r', 13),
];

/// Characters that a reader does not see, or that move what he sees:
/// controls, line separators, and the format characters of Unicode's
/// bidirectional algorithm.
fn is_unseen(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = match text.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.is_empty() {
            return Err("a path is empty");
        }
        if bytes.contains(&0) {
            return Err("a path has a NUL byte");
        }
        Ok(Self(OsString::from_vec(bytes).into()))
    }
}

fn unquote(quoted: &str) -> Result<Vec<u8>, &'static str> {
    const MALFORMED: &str = "a path that begins with a double quote ends with one, \
        and has \\\" \\\\ \\n or three octal digits behind each backslash";
    let inside = quoted.strip_suffix('"').ok_or(MALFORMED)?;
    let mut bytes = Vec::new();
    let mut rest = inside.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'"' {
            return Err(MALFORMED);
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escaped = rest.next().ok_or(MALFORMED)?;
        let letter = LETTERS
            .iter()
            .find(|(letter, _)| *letter == char::from(escaped));
        bytes.push(match (escaped, letter) {
            (b'"' | b'\\', _) => escaped,
            (_, Some((_, value))) => *value,
            (b'0'..=b'3', None) => {
                let mut value = escaped - b'0';
                for _ in 0..2 {
                    let digit = rest.next().ok_or(MALFORMED)?;
                    if !(b'0'..=b'7').contains(&digit) {
                        return Err(MALFORMED);
                    }
                    value = value * 8 + (digit - b'0');
                }
                value
            }
            _ => return Err(MALFORMED),
        });
    }
    Ok(bytes)
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(bytes: &[u8]) -> String {
        Name(OsString::from_vec(bytes.to_vec()).into()).to_string()
    }

    #[test]
    fn odd_names_look_as_git_shows_them() {
        // git -c core.quotePath=false ls-files, git 2.39.
        assert_eq!(shown(b"src/main.rs"), "src/main.rs");
        assert_eq!(shown(b"a\nb"), r#""a\nb""#);
        assert_eq!(shown(b"a\xffb"), r#""a\377b""#);
        assert_eq!(shown(b"\"q\""), r#""\"q\"""#);
        assert_eq!(shown(b"\x01\x7f"), r#""\001\177""#);
        assert_eq!(shown("é\t".as_bytes()), r#""é\t""#);
    }

    #[test]
    fn a_backslash_alone_is_no_escape() {
        assert_eq!(shown(br"a\nb"), r"a\nb");
        assert_eq!(r"a\nb".parse::<Name>().unwrap().path(), Path::new(r"a\nb"));
    }

    #[test]
    fn what_cannot_be_a_path_is_refused() {
        for text in [
            "",
            "a\0b",
            "\"",
            "\"a",
            r#""\x""#,
            r#""\400""#,
            r#""\000""#,
            r#""a"b""#,
        ] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_name_leads_back_and_is_one_line(
            bytes in proptest::collection::vec(1u8.., 1..20)
        ) {
            let text = shown(&bytes);
            prop_assert!(!text.contains('\n'));
            let name: Name = text.parse().unwrap();
            prop_assert_eq!(name.path().as_os_str().as_bytes(), &bytes[..]);
        }
    }
}
