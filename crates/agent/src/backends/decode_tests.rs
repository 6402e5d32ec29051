//! Every decoder against recorded streams, which were written from the
//! providers' documentation, and against every way of cutting them.

use proptest::prelude::*;

use super::decode::{Decode, Progress};
use super::{anthropic, ollama, openai};
use crate::{BackendError, Delta};

/// All that a stream gives, fed in these chunks.
fn decode(decoder: &mut dyn Decode, chunks: &[&[u8]]) -> (Vec<Delta>, Option<String>) {
    let mut deltas = Vec::new();
    let mut all = || {
        for chunk in chunks {
            decoder.feed(chunk, &mut deltas)?;
        }
        decoder.finish(&mut deltas)
    };
    let error = all().err().map(|error| kind(&error));
    (deltas, error)
}

fn kind(error: &BackendError) -> String {
    let text = format!("{error:?}");
    let end = text.find([' ', '{']).unwrap_or(text.len());
    text.split_at(end).0.to_owned()
}

/// The deltas as lines; pieces of the same thing are put together.
fn told(deltas: &[Delta]) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for delta in deltas {
        let (head, tail) = match delta {
            Delta::Text(text) => ("text".into(), text.clone()),
            Delta::Reasoning {
                text,
                signature: None,
                data: None,
            } => ("thinks".into(), text.clone()),
            Delta::Reasoning {
                text,
                signature,
                data,
            } => {
                assert!(text.is_empty());
                let data = data.as_ref().map(ToString::to_string);
                let sealed = signature.clone().or(data).unwrap_or_default();
                (format!("sealed {sealed}"), String::new())
            }
            Delta::CallStart { index, id, name } => {
                (format!("call {index} {name} id={id}"), String::new())
            }
            Delta::CallArguments { index, fragment } => {
                (format!("arguments {index}"), fragment.clone())
            }
            Delta::Usage(usage) => {
                let (input, output) = (usage.input, usage.output);
                let (cached, reasoning) = (usage.cached_input, usage.reasoning);
                let words = format!("usage {input} ({cached}) {output} ({reasoning})");
                (words, String::new())
            }
            Delta::Stop(reason) => (format!("stop {reason:?}"), String::new()),
        };
        match lines.last_mut() {
            Some((last, text)) if *last == head => text.push_str(&tail),
            _ => lines.push((head, tail)),
        }
    }
    let lines = lines.into_iter().map(|(head, tail)| match tail.as_str() {
        "" => head,
        tail => format!("{head}: {tail:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

struct Fixture {
    name: &'static str,
    bytes: &'static [u8],
    decoder: fn() -> Box<dyn Decode>,
    error: Option<&'static str>,
    told: &'static str,
}

macro_rules! fixture {
    ($provider:ident, $file:literal, $error:expr, $told:literal) => {
        Fixture {
            name: concat!(stringify!($provider), "/", $file),
            bytes: include_bytes!(concat!(
                "../../tests/fixtures/",
                stringify!($provider),
                "/",
                $file
            )),
            decoder: || Box::new($provider::Decoder::default()),
            error: $error,
            told: $told,
        }
    };
}

fn fixtures() -> Vec<Fixture> {
    vec![
        fixture!(
            openai,
            "text.sse",
            None,
            r#"text: "Crab 🦀 and 🦀,\n\"quoted\"\\."
usage 19 (16) 10 (4)
stop End"#
        ),
        fixture!(
            openai,
            "calls.sse",
            None,
            r#"call 0 file_read id=call_a
arguments 0: "{\"pa"
call 1 shell id=call_b
arguments 1: "{\"code\":\"printf '\\\\u00e9"
arguments 0: "th\":\"é.txt\"}"
call 2 plan_show id=call_c
arguments 1: "'\"}"
arguments 2: "{}"
stop ToolCalls"#
        ),
        fixture!(
            openai,
            "reasoning_without_done.sse",
            None,
            r#"thinks: "Thinking."
text: "Cut"
usage 5 (0) 3 (0)
sealed {"field":"reasoning_content"}
stop Length"#
        ),
        fixture!(
            openai,
            "keep_alive_details.sse",
            None,
            r#"thinks: "First second."
text: "Done."
usage 7 (0) 9 (5)
sealed {"reasoning_details":[{"format":"anthropic-claude-v1","index":0,"signature":"c2ln","text":"First second.","type":"reasoning.text"},{"data":"ZW5j","format":"anthropic-claude-v1","index":1,"type":"reasoning.encrypted"}]}
stop End"#
        ),
        fixture!(
            openai,
            "calls_without_index_or_id.sse",
            None,
            r#"call 0 shell id=
arguments 0: "{\"code\":\"a\"}"
call 1 shell id=
arguments 1: "{\"code\":\"b\"}"
call 2 file_read id=
arguments 2: "{\"path\":\"c\"}"
usage 1 (0) 2 (0)
stop ToolCalls"#
        ),
        fixture!(
            openai,
            "calls_all_of_index_zero.sse",
            None,
            r#"call 0 shell id=a
arguments 0: "{\"code\":\"1\"}"
call 1 shell id=b
arguments 1: "{\"code\":\"2\"}"
stop ToolCalls"#
        ),
        fixture!(
            openai,
            "error_in_the_middle.sse",
            Some("Server"),
            r#"text: "Half""#
        ),
        fixture!(
            openai,
            "error_event.sse",
            Some("ContextTooLong"),
            r#"text: "Half""#
        ),
        fixture!(openai, "cut.sse", Some("Dropped"), r#"text: "Half""#),
        fixture!(openai, "no_json.sse", Some("Malformed"), r#"text: "Half""#),
        fixture!(
            anthropic,
            "text.sse",
            None,
            r#"usage 425 (300) 1 (0)
text: "Crab 🦀 and 🦀\n"
usage 425 (300) 15 (0)
stop End"#
        ),
        fixture!(
            anthropic,
            "thinking_and_calls.sse",
            None,
            r#"usage 472 (0) 2 (0)
thinks: "I need two files."
sealed EqQBCgIYAhIM1gbcDa9GJwZA==
sealed "EmwKAhgBEgy3va3p"
sealed b21pdHRlZA==
text: "Reading."
call 0 file_read id=toolu_1
arguments 0: "{\"path\": \"a\\u00e9.txt\"}"
call 1 plan_show id=toolu_2
arguments 1: "{}"
usage 472 (0) 89 (40)
stop ToolCalls"#
        ),
        fixture!(
            anthropic,
            "error_in_the_middle.sse",
            Some("Server"),
            r#"usage 1 (0) 1 (0)
text: "Half""#
        ),
        fixture!(
            anthropic,
            "cut.sse",
            Some("Dropped"),
            r#"usage 1 (0) 1 (0)
call 0 shell id=toolu_1
arguments 0: "{\"code\":""#
        ),
        fixture!(
            anthropic,
            "without_stop_event.sse",
            None,
            r#"usage 1 (0) 1 (0)
text: "No"
usage 1 (0) 2 (0)
stop Filtered"#
        ),
        fixture!(
            ollama,
            "text.ndjson",
            None,
            r#"text: "Crab 🦀 and 🦀\n"
usage 26 (0) 282 (0)
stop End"#
        ),
        fixture!(
            ollama,
            "thinking_and_calls.ndjson",
            None,
            r#"thinks: "Two calls."
call 0 shell id=
arguments 0: "{\"code\":\"printf 'é\\\\n'\"}"
call 1 plan_show id=call_x
arguments 1: "{}"
usage 11 (0) 22 (0)
stop ToolCalls"#
        ),
        fixture!(
            ollama,
            "error_in_the_middle.ndjson",
            Some("Server"),
            r#"text: "Half""#
        ),
        fixture!(ollama, "cut.ndjson", Some("Dropped"), r#"text: "Half""#),
        fixture!(
            ollama,
            "length_without_newline.ndjson",
            None,
            r#"text: "Half"
usage 0 (0) 1 (0)
stop Length"#
        ),
    ]
}

#[test]
fn recorded_streams_give_what_their_documentation_says() {
    for fixture in fixtures() {
        let (deltas, error) = decode(&mut *(fixture.decoder)(), &[fixture.bytes]);
        assert_eq!(error.as_deref(), fixture.error, "{}", fixture.name);
        assert_eq!(told(&deltas), fixture.told, "{}", fixture.name);
    }
}

#[test]
fn a_stream_can_come_byte_by_byte() {
    for fixture in fixtures() {
        let bytes: Vec<_> = fixture.bytes.chunks(1).collect();
        assert_eq!(
            decode(&mut *(fixture.decoder)(), &bytes),
            decode(&mut *(fixture.decoder)(), &[fixture.bytes]),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_reply_that_ends_early_is_never_taken_for_a_whole_one() {
    for fixture in fixtures() {
        for at in (0..fixture.bytes.len()).step_by(7) {
            let mut decoder = (fixture.decoder)();
            let (deltas, error) = decode(&mut *decoder, &[fixture.bytes.split_at(at).0]);
            let stopped = matches!(deltas.last(), Some(Delta::Stop(_)));
            assert_eq!(stopped, error.is_none(), "{} up to {at}", fixture.name);
            assert_eq!(decoder.progress() == Progress::Done, stopped);
        }
    }
}

proptest! {
    #[test]
    fn any_cuts_give_the_same_deltas(
        which in 0..fixtures().len(),
        mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let fixture = &fixtures()[which];
        let mut at: Vec<_> = cuts.drain(..).map(|it| it.index(fixture.bytes.len())).collect();
        at.extend([0, fixture.bytes.len()]);
        at.sort_unstable();
        let chunks: Vec<_> = at.windows(2).map(|it| &fixture.bytes[it[0]..it[1]]).collect();
        prop_assert_eq!(
            decode(&mut *(fixture.decoder)(), &chunks),
            decode(&mut *(fixture.decoder)(), &[fixture.bytes])
        );
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(
        chunks in proptest::collection::vec(
            proptest::string::string_regex(
                "(data: |event: error\n|\\{|\\}|\"|:|,|\\[|\\]|null|1|-1|\n|\r|\
                 \"(choices|delta|index|error|type|message|done|tool_calls|function)\":|[a-z ]){0,40}"
            ).expect("an expression"),
            0..6,
        ),
    ) {
        let chunks: Vec<_> = chunks.iter().map(String::as_bytes).collect();
        for decoder in [fixtures()[0].decoder, fixtures()[10].decoder, fixtures()[15].decoder] {
            decode(&mut *decoder(), &chunks);
        }
    }
}
