//! What goes wrong between the agent and its model.

use std::time::Duration;

use ollie_agent::{BackendError, Checkpoint, Delta, Event, StopReason, TurnEnd, Usage};
use tokio::time::Instant;

use crate::world::{Answer, Step, World, calls, config, says, stop, text};

fn overloaded() -> BackendError {
    BackendError::Server {
        status: 529,
        retry_after: None,
        message: "overloaded".into(),
    }
}

fn dropped() -> BackendError {
    BackendError::Dropped {
        message: "connection reset".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_off_is_made_anew_and_nothing_is_doubled() {
    let mut world = World::new([
        Answer::Stream(vec![
            text("The answer "),
            text("is 4"),
            Step::Delta(Delta::CallStart {
                index: 0,
                id: "a".into(),
                name: "touch".into(),
            }),
            Step::Fail(dropped()),
        ]),
        // This one ends without saying so.
        Answer::Stream(vec![text("The ans")]),
        says("The answer is 42."),
    ]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    assert_eq!(world.history(), ["user: go", "reply: The answer is 42."]);
    assert_eq!(world.seen(), "The answer is 42.");
    let told = world.told();
    assert!(told.contains("connection reset"), "{told}");
    assert!(told.contains("ended before"), "{told}");
    assert!(world.hands.log.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_repetition_waits_longer_and_their_number_has_an_end() {
    let start = Instant::now();
    let mut world = World::new((0..9).map(|_| Answer::Refuse(overloaded())));
    assert_eq!(world.turn("go").await, TurnEnd::Failed);
    let waits: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Retry {
                attempt, after_ms, ..
            } => Some((*attempt, *after_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(waits.len(), 6);
    for (attempt, after) in &waits {
        // 1 s, twice as long each time; at least half of it is waited.
        let whole = 1000 << (attempt - 1);
        assert!((whole / 2..=whole).contains(after), "{waits:?}");
    }
    let sum: u64 = waits.iter().map(|(_, after)| after).sum();
    let waited = u64::try_from(start.elapsed().as_millis()).unwrap();
    assert!(waited.abs_diff(sum) < 20, "{waited} {sum}");
    assert!(world.told().contains("given up after 7 attempts"));
    assert_eq!(world.history(), ["user: go"]);
}

#[tokio::test(start_paused = true)]
async fn the_provider_says_when_to_come_back() {
    let limited = |seconds| {
        Answer::Refuse(BackendError::RateLimited {
            retry_after: Some(Duration::from_secs(seconds)),
            message: "slow down".into(),
        })
    };
    let start = Instant::now();
    let mut world = World::new([limited(90), says("ok")]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let waited = start.elapsed().as_secs_f32();
    assert!((90.0..91.1).contains(&waited), "{waited}");

    // A day is not waited for.
    let mut world = World::new([limited(86_400), says("never")]);
    assert_eq!(world.turn("go").await, TurnEnd::Failed);
    assert!(world.told().contains("slow down"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_for_a_repetition() {
    let start = Instant::now();
    let mut world = World::new([
        Answer::Refuse(BackendError::RateLimited {
            retry_after: Some(Duration::from_secs(300)),
            message: "slow down".into(),
        }),
        says("ok"),
    ]);
    world.agent.prompt("go").unwrap();
    world.until(|it| matches!(it, Event::Retry { .. })).await;
    assert!(world.agent.stop());
    assert_eq!(world.turn_end().await, TurnEnd::Stopped);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert!(!world.agent.stop());
    // It can be taken up again.
    world.agent.resume().unwrap();
    assert_eq!(world.turn_end().await, TurnEnd::Done);
    assert_eq!(world.history(), ["user: go", "reply: ok"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_shown_before_a_final_failure_stays() {
    let mut world = World::new([Answer::Stream(vec![
        text("Half a "),
        Step::Fail(BackendError::Refused {
            status: 400,
            message: "bad".into(),
        }),
    ])]);
    assert_eq!(world.turn("go").await, TurnEnd::Failed);
    assert_eq!(
        world.history(),
        [
            "user: go",
            "reply: Half a ",
            "note: The reply broke off here."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_the_end_of_a_reply_costs_nothing() {
    let mut world = World::new([Answer::Stream(vec![
        text("ok"),
        stop(StopReason::End),
        Step::Fail(dropped()),
    ])]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    assert_eq!(world.history(), ["user: go", "reply: ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_ends_is_cut() {
    let mut settings = config();
    settings.limits.reply_bytes = 1000;
    let endless = Answer::Stream(vec![Step::Forever(Delta::Text("ha".into()))]);
    let mut world = World::with([endless], settings, Checkpoint::default(), Duration::ZERO);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    let reply = world.history().pop().unwrap();
    assert_eq!(reply.len(), "reply: ".len() + 1002);
    assert!(world.told().contains("1000 bytes"));

    // Not even with nothing at all.
    let mut settings = config();
    settings.limits.reply_bytes = 1000;
    let endless = Answer::Stream(vec![Step::Forever(Delta::Text(String::new()))]);
    let mut world = World::with([endless], settings, Checkpoint::default(), Duration::ZERO);
    assert_eq!(world.turn("go").await, TurnEnd::Done);

    let start = Instant::now();
    let slow = (0..9).flat_map(|_| [text("."), Step::Wait(Duration::from_secs(500))]);
    let mut world = World::new([Answer::Stream(slow.collect())]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    assert_eq!(start.elapsed().as_secs(), 30 * 60);
    assert_eq!(world.history(), ["user: go", "reply: ...."]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_says_nothing_leaves_nothing() {
    let mut world = World::new([Answer::Stream(vec![text(" \n"), stop(StopReason::End)])]);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
    assert_eq!(world.history(), ["user: go"]);
    assert!(world.told().contains("said nothing"));
}

#[tokio::test(start_paused = true)]
async fn tokens_of_failed_requests_count_as_well() {
    let usage = |input| {
        Step::Delta(Delta::Usage(Usage {
            input,
            output: 1,
            ..Usage::default()
        }))
    };
    let mut world = World::new([
        Answer::Stream(vec![usage(5), usage(10), Step::Fail(dropped())]),
        Answer::Stream(vec![usage(100), text("ok"), stop(StopReason::End)]),
    ]);
    world.turn("go").await;
    assert_eq!(world.agent.usage().input, 110);
    assert_eq!(world.agent.usage().output, 2);
    assert_eq!(world.agent.context_tokens(), 101);
    assert_eq!(world.saved.usage, world.agent.usage());
}

#[tokio::test(start_paused = true)]
async fn a_turn_has_a_limit_of_steps() {
    let mut settings = config();
    settings.limits.steps = 3;
    let replies = (0..9).map(|_| calls(&[("look", "")]));
    let mut world = World::with(replies, settings, Checkpoint::default(), Duration::ZERO);
    assert_eq!(world.turn("go").await, TurnEnd::Limit);
    assert_eq!(world.model.asked.lock().unwrap().len(), 3);
    assert!(world.told().contains("3 requests"));
    assert!(world.agent.history().awaits_reply());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_only_fails_is_told_and_then_stopped() {
    let replies = (0..20).map(|_| calls(&[("fail", "")]));
    let mut world = World::new(replies);
    assert_eq!(world.turn("go").await, TurnEnd::Limit);
    assert_eq!(world.model.asked.lock().unwrap().len(), 10);
    let notes: Vec<_> = world
        .history()
        .iter()
        .enumerate()
        .filter(|(_, it)| it.starts_with("note: "))
        .map(|(at, _)| at)
        .collect();
    // After the prompt and five rounds.
    assert_eq!(notes, [6]);

    // One success, and the count begins again.
    let replies = (0..20).map(|round| match round {
        8 => calls(&[("fail", ""), ("look", "")]),
        12 => says("done"),
        _ => calls(&[("fail", "")]),
    });
    let mut world = World::new(replies);
    assert_eq!(world.turn("go").await, TurnEnd::Done);
}
