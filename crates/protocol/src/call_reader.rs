use crate::{Error, ToolCall, limits};

const RECORD: &str = "tool call";

/// Collects the JSON of a tool call from writes of any length and finds where
/// it ends. Does no I/O.
#[derive(Debug)]
pub struct CallReader(ValueReader);

impl Default for CallReader {
    fn default() -> Self {
        Self(ValueReader::new(RECORD, limits::CALL_MAX))
    }
}

impl CallReader {
    /// Takes the next bytes. Once the value is complete: the call, checked,
    /// and how many of `data` were taken for it; what follows is the call's
    /// standard input. White space after a call without standard input
    /// belongs to the call.
    ///
    /// # Errors
    /// [`Error`] if the value is no tool call, is longer than
    /// [`limits::CALL_MAX`], or something follows a call that takes no
    /// standard input. Nothing is to be pushed after that.
    pub fn push(&mut self, data: &[u8]) -> Result<Option<(ToolCall, usize)>, Error> {
        let Some(end) = self.0.push(data)? else {
            return Ok(None);
        };
        let call: ToolCall = self.0.parse()?;
        call.validate()?;
        if call.stdin {
            return Ok(Some((call, end)));
        }
        if !data[end..].iter().all(u8::is_ascii_whitespace) {
            let problem = "something follows it: for standard input set stdin in it";
            return self.0.invalid(problem.into());
        }
        Ok(Some((call, data.len())))
    }
}

/// Collects one JSON object from writes of any length and finds where it ends.
/// Does no I/O.
///
/// Each byte is looked at once, however small the writes are; the JSON parser
/// sees the text once, when it is complete.
#[derive(Debug)]
pub struct ValueReader {
    record: &'static str,
    most: usize,
    json: Vec<u8>,
    depth: u32,
    place: Place,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between values; before the first one if the depth is 0.
    #[default]
    Outside,
    /// In a string.
    Text,
    /// Behind a backslash in a string.
    Escaped,
}

impl ValueReader {
    /// One of a record of at most `most` bytes; `record` names it in errors.
    #[must_use]
    pub fn new(record: &'static str, most: usize) -> Self {
        Self {
            record,
            most,
            json: Vec::new(),
            depth: 0,
            place: Place::Outside,
        }
    }

    /// Takes the next bytes. Once the value is complete: how many of `data`
    /// belong to it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no object or too long. Nothing is to be
    /// pushed after that.
    pub fn push(&mut self, data: &[u8]) -> Result<Option<usize>, Error> {
        let end = self.end_of_value(data)?;
        let part = &data[..end.unwrap_or(data.len())];
        if self.json.len() + part.len() > self.most {
            return self.invalid(format!("too long: at most {} bytes", self.most));
        }
        self.json.extend_from_slice(part);
        Ok(end)
    }

    /// What was collected, once it is complete.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not the record.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.json).map_err(|source| Error::Malformed {
            record: self.record,
            source,
        })
    }

    /// How many bytes of `data` belong to the value, if it ends in them.
    ///
    /// Brackets are counted, not matched: a value with wrong ones ends
    /// somewhere too, and then the parser says what is wrong with it.
    fn end_of_value(&mut self, data: &[u8]) -> Result<Option<usize>, Error> {
        for (at, byte) in data.iter().enumerate() {
            self.place = match (self.place, byte) {
                (Place::Text, b'\\') => Place::Escaped,
                (Place::Text, b'"') => Place::Outside,
                (Place::Text | Place::Escaped, _) => Place::Text,
                (Place::Outside, b'"') if self.depth > 0 => Place::Text,
                (Place::Outside, b'{' | b'[') if self.depth > 0 || *byte == b'{' => {
                    self.depth += 1;
                    Place::Outside
                }
                (Place::Outside, b'}' | b']') if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(at + 1));
                    }
                    Place::Outside
                }
                (Place::Outside, byte) if self.depth > 0 || byte.is_ascii_whitespace() => {
                    Place::Outside
                }
                (Place::Outside, _) => return self.invalid("a JSON object is expected".into()),
            };
        }
        Ok(None)
    }

    fn invalid<T>(&self, problem: String) -> Result<T, Error> {
        Err(Error::Invalid {
            record: self.record,
            field: "JSON",
            problem,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{CallId, EventFormat, Octets};

    fn read(pieces: &[&[u8]]) -> Result<Option<(ToolCall, usize)>, Error> {
        let mut reader = CallReader::default();
        for piece in pieces {
            if let Some(found) = reader.push(piece)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    #[test]
    fn what_follows_the_value_is_not_taken() {
        let data = br#" {"id":"a","tool":"shell","stdin":true,"args":{"code":"}\"{"}}input"#;
        let (call, taken) = read(&[data]).unwrap().unwrap();
        assert_eq!(&data[taken..], b"input");
        assert_eq!(call.args["code"], "}\"{");
    }

    #[test]
    fn only_white_space_may_follow_a_call_without_standard_input() {
        let call = r#"{"id":"a","tool":"shell"}"#;
        let (_, taken) = read(&[format!("{call} \n").as_bytes()]).unwrap().unwrap();
        assert_eq!(taken, call.len() + 2);
        assert!(read(&[format!("{call}x").as_bytes()]).is_err());
    }

    #[test]
    fn what_is_no_object_is_refused_at_its_first_byte() {
        for bad in ["x", "[", "\"", "1", "}", " \n]"] {
            assert!(read(&[bad.as_bytes()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn wrong_brackets_are_an_error_and_not_a_wait_for_more() {
        for bad in ["{]", "{\"id\":[}}", "{}"] {
            assert!(read(&[bad.as_bytes()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_call_that_does_not_end_is_refused_at_the_limit() {
        let mut reader = CallReader::default();
        reader.push(b"{\"id\":\"").unwrap();
        let piece = vec![b'x'; 64 * 1024];
        let mut pushed = 0;
        while reader.push(&piece).is_ok() {
            pushed += piece.len();
            assert!(pushed <= limits::CALL_MAX);
        }
    }

    fn octets() -> impl Strategy<Value = Octets> {
        proptest::collection::vec(1u8.., 1..20).prop_map(Octets::from)
    }

    prop_compose! {
        fn call()(
            id in "[A-Za-z0-9_-]{1,64}",
            tool in "\\PC*",
            args in proptest::collection::btree_map("\\PC*", "(?s:.*)", 0..4),
            cwd in proptest::option::of(octets()),
            env in proptest::collection::btree_map("[a-z]{1,9}", octets(), 0..4),
            timeout_ms in proptest::option::of(any::<u64>()),
            grace_ms in proptest::option::of(0u64..=60_000),
            stdin in any::<bool>(),
            raw in any::<bool>(),
        ) -> Option<ToolCall> {
            let mut call = ToolCall::new(CallId::new(id).ok()?, &tool);
            call.args = args.into_iter().map(|(name, text)| (name, text.into())).collect();
            (call.cwd, call.env) = (cwd, env);
            (call.timeout_ms, call.grace_ms, call.stdin) = (timeout_ms, grace_ms, stdin);
            call.events = if raw { EventFormat::Raw } else { EventFormat::Json };
            Some(call)
        }
    }

    proptest! {
        #[test]
        fn every_call_comes_back_however_the_writes_are_cut(
            call in call(),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
            input in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let Some(call) = call else { return Ok(()) };
            let mut bytes = serde_json::to_vec(&call).unwrap();
            let length = bytes.len();
            if call.stdin {
                bytes.extend(&input);
            }
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut reader = CallReader::default();
            let mut before = 0;
            for pair in cuts.windows(2) {
                if let Some((back, taken)) = reader.push(&bytes[pair[0]..pair[1]]).unwrap() {
                    prop_assert_eq!(back, call);
                    prop_assert_eq!(before + taken, length);
                    return Ok(());
                }
                before = pair[1];
            }
            prop_assert!(false, "the call was not found");
        }

        #[test]
        fn any_bytes_in_any_pieces_end_alike(
            bytes in proptest::collection::vec(prop_oneof![
                Just(b'{'), Just(b'}'), Just(b'"'), Just(b'\\'), Just(b'['), any::<u8>()
            ], 0..60),
            cut in any::<proptest::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            let kind = |result: Result<Option<(ToolCall, usize)>, Error>| match result {
                Ok(found) => Ok(found.is_some()),
                Err(_) => Err(()),
            };
            prop_assert_eq!(kind(read(&[&bytes])), kind(read(&[first, second])));
        }
    }
}
