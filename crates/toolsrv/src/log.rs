use std::collections::VecDeque;

use bytes::Bytes;
use ollie_protocol::limits::LOG_KEEP;
use ollie_protocol::{CallId, LogState};

/// A bounded copy of an output stream: its beginning and its end, at most
/// [`LOG_KEEP`] bytes. Offsets are those of the whole stream.
#[derive(Debug, Default)]
pub(crate) struct Log {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// What a log has at an offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// These bytes.
    Bytes(Bytes),
    /// Nothing any more; the next byte that is kept has this offset.
    Dropped(u64),
    /// Nothing yet.
    End,
}

const HEAD: usize = LOG_KEEP / 4;
const TAIL: usize = LOG_KEEP - HEAD;

/// Room for the line in the place of what is not shown.
const LINE_MAX: usize = 192;

impl Log {
    /// Adds what the stream said next.
    pub(crate) fn push(&mut self, mut data: &[u8]) {
        self.total += data.len() as u64;
        let to_head = data.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&data[..to_head]);
        data = &data[to_head..];
        let data = &data[data.len().saturating_sub(TAIL)..];
        let excess = (self.tail.len() + data.len()).saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.tail.extend(data);
    }

    /// Length of the whole stream so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How long it is and what of it is kept.
    pub(crate) fn state(&self) -> LogState {
        let (head, tail) = (self.head.len() as u64, self.tail.len() as u64);
        LogState {
            total: self.total,
            dropped: (head + tail < self.total).then(|| [head, self.total - tail]),
        }
    }

    /// Bytes held in memory.
    pub(crate) fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// At most `count` bytes at `offset`.
    pub(crate) fn at(&self, offset: u64, count: usize) -> At {
        let tail_start = self.total - self.tail.len() as u64;
        if offset >= self.total {
            return At::End;
        }
        if offset < self.head.len() as u64 {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let end = self.head.len().min(start.saturating_add(count));
            return At::Bytes(Bytes::copy_from_slice(&self.head[start..end]));
        }
        if offset < tail_start {
            return At::Dropped(tail_start);
        }
        let start = usize::try_from(offset - tail_start).unwrap_or(usize::MAX);
        let end = self.tail.len().min(start.saturating_add(count));
        At::Bytes(self.tail.range(start..end).copied().collect())
    }

    /// The last `count` bytes that are kept.
    pub(crate) fn last(&self, count: usize) -> Vec<u8> {
        let tail = self.tail.len().min(count);
        let head = self.head.len().min(count - tail);
        let mut bytes = self.head[self.head.len() - head..].to_vec();
        bytes.extend(self.tail.range(self.tail.len() - tail..));
        bytes
    }

    /// The stream as text of at most `limit` bytes: its beginning and end, cut
    /// at character boundaries with a line between them that says how much is
    /// missing and how to see it. Also how many bytes of the stream it holds.
    pub(crate) fn text(&self, limit: usize, id: &CallId) -> (String, u64) {
        let whole = self.total == self.kept() as u64;
        if whole && self.kept() <= limit {
            let mut bytes = self.head.clone();
            bytes.extend(&self.tail);
            return (String::from_utf8_lossy(&bytes).into_owned(), self.total);
        }
        let head = cut_end(&self.head[..self.head.len().min(limit / 4)]);
        let last = self.last((limit - limit / 4).saturating_sub(LINE_MAX));
        let tail = cut_start(&last);
        let kept = (head.len() + tail.len()) as u64;
        let text = format!(
            "{}\n[... {} bytes are not shown: proc_output with id {id} and offset {} ...]\n{}",
            String::from_utf8_lossy(head),
            self.total - kept,
            head.len(),
            String::from_utf8_lossy(tail)
        );
        (text, kept)
    }
}

/// Without the bytes of a character that the cut left incomplete.
pub(crate) fn cut_end(bytes: &[u8]) -> &[u8] {
    let begun = (1..=3.min(bytes.len())).find(|&back| bytes[bytes.len() - back] & 0xC0 != 0x80);
    match begun {
        Some(back) => {
            let lead = bytes[bytes.len() - back];
            let needed = match lead {
                0xC0..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF7 => 4,
                _ => 1,
            };
            if needed > back {
                &bytes[..bytes.len() - back]
            } else {
                bytes
            }
        }
        None => bytes,
    }
}

/// Without the continuation bytes that the cut left at the start.
pub(crate) fn cut_start(bytes: &[u8]) -> &[u8] {
    let skip = bytes
        .iter()
        .take(3)
        .take_while(|&&byte| byte & 0xC0 == 0x80)
        .count();
    &bytes[skip..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> CallId {
        CallId::new("x".repeat(64)).unwrap()
    }

    #[test]
    fn a_short_stream_is_kept_whole_at_any_offset() {
        let mut log = Log::default();
        log.push(b"hello ");
        log.push(b"world");
        assert_eq!(log.at(0, 5), At::Bytes("hello".into()));
        assert_eq!(log.at(6, 99), At::Bytes("world".into()));
        assert_eq!(log.at(11, 1), At::End);
        assert_eq!(log.text(100, &id()), ("hello world".into(), 11));
    }

    #[test]
    fn a_long_stream_keeps_its_ends_and_says_what_is_gone() {
        let mut log = Log::default();
        let data: Vec<u8> = (0..LOG_KEEP * 3).map(|i| (i % 251) as u8).collect();
        for chunk in data.chunks(7919) {
            log.push(chunk);
        }
        assert_eq!(log.kept(), LOG_KEEP);
        assert_eq!(log.total(), data.len() as u64);
        let start = (data.len() - TAIL) as u64;
        assert_eq!(log.at(HEAD as u64, 1), At::Dropped(start));
        assert_eq!(log.state().dropped, Some([HEAD as u64, start]));
        let At::Bytes(bytes) = log.at(start, 10) else {
            panic!("the tail begins where it was said to");
        };
        assert_eq!(bytes, data[data.len() - TAIL..][..10]);
        assert_eq!(log.last(3), data[data.len() - 3..]);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let mut log = Log::default();
        log.push("\u{20ac}".repeat(100_000).as_bytes());
        for limit in 1000..1012 {
            let (text, kept) = log.text(limit, &id());
            assert!(!text.contains('\u{fffd}'), "{limit}");
            assert!(text.len() <= limit, "{} > {limit}", text.len());
            assert!(kept > 500);
        }
    }
}
