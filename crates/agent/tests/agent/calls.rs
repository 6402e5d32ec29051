//! Calls: their order, their results, and what a stop leaves of them.

use std::time::Duration;

use ollie_agent::{Checkpoint, Delta, Entry, Event, StopReason, TurnEnd, Usage};

use crate::world::{Answer, Step, World, calls, config, says, stop, text};

/// Begin and end of each call with the second it happened in.
fn log(world: &World) -> Vec<(String, u32)> {
    let log = world.hands.log.lock().unwrap();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few seconds"
    )]
    log.iter()
        .map(|(what, at)| (what.clone(), at.round() as u32))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn reads_run_side_by_side_and_writes_alone_in_the_models_order() {
    let mut world = World::new([
        calls(&[
            ("look", r#"{"s":3}"#),
            ("look", r#"{"s":1}"#),
            ("touch", r#"{"s":2}"#),
            ("touch", r#"{"s":1}"#),
            ("look", r#"{"s":2}"#),
        ]),
        says("ok"),
    ]);
    world.turn("go").await;
    let expected = [
        (r#"begin look {"s":3}"#, 0),
        (r#"begin look {"s":1}"#, 0),
        (r#"end look {"s":1}"#, 1),
        (r#"end look {"s":3}"#, 3),
        (r#"begin touch {"s":2}"#, 3),
        (r#"end touch {"s":2}"#, 5),
        (r#"begin touch {"s":1}"#, 5),
        (r#"end touch {"s":1}"#, 6),
        (r#"begin look {"s":2}"#, 6),
        (r#"end look {"s":2}"#, 8),
    ];
    assert_eq!(
        log(&world),
        expected.map(|(what, at)| (what.to_owned(), at))
    );
    assert_eq!(
        world.history()[1..6],
        [
            r#"look -> result of look {"s":3}"#,
            r#"look -> result of look {"s":1}"#,
            r#"touch -> result of touch {"s":2}"#,
            r#"touch -> result of touch {"s":1}"#,
            r#"look -> result of look {"s":2}"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_than_allowed_run_at_once() {
    let arguments: Vec<_> = (0..20).map(|n| format!(r#"{{"s":1,"n":{n}}}"#)).collect();
    let list: Vec<_> = arguments.iter().map(|it| ("look", it.as_str())).collect();
    let mut world = World::new([calls(&list), says("ok")]);
    world.turn("go").await;
    let mut running = 0;
    let mut most = 0;
    for (what, _) in log(&world) {
        running += if what.starts_with("begin") { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!(most, 8);
    // Three waves of a second.
    assert_eq!(log(&world).last().unwrap().1, 3);
}

#[tokio::test(start_paused = true)]
async fn identical_reads_run_once_and_all_get_the_result() {
    let mut world = World::new([
        calls(&[
            ("look", r#"{"s":1,"a":2}"#),
            ("look", r#"{ "a": 2, "s": 1 }"#),
            ("touch", r#"{"s":1}"#),
            ("touch", r#"{"s":1}"#),
            ("look", r#"{"s":1,"a":2}"#),
        ]),
        says("ok"),
    ]);
    world.turn("go").await;
    let begun: Vec<_> = log(&world)
        .into_iter()
        .filter_map(|(what, _)| what.strip_prefix("begin ").map(str::to_owned))
        .collect();
    // A write in between may have changed what the last one sees.
    let look = r#"look {"s":1,"a":2}"#;
    let touch = r#"touch {"s":1}"#;
    assert_eq!(begun, [look, touch, touch, look]);
    let history = world.history();
    assert_eq!(history[1], history[2]);
    let same: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ToolResult { facts, .. } => facts.same_as.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(same.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_made_tells_the_model_what_to_do() {
    let mut world = World::new([
        calls(&[
            ("lok", "{}"),
            ("hidden", "{}"),
            ("look", "{\"s\":"),
            ("look", "[1]"),
            ("a b", "{}"),
            ("", "{}"),
            ("look", ""),
        ]),
        says("ok"),
    ]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let history = world.history();
    for (line, words) in history[1..].iter().zip([
        r#"lok -> !The tool "lok" does not exist. The tools are: look, touch, fail, flood."#,
        r#"hidden -> !The tool "hidden" is not loaded here. The tools are:"#,
        "look -> !Not made: the arguments are not valid JSON: EOF",
        "look -> !Not made: the arguments are not a JSON object",
        r#"a_b -> !The tool "a b" does not exist"#,
        r#"unnamed -> !The tool "" does not exist"#,
        "look -> result of look ",
        "reply: ok",
    ]) {
        assert!(line.starts_with(words), "{line}");
    }
    // All of them are told to the person as well.
    let results = world.events.iter().filter_map(|event| match event {
        Event::ToolResult { ok, .. } => Some(*ok),
        _ => None,
    });
    assert_eq!(results.filter(|ok| !ok).count(), 6);
}

#[tokio::test(start_paused = true)]
async fn ids_are_made_unique() {
    let start = |index, id: &str| {
        Step::Delta(Delta::CallStart {
            index,
            id: id.into(),
            name: "look".into(),
        })
    };
    let same = || {
        Answer::Stream(vec![
            start(0, "x"),
            start(1, "x"),
            start(2, ""),
            stop(StopReason::ToolCalls),
        ])
    };
    let mut world = World::new([same(), same(), says("ok")]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let history = world.agent.history();
    let ids: std::collections::BTreeSet<_> = history
        .entries()
        .filter_map(|entry| match entry {
            Entry::Reply(reply) => Some(reply.calls.iter().map(|it| it.call.id.clone())),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(ids.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_token_limit_cut_is_not_made() {
    let mut world = World::new([
        Answer::Stream(vec![
            Step::Delta(Delta::CallStart {
                index: 0,
                id: "a".into(),
                name: "look".into(),
            }),
            Step::Delta(Delta::CallStart {
                index: 1,
                id: "b".into(),
                name: "touch".into(),
            }),
            Step::Delta(Delta::CallArguments {
                index: 1,
                fragment: r#"{"text":"very lon"#.into(),
            }),
            stop(StopReason::Length),
        ]),
        says("ok"),
    ]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let history = world.history();
    assert_eq!(history[1], "look -> result of look ");
    assert!(history[2].starts_with("touch -> !Not made: the reply was cut short"));
    assert!(!log(&world).iter().any(|(what, _)| what.contains("touch")));
}

#[tokio::test(start_paused = true)]
async fn a_stop_keeps_what_is_finished() {
    let mut world = World::new([
        calls(&[
            ("look", r#"{"s":1}"#),
            ("look", r#"{"s":9}"#),
            ("touch", r#"{"s":1}"#),
        ]),
        says("after"),
    ]);
    world.agent.prompt("go").unwrap();
    world.agent.prompt("next").unwrap();
    world
        .until(|it| matches!(it, Event::ToolResult { .. }))
        .await;
    assert!(world.agent.stop());
    assert_eq!(world.turn_end().await, TurnEnd::Stopped);
    assert_eq!(world.turn_end().await, TurnEnd::Done);
    assert_eq!(
        log(&world).last().unwrap().0,
        r#"cancel look {"s":9}"#,
        "the running one was ended, the waiting one not begun"
    );
    let history = world.history();
    assert_eq!(history[1], r#"look -> result of look {"s":1}"#);
    assert!(history[2].starts_with("look -> !This call was stopped"));
    assert!(history[2].ends_with("<look>"), "its output until then");
    assert!(history[3].starts_with("touch -> !Not made: the turn was stopped"));
    assert_eq!(history[4..], ["user: next", "reply: after"]);
    // Every call that is told has its result.
    let count = |wanted: fn(&Event) -> bool| world.events.iter().filter(|it| wanted(it)).count();
    assert_eq!(count(|it| matches!(it, Event::Call { .. })), 3);
    assert_eq!(count(|it| matches!(it, Event::ToolResult { .. })), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stop_keeps_the_text_so_far() {
    let usage = Usage {
        input: 30,
        ..Usage::default()
    };
    let mut world = World::new([Answer::Stream(vec![
        Step::Delta(Delta::Usage(usage)),
        text("One, two"),
        Step::Delta(Delta::CallStart {
            index: 0,
            id: "a".into(),
            name: "touch".into(),
        }),
        Step::Wait(Duration::from_secs(60)),
    ])]);
    world.agent.prompt("count").unwrap();
    world
        .until(|it| matches!(it, Event::Assistant { .. }))
        .await;
    world.agent.stop();
    assert_eq!(world.turn_end().await, TurnEnd::Stopped);
    assert_eq!(
        world.history(),
        [
            "user: count",
            "reply: One, two",
            "note: This reply was stopped here."
        ]
    );
    assert_eq!(world.saved.history, world.agent.history());
    assert_eq!(world.saved.usage.input, 30);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_output_has_an_end() {
    let mut settings = config();
    settings.limits.streamed_bytes = 10_000;
    let mut world = World::with(
        [calls(&[("flood", "")]), says("ok")],
        settings,
        Checkpoint::default(),
        Duration::ZERO,
    );
    world.turn("go").await;
    let chunks: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Tool { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        })
        .collect();
    let told = chunks.concat();
    assert_eq!(told.matches('x').count(), 10_000);
    assert!(told.ends_with("[more output than is shown here]\n"));
}

#[tokio::test(start_paused = true)]
async fn a_long_result_is_cut_in_the_middle() {
    let mut settings = config();
    settings.limits.outcome_bytes = 20;
    let mut world = World::with(
        [calls(&[("look", r#"{"a":"0123456789"}"#)]), says("ok")],
        settings,
        Checkpoint::default(),
        Duration::ZERO,
    );
    world.turn("go").await;
    // `result of look {"a":"0123456789"}` has 33 bytes.
    let expected = "look -> result of \n[13 bytes are left out here]\n23456789\"}";
    assert_eq!(world.history()[1], expected);
}

#[tokio::test(start_paused = true)]
async fn a_reply_holds_so_many_calls() {
    let mut settings = config();
    settings.limits.calls = 2;
    let mut world = World::with(
        [
            calls(&[("touch", "{}"), ("look", "{}"), ("look", "{}")]),
            says("ok"),
        ],
        settings,
        Checkpoint::default(),
        Duration::ZERO,
    );
    world.turn("go").await;
    assert!(world.history()[3].contains("a reply may hold 2 calls"));
    assert_eq!(log(&world).len(), 4);
}
