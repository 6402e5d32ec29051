use std::fs::File;
use std::io::{self, Read};

use crate::encoding::Encoding;

/// Bytes of UTF-16 that are decoded at once.
const WIDE: usize = 16 << 10;

/// A file as the text that is searched: UTF-16 with a byte order mark as
/// UTF-8, all else as it is, without the mark.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing was read yet.
    Start,
    /// The bytes are the text.
    Plain,
    Wide(Wide),
}

/// What was read and not decoded, and what was decoded and not used.
#[derive(Debug)]
struct Wide {
    encoding: Encoding,
    raw: Vec<u8>,
    text: Vec<u8>,
    used: usize,
}

impl Source {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            state: State::Start,
        }
    }

    /// Reads into `room`, which has space for a byte order mark. 0 is the end.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Plain => read(&mut self.file, room),
            State::Wide(wide) => wide.read(&mut self.file, room),
            State::Start => self.begin(room),
        }
    }

    fn begin(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        // The longest mark has three bytes.
        while count < 3 {
            match read(&mut self.file, room.get_mut(count..).unwrap_or_default())? {
                0 => break,
                more => count += more,
            }
        }
        let begin = room.get(..count).unwrap_or_default();
        let Some(encoding) = Encoding::of_bom(begin) else {
            self.state = State::Plain;
            return Ok(count);
        };
        let mark = encoding.bom().len();
        if encoding.is_wide() {
            self.state = State::Wide(Wide {
                encoding,
                raw: begin.get(mark..).unwrap_or_default().to_vec(),
                text: Vec::new(),
                used: 0,
            });
            return self.read(room);
        }
        self.state = State::Plain;
        room.copy_within(mark..count, 0);
        match count - mark {
            0 => self.read(room),
            left => Ok(left),
        }
    }
}

impl Wide {
    fn read(&mut self, file: &mut File, room: &mut [u8]) -> io::Result<usize> {
        while self.used == self.text.len() {
            let had = self.raw.len();
            self.raw.resize(had + WIDE, 0);
            let more = read(file, self.raw.get_mut(had..).unwrap_or_default())?;
            self.raw.truncate(had + more);
            if self.raw.is_empty() {
                return Ok(0);
            }
            self.decode(more == 0);
        }
        let rest = self.text.get(self.used..).unwrap_or_default();
        let count = rest.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.used += count;
        Ok(count)
    }

    /// Decodes what is complete, at the end of the file all. What is no
    /// character becomes U+FFFD.
    fn decode(&mut self, all: bool) {
        let pairs = self.raw.as_chunks::<2>().0;
        let mut units: Vec<u16> = pairs.iter().map(|it| self.encoding.wide(*it)).collect();
        let is_half = matches!(units.last(), Some(0xd800..=0xdbff));
        if is_half && !all {
            units.pop();
        }
        self.raw.drain(..2 * units.len());
        let characters = char::decode_utf16(units);
        let mut text: String = characters
            .map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        if all && !self.raw.is_empty() {
            // With half a pair in front of it, half a unit is one error.
            if !is_half {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            self.raw.clear();
        }
        self.text = text.into_bytes();
        self.used = 0;
    }
}

fn read(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use proptest::prelude::*;

    use super::*;

    /// All that a source says, by pieces of `piece` bytes.
    fn text(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut source = Source::new(file);
        let (mut all, mut room) = (Vec::new(), vec![0; piece]);
        loop {
            match source.read(&mut room).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&room[..count]),
            }
        }
    }

    #[test]
    fn marks_are_taken_off_and_nothing_else() {
        assert_eq!(text(b"\xef\xbb\xbfx", 64), b"x");
        assert_eq!(text(b"\xef\xbb\xbf", 64), b"");
        assert_eq!(text(b"\xef\xbb", 64), b"\xef\xbb");
        assert_eq!(text(b"\xff", 64), b"\xff");
        assert_eq!(text(b"\xff\xfe", 64), b"");
        assert_eq!(text(b"", 64), b"");
    }

    #[test]
    fn a_character_may_lie_across_two_reads() {
        let mut bytes = vec![0xff, 0xfe, b'a', 0];
        let line = "\u{1f600}ä".repeat(WIDE);
        bytes.extend(line.encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(text(&bytes, 7), format!("a{line}").into_bytes());
    }

    proptest! {
        /// encoding_rs is what ripgrep decodes with.
        #[test]
        fn utf_16_is_decoded_as_by_ripgrep(bytes: Vec<u8>, big: bool, piece in 4_usize..40) {
            let mark = if big { [0xfe, 0xff] } else { [0xff, 0xfe] };
            let raw = [&mark[..], &bytes].concat();
            let (expected, _, _) = encoding_rs::UTF_8.decode(&raw);
            prop_assert_eq!(text(&raw, piece), expected.as_bytes());
        }
    }
}
