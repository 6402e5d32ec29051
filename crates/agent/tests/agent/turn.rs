//! Turns from the prompt to their end.

use std::time::Duration;

use crate::world::{Answer, Step, World, calls, config, says, stop, text};
use ollie_agent::{
    BackendError, Checkpoint, Delta, Error, Event, Hooks, Reasoning, State, StopReason, TurnEnd,
    Usage, Visible,
};

#[tokio::test(start_paused = true)]
async fn a_turn_tells_its_events_in_order() {
    let usage = Usage {
        input: 10,
        output: 5,
        cached_input: 0,
        reasoning: 0,
    };
    let mut world = World::new([
        Answer::Stream(vec![
            text("I "),
            text("look."),
            Step::Delta(Delta::CallStart {
                index: 0,
                id: "a".into(),
                name: "look".into(),
            }),
            Step::Delta(Delta::CallArguments {
                index: 0,
                fragment: r#"{"s":"#.into(),
            }),
            Step::Delta(Delta::CallArguments {
                index: 0,
                fragment: "1}".into(),
            }),
            stop(StopReason::ToolCalls),
            Step::Delta(Delta::Usage(usage)),
        ]),
        says("Done."),
    ]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let lines: Vec<_> = world
        .events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap())
        .collect();
    let expected = [
        r#"{"type":"user","text":"go"}"#,
        r#"{"type":"state","state":"thinking"}"#,
        r#"{"type":"assistant","text":"I "}"#,
        r#"{"type":"assistant","text":"look."}"#,
        r#"{"type":"usage","input":10,"output":5,"cached_input":0,"reasoning":0}"#,
        r#"{"type":"call","id":"a","name":"look","arguments":"{\"s\":1}"}"#,
        r#"{"type":"tool","id":"a","chunk":""}"#,
        r#"{"type":"state","state":"calling:look"}"#,
        r#"{"type":"tool","id":"a","chunk":"<look>"}"#,
        r#"{"type":"tool_result","id":"a","ok":true}"#,
        r#"{"type":"state","state":"thinking"}"#,
        r#"{"type":"assistant","text":"Done."}"#,
        r#"{"type":"turn","outcome":"done"}"#,
    ];
    assert_eq!(lines, expected);
    assert_eq!(
        world.history(),
        [
            "user: go",
            "reply: I look.",
            r#"look -> result of look {"s":1}"#,
            "reply: Done."
        ]
    );
    assert_eq!(world.agent.usage(), usage);
    let asked = world.model.asked.lock().unwrap();
    assert_eq!(asked[0].0, "You help.");
    assert_eq!(asked[0].2, ["look", "touch", "fail", "flood"]);
}

#[tokio::test(start_paused = true)]
async fn prompts_wait_their_turn_and_can_be_taken_back() {
    let slow = || {
        Answer::Stream(vec![
            Step::Wait(Duration::from_secs(9)),
            text("ok"),
            stop(StopReason::End),
        ])
    };
    let mut world = World::new([slow(), slow(), slow()]);
    world.agent.prompt("one").unwrap();
    assert!(world.agent.state().is_busy());
    let two = world.agent.prompt("two").unwrap();
    world.agent.prompt(" three\n").unwrap();
    for _ in 0..2 {
        let queue = world.agent.queue();
        let texts: Vec<_> = queue.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["two", " three\n"]);
    }
    world.agent.remove(two).unwrap();
    assert!(matches!(world.agent.remove(two), Err(Error::NotQueued(_))));
    assert!(matches!(world.agent.clear(), Err(Error::Busy)));
    assert!(matches!(world.agent.resume(), Err(Error::Busy)));
    assert!(matches!(world.agent.prompt(" \n"), Err(Error::EmptyPrompt)));
    world.turn_end().await;
    world.turn_end().await;
    assert_eq!(world.history()[2], "user:  three\n");
    assert!(world.agent.queue().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_queue_has_an_end() {
    let mut config = config();
    config.limits.queue = 1;
    config.limits.prompt_bytes = 5;
    let world = World::with([], config, Checkpoint::default(), Duration::ZERO);
    world.agent.prompt("one").unwrap();
    world.agent.prompt("two").unwrap();
    assert!(matches!(
        world.agent.prompt("more"),
        Err(Error::QueueFull(1))
    ));
    assert!(matches!(
        world.agent.prompt("longer"),
        Err(Error::LongPrompt { length: 6, most: 5 })
    ));
}

#[tokio::test(start_paused = true)]
async fn while_the_hands_are_reached_the_state_is_connecting() {
    let mut world = World::with(
        [says("ok")],
        config(),
        Checkpoint::default(),
        Duration::from_secs(3),
    );
    world.turn("go").await;
    let states: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::State { state } => Some(state.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(states, ["thinking", "connecting", "thinking"]);
    assert_eq!(world.agent.state(), State::Idle);
}

#[tokio::test(start_paused = true)]
async fn a_hook_adds_what_it_prints() {
    let mut config = config();
    config.hooks.pre_turn = vec!["0 it is Monday".into(), "7 oops".into(), "255 ".into()];
    let mut world = World::with([says("ok")], config, Checkpoint::default(), Duration::ZERO);
    world.turn("go").await;
    assert_eq!(
        world.history(),
        ["user: go", "note: it is Monday", "reply: ok"]
    );
    let told = world.told();
    assert!(told.contains("status 7: oops"), "{told}");
    assert!(told.contains("ended after 60 s"), "{told}");
    let hooks = world.hands.hooks.lock().unwrap();
    let stdin: serde_json::Value = serde_json::from_str(&hooks[0].1).unwrap();
    assert_eq!(
        stdin,
        serde_json::json!({"event": "preTurn", "session": "s1", "agent": "default",
            "model": "m", "prompt": "go"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_keeps_a_prompt_from_the_model() {
    let mut config = config();
    config.hooks.pre_turn = vec!["2 not today".into(), "0 never run".into()];
    let mut world = World::with([], config, Checkpoint::default(), Duration::ZERO);
    assert_eq!(world.turn("go").await, TurnEnd::Failed);
    assert!(world.history().is_empty());
    assert!(world.told().contains("not today"));
    assert_eq!(world.hands.hooks.lock().unwrap().len(), 1);
    assert!(world.model.asked.lock().unwrap().is_empty());
    assert!(world.agent.checkpoint().queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hook_sends_the_model_back_to_work_three_times() {
    let mut config = config();
    config.hooks = Hooks {
        pre_turn: Vec::new(),
        post_turn: vec!["2 the tests fail".into()],
    };
    let replies = (0..9).map(|_| says("done"));
    let mut world = World::with(replies, config, Checkpoint::default(), Duration::ZERO);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    assert_eq!(world.model.asked.lock().unwrap().len(), 4);
    let note = "note: The work is not finished yet: the tests fail";
    assert_eq!(world.history()[1..3], ["reply: done", note]);
    assert_eq!(world.history().last().unwrap(), "reply: done");
}

#[tokio::test(start_paused = true)]
async fn a_restart_takes_up_what_was_begun() {
    let mut world = World::new([calls(&[("look", r#"{"s":1}"#)])]);
    world.turn("go").await;
    // The model has no further reply; what it had done was saved.
    world.agent.end().await;
    let saved = world.agent.checkpoint();
    let stored = serde_json::to_string(&saved).unwrap();
    let from: Checkpoint = serde_json::from_str(&stored).unwrap();
    assert_eq!(from, saved);

    let mut world = World::with([says("done")], config(), from, Duration::ZERO);
    assert_eq!(world.agent.state(), State::Idle);
    world.agent.resume().unwrap();
    assert_eq!(world.turn_end().await, TurnEnd::Done);
    assert_eq!(
        world.history(),
        [
            "user: go",
            r#"look -> result of look {"s":1}"#,
            "reply: done"
        ]
    );
    assert!(matches!(world.agent.resume(), Err(Error::NothingToResume)));
}

#[tokio::test(start_paused = true)]
async fn reasoning_keeps_its_blocks_and_its_signatures() {
    let piece = |text: &str, signature: Option<&str>| {
        Step::Delta(Delta::Reasoning {
            text: text.into(),
            signature: signature.map(str::to_owned),
            data: None,
        })
    };
    let mut world = World::new([Answer::Stream(vec![
        piece("a", None),
        piece("b", None),
        piece("", Some("s1")),
        piece("c", Some("s2")),
        text("ok"),
        stop(StopReason::End),
    ])]);
    world.turn("go").await;
    let history = world.agent.history();
    let Some(ollie_agent::Entry::Reply(reply)) = history.entries().next_back() else {
        panic!("{history:?}");
    };
    let block = |text: &str, signature: &str| Reasoning {
        text: text.into(),
        signature: Some(signature.into()),
        data: None,
    };
    assert_eq!(reply.reasoning, [block("ab", "s1"), block("c", "s2")]);
    assert_eq!(reply.made_by.backend, "scripted");
}

#[tokio::test(start_paused = true)]
async fn every_tool_is_shown_where_none_is_named() {
    let mut config = config();
    config.tools = Visible::All;
    let mut world = World::with([says("ok")], config, Checkpoint::default(), Duration::ZERO);
    world.turn("go").await;
    assert_eq!(world.model.asked.lock().unwrap()[0].2.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_agent_is_final() {
    let mut world = World::new([Answer::Stream(vec![
        text("half"),
        Step::Wait(Duration::from_secs(3600)),
    ])]);
    world.agent.prompt("go").unwrap();
    world
        .until(|it| matches!(it, Event::Assistant { .. }))
        .await;
    world.agent.end().await;
    assert!(matches!(world.agent.prompt("more"), Err(Error::Ended)));
    assert_eq!(world.turn_end().await, TurnEnd::Stopped);
    assert_eq!(world.history()[..2], ["user: go", "reply: half"]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_a_running_call() {
    let mut world = World::new([calls(&[("touch", r#"{"s":99}"#)])]);
    world.agent.prompt("go").unwrap();
    world.until(|it| matches!(it, Event::Tool { .. })).await;
    tokio::task::yield_now().await;
    let (ended, hands) = (world.agent.clone(), world.hands.clone());
    let waiting = tokio::spawn(async move { ended.ended().await });
    waiting.abort();
    let _ = waiting.await;
    drop(world);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let log = hands.log.lock().unwrap();
    assert_eq!(log.last().unwrap().0, r#"cancel touch {"s":99}"#);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_is_told_at_once() {
    let mut world = World::new([Answer::Refuse(BackendError::Authentication {
        message: "set OPENAI_API_KEY".into(),
    })]);
    world.agent.prompt("one").unwrap();
    world.agent.prompt("two").unwrap();
    assert_eq!(world.turn_end().await, TurnEnd::Failed);
    assert!(world.told().contains("OPENAI_API_KEY"));
    assert_eq!(world.agent.state(), State::Failed);
    // The next prompt would fail as well: it waits.
    assert_eq!(world.agent.queue()[0].text, "two");
    assert_eq!(world.model.asked.lock().unwrap().len(), 1);
}
