use std::fmt::Write as _;

use crate::chars::{Piece, Pieces};
use crate::encoding::Encoding;
use crate::lines::Line;
use crate::read::TEXT;

/// Lines as they are shown, within the bound of a result.
#[derive(Debug)]
pub(crate) struct Page {
    encoding: Encoding,
    text: String,
    lines: usize,
    crlf: usize,
    odd: usize,
    ended: bool,
}

impl Page {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            text: String::new(),
            lines: 0,
            crlf: 0,
            odd: 0,
            ended: true,
        }
    }

    /// Adds a line with its number. `false` when there was no room for it.
    pub(crate) fn add(&mut self, line: &Line, number: Option<u64>) -> bool {
        let mut text = String::new();
        if let Some(number) = number {
            let _ = write!(text, "{number:>6}\t");
        }
        let bytes = match line.offset {
            0 => line.bytes.strip_prefix(self.encoding.bom()),
            _ => None,
        };
        let bytes = bytes.unwrap_or(&line.bytes);
        let left_out = line.length - line.bytes.len() as u64;
        let mut taken = (line.bytes.len() - bytes.len()) as u64;
        let mut odd = 0;
        for (piece, length) in Pieces::new(self.encoding, bytes) {
            let half = left_out > 0 && taken + 4 > line.bytes.len() as u64;
            if half && !matches!(piece, Piece::Char(_)) {
                // The character goes on behind what was kept.
                break;
            }
            taken += length as u64;
            odd += usize::from(piece.is_odd());
            piece.show(&mut text);
        }
        self.ended = text.ends_with('\n');
        if taken < line.length {
            let _ = write!(
                text,
                " [{}{} bytes of this line are left out: byte_offset={}]",
                if line.measured { "" } else { "at least " },
                line.length - taken,
                line.offset + taken
            );
            self.ended = true;
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if self.lines > 0 && self.text.len() + text.len() > TEXT {
            return false;
        }
        self.crlf += usize::from(text.ends_with("\r\n"));
        self.odd += odd;
        self.text.push_str(&text);
        self.lines += 1;
        true
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What the text does not show by itself.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.ended {
            remarks.push("no newline at the end".to_owned());
        }
        match self.crlf {
            0 => {}
            some if some == self.lines - usize::from(!self.ended) => {
                remarks.push("lines end with CRLF".to_owned());
            }
            some => remarks.push(format!("{some} of {} lines end with CRLF", self.lines)),
        }
        remarks.extend(odd_remark(self.odd));
        remarks
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// What is said about pieces that are no characters.
pub(crate) fn odd_remark(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} bytes that are no text are shown as \\xNN"))
}
