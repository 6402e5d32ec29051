//! A context that fills up.

use std::time::Duration;

use ollie_agent::{
    BackendError, Checkpoint, Config, Delta, Error, Event, StopReason, TurnEnd, Usage,
};

use crate::world::{Answer, Step, World, calls, config, says, stop, text};

fn small(window: u64) -> Config {
    let mut config = config();
    config.context_window = Some(window);
    config
}

fn counted(input: u64, answer: Answer) -> Answer {
    match answer {
        Answer::Stream(mut steps) => {
            let usage = Usage {
                input,
                ..Usage::default()
            };
            steps.push(Step::Delta(Delta::Usage(usage)));
            Answer::Stream(steps)
        }
        refuse @ Answer::Refuse(_) => refuse,
    }
}

fn too_long() -> Answer {
    Answer::Refuse(BackendError::ContextTooLong {
        message: "maximum context length exceeded".into(),
    })
}

fn world(script: impl IntoIterator<Item = Answer>, config: Config) -> World {
    World::with(script, config, Checkpoint::default(), Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn a_context_is_told_at_60_percent_and_compacted_at_75() {
    let mut world = world(
        [
            counted(500, calls(&[("look", r#"{"a":1}"#)])),
            counted(620, calls(&[("look", r#"{"a":2}"#)])),
            counted(760, calls(&[("look", r#"{"a":3}"#)])),
            counted(50, says("Looked twice.")),
            counted(100, says("done")),
        ],
        small(1000),
    );
    assert_eq!(world.turn("go on").await, TurnEnd::Done);
    let told = world.told();
    assert_eq!(told.matches("% full").count(), 1, "{told}");
    assert!(told.contains("context is 6"), "{told}");
    assert!(told.contains("compacted from 4 to"), "{told}");
    let history = world.history();
    assert_eq!(history[..2], ["summary: Looked twice.", "user: go on"]);
    // The last round is whole.
    assert!(history.contains(&r#"look -> result of look {"a":3}"#.to_owned()));
    assert_eq!(history.last().unwrap(), "reply: done");

    let asked = world.model.asked.lock().unwrap();
    let (system, entries, tools) = &asked[3];
    assert!(system.contains("summary"), "{system}");
    assert!(tools.is_empty());
    let Some(transcript) = entries[0].user_text() else {
        panic!("{entries:?}");
    };
    assert!(transcript.contains("go on") && transcript.contains(r#"{"a":1}"#));
    // Then the system prompt is the agent's again.
    assert_eq!(asked[4].0, "You help.");
    assert!(world.events.contains(&Event::State {
        state: ollie_agent::State::Compacting
    }));
    // What the summary says is no reply.
    assert_eq!(world.seen(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_context_that_is_too_long_is_compacted_once() {
    let mut world = world(
        [
            calls(&[("look", r#"{"a":1}"#)]),
            calls(&[("look", r#"{"a":2}"#)]),
            too_long(),
            says("Looked."),
            says("done"),
        ],
        config(),
    );
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    assert_eq!(
        world.history(),
        [
            "summary: Looked.",
            "user: go",
            r#"look -> result of look {"a":2}"#,
            "reply: done"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_turn_is_compacted_as_often_as_it_fills_up() {
    let look = || calls(&[("look", "{}")]);
    let mut script = Vec::new();
    for round in 0..3 {
        script.extend([
            look(),
            look(),
            counted(800, look()),
            says(&format!("S{round}")),
        ]);
    }
    script.push(says("done"));
    let mut world = world(script, small(1000));
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let history = world.history();
    assert_eq!(history[..2], ["summary: S2", "user: go"]);
    assert_eq!(world.told().matches("is compacted from").count(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_stays_too_long_fails() {
    let mut world = world(
        [
            calls(&[("look", r#"{"a":1}"#)]),
            calls(&[("look", r#"{"a":2}"#)]),
            too_long(),
            says("Looked."),
            too_long(),
        ],
        config(),
    );
    assert_eq!(world.turn("go").await, TurnEnd::Failed);
    assert!(world.told().contains("too long"));
    assert_eq!(world.history()[0], "summary: Looked.");

    // Nothing can be left out of a single prompt.
    let mut world = self::world([too_long()], config());
    assert_eq!(world.turn("go").await, TurnEnd::Failed);
    assert_eq!(world.history(), ["user: go"]);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_that_fails_loses_nothing() {
    let summaries = [
        Answer::Refuse(BackendError::Authentication {
            message: "expired".into(),
        }),
        Answer::Stream(vec![text(" "), stop(StopReason::End)]),
        Answer::Stream(vec![text("Half a"), stop(StopReason::Length)]),
        calls(&[("look", "{}")]),
    ];
    for summary in summaries {
        let mut world = world(
            [calls(&[("look", r#"{"a":1}"#)]), says("looked"), summary],
            config(),
        );
        world.turn("go").await;
        let before = world.agent.history();
        world.agent.compact().unwrap();
        world.until(|it| matches!(it, Event::Error { .. })).await;
        assert!(world.told().contains("is as it was"));
        assert_eq!(world.agent.history(), before);
        assert!(!world.agent.state().is_busy());
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_compacts_and_clears() {
    let mut world = world([says("one"), says("S."), says("two")], config());
    assert!(matches!(
        world.agent.compact(),
        Err(Error::NothingToCompact)
    ));
    world.turn("first").await;
    world.agent.compact().unwrap();
    // A prompt waits until it is done.
    assert_eq!(world.turn("second").await, TurnEnd::Done);
    assert_eq!(
        world.history(),
        ["summary: S.", "reply: one", "user: second", "reply: two"]
    );
    world.agent.clear().unwrap();
    assert!(world.history().is_empty());
    world
        .until(|it| matches!(it, Event::Info { text } if text.contains("empty")))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_long_summary_is_cut_to_a_quarter_of_the_context() {
    let mut world = world([says("one"), says(&"s".repeat(5000))], small(400));
    world.turn("first").await;
    world.agent.compact().unwrap();
    world
        .until(|it| matches!(it, Event::Info { text } if text.contains("compacted from")))
        .await;
    let summary = &world.history()[0];
    let half = "s".repeat(200);
    let expected = format!("summary: {half}\n[4600 bytes are left out here]\n{half}");
    assert_eq!(*summary, expected);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_compacted_in_a_turn_is_told() {
    let slow = Answer::Stream(vec![
        Step::Wait(Duration::from_secs(9)),
        text("ok"),
        stop(StopReason::End),
    ]);
    let mut world = world([slow], config());
    world.agent.prompt("go").unwrap();
    world.agent.compact().unwrap();
    assert_eq!(world.turn_end().await, TurnEnd::Done);
    assert!(world.told().contains("too short to be compacted"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_a_compaction_leaves_the_history_as_it_was() {
    let slow = Answer::Stream(vec![
        text("S"),
        Step::Wait(Duration::from_secs(60)),
        stop(StopReason::End),
    ]);
    let mut world = world([says("one"), slow], config());
    world.turn("first").await;
    let before = world.agent.history();
    world.agent.compact().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.agent.stop());
    assert_eq!(world.agent.history(), before);
    assert!(!world.agent.state().is_busy());
}
