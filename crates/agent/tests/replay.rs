//! Recorded transcripts.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Duration;

use futures_util::StreamExt as _;
use ollie_agent::backends::{Replay, SetupError};
use ollie_agent::{
    Backend, BackendError, Delta, Entry, History, Origin, Reply, Request, Sampling, StopReason,
    Usage,
};

const TWO: &str = r#"
{"note": "The first reply makes two calls."}
{"reasoning": "Hm."}
{"text": "I look."}
{"call": {"name": "shell", "arguments": {"code": "true"}}}
{"call": {"name": "shell", "arguments": "{no json", "id": "b"}}
{"usage": {"input": 3, "output": 4}}
{"stop": "tool_calls"}

{"text": "Half"}
{"fail": {"message": "the line went dead"}}
{"fail": {"status": 429, "message": "slow down", "retry_after_ms": 1500}}
{"wait_ms": 60000}
{"text": "Done."}
{"stop": "end"}
"#;

fn replay(recording: &str) -> Replay {
    Replay::parse("replay", "two.jsonl", recording).unwrap()
}

fn history(replies: usize) -> History {
    let reply = || {
        Entry::Reply(Reply {
            text: "said".into(),
            reasoning: Vec::new(),
            calls: Vec::new(),
            made_by: Origin {
                backend: "replay".into(),
                model: "m".into(),
            },
        })
    };
    let user = Entry::User { text: "Hi".into() };
    let entries = std::iter::once(user).chain(std::iter::repeat_with(reply).take(replies));
    History::from_entries(entries).unwrap()
}

async fn next(replay: &Replay, history: &History) -> (Vec<Delta>, Option<BackendError>) {
    let request = Request {
        model: Replay::MODEL,
        system: "",
        history,
        tools: &[],
        sampling: &Sampling::default(),
    };
    let mut deltas = Vec::new();
    match replay.stream(request).await {
        Err(error) => return (deltas, Some(error)),
        Ok(mut stream) => {
            while let Some(next) = stream.next().await {
                match next {
                    Ok(delta) => deltas.push(delta),
                    Err(error) => return (deltas, Some(error)),
                }
            }
        }
    }
    (deltas, None)
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn call(index: u32, id: &str, arguments: &str) -> [Delta; 2] {
    [
        Delta::CallStart {
            index,
            id: id.into(),
            name: "shell".into(),
        },
        Delta::CallArguments {
            index,
            fragment: arguments.into(),
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn each_request_gets_the_next_reply_and_then_there_are_none() {
    let replay = replay(TWO);
    assert_eq!(replay.replies(), 2);
    let history = history(0);

    let (deltas, error) = next(&replay, &history).await;
    assert!(error.is_none(), "{error:?}");
    let thought = Delta::Reasoning {
        text: "Hm.".into(),
        signature: None,
        data: None,
    };
    let usage = Usage {
        input: 3,
        output: 4,
        ..Usage::default()
    };
    let mut expected = vec![thought, text("I look.")];
    expected.extend(call(0, "", r#"{"code": "true"}"#));
    expected.extend(call(1, "b", "{no json"));
    expected.extend([Delta::Usage(usage), Delta::Stop(StopReason::ToolCalls)]);
    assert_eq!(deltas, expected);

    let (deltas, error) = next(&replay, &history).await;
    assert_eq!(deltas, [text("Half")]);
    assert!(
        matches!(error, Some(BackendError::Dropped { .. })),
        "{error:?}"
    );

    let (deltas, error) = next(&replay, &history).await;
    assert_eq!(deltas, []);
    assert_eq!(
        error.unwrap().retry_after(),
        Some(Duration::from_millis(1500))
    );

    let begun = tokio::time::Instant::now();
    let (deltas, _) = next(&replay, &history).await;
    assert_eq!(deltas, [text("Done."), Delta::Stop(StopReason::End)]);
    assert_eq!(begun.elapsed(), Duration::from_secs(60));

    for _ in 0..2 {
        let (deltas, error) = next(&replay, &history).await;
        assert_eq!(deltas, []);
        assert!(matches!(error, Some(BackendError::Exhausted)), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_session_goes_on_where_it_was() {
    // One reply is in the history: what failed comes next.
    let (deltas, _) = next(&replay(TWO), &history(1)).await;
    assert_eq!(deltas, [text("Half")]);
    for replies in [2, 3] {
        let (_, error) = next(&replay(TWO), &history(replies)).await;
        assert!(matches!(error, Some(BackendError::Exhausted)), "{error:?}");
    }
}

#[test]
fn a_line_that_cannot_be_played_is_named() {
    let stop = "{\"stop\":\"end\"}\n";
    for (recording, line, says) in [
        ("", 1, "no reply"),
        ("{\"note\":\"nothing\"}\n", 1, "no reply"),
        ("{\"text\":\"a\"}\n", 1, "stop"),
        ("{\"stop\":\"end\"}\n{\"text\":\"a\"}\n\n", 3, "stop"),
        ("\n{\"txet\":\"a\"}\n", 2, "txet"),
        ("{\"text\":\"a\",\"stop\":\"end\"}\n", 1, "line 1"),
        ("{\"text\":1}\n", 1, "string"),
        ("{\"stop\":\"soon\"}\n", 1, "soon"),
        ("{\"wait_ms\":60001}\n", 1, "60000"),
        ("{\"call\":{\"name\":\"a\"}}\n", 1, "arguments"),
        (
            "{\"call\":{\"name\":\"a\",\"arguments\":{},\"x\":1}}\n",
            1,
            "x",
        ),
        ("no json\n", 1, "expected"),
    ] {
        let error = Replay::parse("replay", "it.jsonl", recording).unwrap_err();
        let SetupError::Recording {
            line: at, problem, ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(*at, line, "{recording}");
        assert!(problem.contains(says), "{recording}: {problem}");
        assert!(error.to_string().starts_with("it.jsonl, line "), "{error}");
    }
    assert_eq!(replay(stop).replies(), 1);
}

/// What a person without a key sees first.
#[tokio::test(start_paused = true)]
async fn the_tour_plays_to_its_end() {
    let tour = include_str!("../../../examples/tour.jsonl");
    let replay = replay(tour);
    let history = history(0);
    let mut ends = Vec::new();
    for _ in 0..replay.replies() {
        let (deltas, error) = next(&replay, &history).await;
        assert!(error.is_none(), "{error:?}");
        let Some(Delta::Stop(reason)) = deltas.last() else {
            panic!("{deltas:?}");
        };
        let calls = deltas
            .iter()
            .any(|it| matches!(it, Delta::CallStart { .. }));
        assert_eq!(*reason == StopReason::ToolCalls, calls, "{deltas:?}");
        ends.push(calls);
    }
    // Two turns: each works, then says how it went.
    assert_eq!(ends, [true, true, true, true, true, false, true, false]);
}
