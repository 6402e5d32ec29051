use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes, BytesMut};
use ninep_rs::Refusal;
use ollie_protocol::{Event, EventFormat, Octets, Stream};
use tokio::sync::Notify;

use crate::call::{Call, Phase};

/// The most output in one event of the JSON format: encoded it may be six
/// times as long.
const JSON_CHUNK: usize = 16 * 1024;

/// The event stream of a call as its one reader sees it.
///
/// Output is taken from the process's pipes only when it is read here: a slow
/// reader slows the process down, and nothing is lost.
pub(crate) struct EventStream {
    call: Arc<Call>,
    gone: Arc<Notify>,
    cursor: Mutex<Cursor>,
}

#[derive(Default)]
struct Cursor {
    /// What is to be read before anything else.
    queue: VecDeque<Bytes>,
    asked: bool,
    started: bool,
    ended: bool,
    /// Bytes of a character that is not complete yet, for each stream.
    partial: [Vec<u8>; 2],
}

impl EventStream {
    /// The stream of `call`; dropping it notifies `gone`.
    pub(crate) fn new(call: Arc<Call>, gone: Arc<Notify>) -> Self {
        Self {
            call,
            gone,
            cursor: Mutex::default(),
        }
    }

    pub(crate) fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// The next bytes, at most `count`; none at the end. Bytes are taken only
    /// by the poll that returns them.
    pub(crate) async fn read(&self, count: u32) -> Result<Bytes, Refusal> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut phases = self.call.phases();
        loop {
            // Before looking at the pipes: what ends later wakes this again.
            let phase = *phases.borrow_and_update();
            if let Some(bytes) = self.next(phase, count) {
                return Ok(bytes);
            }
            tokio::select! {
                _ = phases.changed() => {}
                // Output waits for the news that there is a process.
                () = self.call.output_ready(), if phase > Phase::Starting => {}
            }
        }
    }

    fn next(&self, phase: Phase, count: usize) -> Option<Bytes> {
        let mut cursor = self.cursor();
        loop {
            if let Some(bytes) = cursor.take(count) {
                return Some(bytes);
            }
            if cursor.ended {
                return Some(Bytes::new());
            }
            if !cursor.asked {
                cursor.asked = true;
                if let Some(ask) = self.call.ask() {
                    cursor.queue.push_back(ask.into());
                    continue;
                }
            }
            if phase <= Phase::Starting {
                return None;
            }
            if !cursor.started
                && let Some(pid) = self.call.pid()
            {
                cursor.started = true;
                cursor.line(&Event::Started { pid });
                continue;
            }
            let (front, chunk) = self.chunk(count);
            match self.call.take_output(front, chunk) {
                Some((stream, data)) => self.announce(&mut cursor, stream, data),
                // Once the tree has ended, what is not in the pipes never comes.
                None if phase == Phase::Ended => {
                    for stream in [Stream::Stdout, Stream::Stderr] {
                        let rest = std::mem::take(&mut cursor.partial[index(stream)]);
                        if !rest.is_empty() {
                            cursor.output(stream, rest);
                        }
                    }
                    let result = self.call.finish().clone();
                    cursor.line(&Event::Result(Box::new(result)));
                    cursor.ended = true;
                    self.call.set_phase(Phase::Ended);
                }
                None => return None,
            }
        }
    }

    /// Bytes of a header, and the most bytes of output behind it.
    fn chunk(&self, count: usize) -> (usize, usize) {
        match self.call.events() {
            EventFormat::Raw => (HEADER, count.saturating_sub(HEADER).max(1)),
            EventFormat::Json => (0, JSON_CHUNK),
        }
    }

    fn announce(&self, cursor: &mut Cursor, stream: Stream, mut data: BytesMut) {
        match self.call.events() {
            EventFormat::Raw => {
                let line = header(stream, data.len() - HEADER);
                data[..HEADER].copy_from_slice(line.as_bytes());
                cursor.queue.push_back(data.freeze());
            }
            EventFormat::Json => {
                let mut text = std::mem::take(&mut cursor.partial[index(stream)]);
                text.extend_from_slice(&data);
                let complete = match std::str::from_utf8(&text) {
                    // Only an end that may still become a character waits.
                    Err(error) if error.error_len().is_none() => error.valid_up_to(),
                    _ => text.len(),
                };
                cursor.partial[index(stream)] = text.split_off(complete);
                if !text.is_empty() {
                    cursor.output(stream, text);
                }
            }
        }
    }

    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

impl Cursor {
    /// At most `count` bytes of the queue in one piece.
    fn take(&mut self, count: usize) -> Option<Bytes> {
        let first = self.queue.front_mut()?;
        if first.len() > count {
            return Some(first.split_to(count));
        }
        let first = self.queue.pop_front()?;
        // The first line and the first output go out together if they fit.
        match self.queue.front_mut() {
            Some(second) if first.len() < count => {
                let room = (count - first.len()).min(second.len());
                let mut joined = BytesMut::with_capacity(first.len() + room);
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&second[..room]);
                second.advance(room);
                if second.is_empty() {
                    self.queue.pop_front();
                }
                Some(joined.freeze())
            }
            _ => Some(first),
        }
    }

    fn output(&mut self, stream: Stream, data: Vec<u8>) {
        self.line(&Event::Output {
            stream,
            data: Some(Octets::from(data)),
            bytes: None,
        });
    }

    fn line(&mut self, event: &Event) {
        // These records have no map with keys that are not text, which is the
        // one thing that cannot be written.
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        self.queue.push_back(line.into());
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// Length of [`header`]: always the same, so that data can be asked for that
/// fits into one message beside it.
const HEADER: usize = 55;

/// The line before raw data.
fn header(stream: Stream, length: usize) -> String {
    let name = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    let line = format!("{{\"type\":\"output\",\"stream\":\"{name}\",\"bytes\":{length:>10}}}\n");
    debug_assert_eq!(line.len(), HEADER);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_raw_output_is_an_event_of_fixed_length() {
        for length in [1, 65_536, 1_048_576] {
            let line = header(Stream::Stderr, length);
            assert_eq!(line.len(), HEADER);
            let event: Event = serde_json::from_str(&line).unwrap();
            let expected = Event::Output {
                stream: Stream::Stderr,
                data: None,
                bytes: Some(u32::try_from(length).unwrap()),
            };
            assert_eq!(event, expected);
        }
    }
}
