use std::collections::VecDeque;

/// Bytes of one line. A call's arguments come in one line with Ollama, so it is
/// far above what a person would write into a file.
const LINE_MAX: usize = 16 * 1024 * 1024;

/// Cuts a stream into lines, which end with LF, CRLF or CR alone (HTML
/// standard, section 9.2.5; JSON has no CR inside of a line, RFC 8259).
///
/// It works on bytes: a chunk may end inside of a character.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: Vec<u8>,
    done: VecDeque<String>,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_cr: bool,
}

/// A line has no end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

impl Lines {
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), LineTooLong> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.open.len() + part.len() > LINE_MAX {
                return Err(LineTooLong);
            }
            self.open.extend_from_slice(part);
            if let Some((ending, rest)) = rest.split_first() {
                self.after_cr = *ending == b'\r';
                let line = std::mem::take(&mut self.open);
                self.done.push_back(text(line));
                bytes = rest;
            } else {
                bytes = rest;
            }
        }
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Option<String> {
        self.done.pop_front()
    }

    /// What came after the last line's end.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.open);
        (!rest.is_empty()).then(|| text(rest))
    }
}

/// A byte that is no UTF-8 becomes U+FFFD, as the standard says for event
/// streams.
fn text(line: Vec<u8>) -> String {
    String::from_utf8(line)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let mut lines = Lines::default();
        for chunk in chunks {
            lines.push(chunk).expect("short lines");
        }
        let done = std::iter::from_fn(|| lines.next()).collect();
        (done, lines.rest())
    }

    #[test]
    fn three_endings_and_chunks_between_their_bytes() {
        let expected = (
            vec!["a".into(), String::new(), "b".into(), "c".into()],
            Some("d".into()),
        );
        assert_eq!(all(&[b"a\n\nb\nc\nd"]), expected);
        assert_eq!(all(&[b"a\r\n\r\nb\r\nc\r\nd"]), expected);
        assert_eq!(all(&[b"a\r\rb\rc\rd"]), expected);
        assert_eq!(
            all(&[b"a\r", b"\n\r", b"", b"\nb\r", b"\nc\r", b"\nd"]),
            expected
        );
    }

    #[test]
    fn a_chunk_may_end_inside_of_a_character() {
        let bytes = "\u{1f980}\n".as_bytes();
        for at in 1..bytes.len() {
            let (lines, rest) = all(&[&bytes[..at], &bytes[at..]]);
            assert_eq!((lines, rest), (vec!["\u{1f980}".to_owned()], None));
        }
    }

    #[test]
    fn a_line_without_end_is_an_error_and_not_all_memory() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; LINE_MAX / 2];
        assert_eq!(lines.push(&chunk), Ok(()));
        assert_eq!(lines.push(&chunk), Ok(()));
        assert_eq!(lines.push(b"x"), Err(LineTooLong));
    }
}
