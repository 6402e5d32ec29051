use bytes::{Buf as _, Bytes, BytesMut};
use ollie_protocol::{Ask, Event, Stream};

use crate::{CallEvent, Error};

/// The longest line of an event stream, in bytes. A result holds at most
/// 64 KiB of output, which JSON can make six times as long.
const LINE_MAX: usize = 1024 * 1024;

/// Cuts the bytes of an event stream into events. Does no I/O.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    input: BytesMut,
    /// Raw bytes that belong to the output event that was read last.
    raw: Option<(Stream, usize)>,
}

impl Decoder {
    /// Adds what was read.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if self.input.is_empty() {
            // Usually the only reference: then nothing is copied.
            self.input = bytes.into();
        } else {
            self.input.extend_from_slice(&bytes);
        }
    }

    /// The next event; `None` if more bytes are needed for it.
    pub(crate) fn next(&mut self) -> Result<Option<CallEvent>, Error> {
        if let Some((stream, left)) = self.raw {
            let now = left.min(self.input.len());
            if now == 0 {
                return Ok(None);
            }
            self.raw = (left > now).then_some((stream, left - now));
            let data = self.input.split_to(now).freeze();
            return Ok(Some(CallEvent::Output { stream, data }));
        }
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else {
            if self.input.len() > LINE_MAX {
                return Err(Error::Protocol("an event without an end"));
            }
            return Ok(None);
        };
        let line = self.input.split_to(end);
        self.input.advance(1);
        let event = serde_json::from_slice(&line).map_err(|source| Error::Malformed {
            record: "event",
            source,
        })?;
        match event {
            Event::Ask {
                left_ms,
                digest,
                call,
            } => Ok(Some(CallEvent::Ask(Box::new(Ask {
                left_ms,
                digest,
                call: *call,
            })))),
            Event::Started { pid } => Ok(Some(CallEvent::Started { pid })),
            Event::Notice { text } => Ok(Some(CallEvent::Notice { text })),
            Event::Result(result) => Ok(Some(CallEvent::Result(result))),
            Event::Output {
                stream,
                data: Some(data),
                bytes: None,
            } => Ok(Some(CallEvent::Output {
                stream,
                data: Bytes::copy_from_slice(data.as_bytes()),
            })),
            Event::Output {
                stream,
                data: None,
                bytes: Some(count),
            } => {
                self.raw = Some((stream, count as usize)).filter(|(_, count)| *count > 0);
                self.next()
            }
            Event::Output { .. } => Err(Error::Protocol("output with both data and bytes")),
        }
    }

    /// Whether the stream may end here.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty() && self.raw.is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(Bytes::copy_from_slice(piece));
            while let Some(event) = decoder.next().unwrap() {
                events.push(match event {
                    CallEvent::Started { pid } => format!("started {pid}"),
                    CallEvent::Output { data, .. } => String::from_utf8_lossy(&data).into_owned(),
                    other => format!("{other:?}"),
                });
            }
        }
        events
    }

    const STREAM: &[u8] = b"{\"type\":\"started\",\"pid\":7}\n\
        {\"type\":\"output\",\"stream\":\"stdout\",\"bytes\":    4}\na\nb\n\
        {\"type\":\"output\",\"stream\":\"stderr\",\"data\":\"c\"}\n";

    #[test]
    fn raw_bytes_may_hold_anything_a_line_does() {
        assert_eq!(events(&[STREAM]), ["started 7", "a\nb\n", "c"]);
    }

    #[test]
    fn the_stream_may_be_cut_anywhere() {
        for cut in 1..STREAM.len() {
            let (first, second) = STREAM.split_at(cut);
            let joined = events(&[first, second]).concat();
            assert_eq!(joined, "started 7a\nb\nc", "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for bad in [
            &b"hello\n"[..],
            b"{\"type\":\"output\",\"stream\":\"stdout\"}\n",
        ] {
            let mut decoder = Decoder::default();
            decoder.push(Bytes::copy_from_slice(bad));
            assert!(decoder.next().is_err());
        }
    }

    /// What was sent: a piece of output, in either format.
    #[derive(Debug, Clone)]
    struct Piece {
        stream: Stream,
        data: Vec<u8>,
        raw: bool,
    }

    fn piece() -> impl Strategy<Value = Piece> {
        let data = proptest::collection::vec(any::<u8>(), 1..40);
        (any::<bool>(), data, any::<bool>()).prop_map(|(out, data, raw)| Piece {
            stream: if out { Stream::Stdout } else { Stream::Stderr },
            data,
            raw,
        })
    }

    /// As docs/protocol.md describes it.
    fn encode(pieces: &[Piece]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Piece { stream, data, raw } in pieces {
            let (text, count) = match raw {
                true => (None, u32::try_from(data.len()).ok()),
                false => (Some(data.clone().into()), None),
            };
            let event = Event::Output {
                stream: *stream,
                data: text,
                bytes: count,
            };
            bytes.extend(serde_json::to_vec(&event).unwrap());
            bytes.push(b'\n');
            if *raw {
                bytes.extend(data);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn every_byte_of_output_comes_back_however_the_stream_is_cut(
            pieces in proptest::collection::vec(piece(), 0..8),
            cuts in proptest::collection::vec(1usize..60, 1..20),
        ) {
            let stream = encode(&pieces);
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                rest = later;
                decoder.push(Bytes::copy_from_slice(now));
                while let Some(event) = decoder.next().unwrap() {
                    let CallEvent::Output { stream, data } = event else {
                        panic!("only output was sent");
                    };
                    seen.extend(data.iter().map(|byte| (stream, *byte)));
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(decoder.is_empty());
            let sent: Vec<_> = pieces
                .iter()
                .flat_map(|piece| piece.data.iter().map(|byte| (piece.stream, *byte)))
                .collect();
            prop_assert_eq!(seen, sent);
        }

        #[test]
        fn any_bytes_are_events_or_an_error(
            bytes in proptest::collection::vec(prop_oneof![
                Just(b'{'), Just(b'}'), Just(b'\n'), any::<u8>()
            ], 0..200),
        ) {
            let mut decoder = Decoder::default();
            decoder.push(Bytes::from(bytes));
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
