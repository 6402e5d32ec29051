use super::lines::{LineTooLong, Lines};

/// One event of a stream: its name, empty if it has none, and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Server-sent events (HTML standard, section 9.2.6), fed with bytes. Comments
/// and fields that no model uses (`id`, `retry`) are passed over; an event that
/// the end of the stream cuts is none.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    lines: Lines,
    name: String,
    /// Of the open event, each line with a newline before it.
    data: Option<String>,
    begun: bool,
}

impl Sse {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), LineTooLong> {
        self.lines.push(bytes)
    }

    /// The next complete event.
    pub(crate) fn next(&mut self) -> Option<SseEvent> {
        while let Some(line) = self.lines.next() {
            let line = if std::mem::replace(&mut self.begun, true) {
                line.as_str()
            } else {
                line.trim_start_matches('\u{feff}')
            };
            if line.is_empty() {
                let name = std::mem::take(&mut self.name);
                if let Some(data) = self.data.take() {
                    return Some(SseEvent { name, data });
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (field, &mut self.data) {
                ("event", _) => value.clone_into(&mut self.name),
                ("data", Some(data)) => {
                    data.push('\n');
                    data.push_str(value);
                }
                ("data", none) => *none = Some(value.to_owned()),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(stream: &str) -> Vec<(String, String)> {
        let mut sse = Sse::default();
        sse.push(stream.as_bytes()).expect("short lines");
        std::iter::from_fn(|| sse.next())
            .map(|event| (event.name, event.data))
            .collect()
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    /// The examples of the standard, section 9.2.6, as far as models use them.
    #[test]
    fn the_standards_examples() {
        assert_eq!(
            events("data: YHOO\ndata: +2\ndata: 10\n\n"),
            [pair("", "YHOO\n+2\n10")]
        );
        assert_eq!(
            events(
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
            ),
            [
                pair("", "first event"),
                pair("", "second event"),
                pair("", " third event")
            ]
        );
        // The last of the three blocks is cut and discarded.
        assert_eq!(
            events("data\n\ndata\ndata\n\ndata:"),
            [pair("", ""), pair("", "\n")]
        );
        assert_eq!(
            events("data:test\n\ndata: test\n\n"),
            [pair("", "test"), pair("", "test")]
        );
        assert_eq!(
            events("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n"),
            [pair("add", "73857293"), pair("remove", "2153")]
        );
    }

    #[test]
    fn carriage_returns_comments_and_a_byte_order_mark() {
        assert_eq!(
            events("\u{feff}data: a\r\n: keep-alive\r\n\r\n: keep-alive\r\n\r\ndata: b\r\n\r\n"),
            [pair("", "a"), pair("", "b")]
        );
        // A name without data is no event, and does not name the next one.
        assert_eq!(events("event: ping\n\ndata: a\n\n"), [pair("", "a")]);
    }
}
