//! A session outlives the olliesrv that serves it, however that ends.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::path::PathBuf;
use std::time::Duration;

use ollie_tests::{Dice, World, await_that};
use serde_json::Value;

/// A recording of this many rounds, each with one call that says its number.
fn rounds(world: &World, count: usize) -> String {
    let mut lines = String::new();
    for round in 1..=count {
        lines.push_str(&format!(
            "{{\"text\":\"Round {round}.\"}}\n\
             {{\"call\":{{\"name\":\"shell\",\"arguments\":{{\"code\":\"echo round {round}\"}}}}}}\n\
             {{\"stop\":\"tool_calls\"}}\n"
        ));
    }
    let path = world.write("home/model.jsonl", lines);
    format!("replay:{}", path.display())
}

fn stored(world: &World, name: &str) -> PathBuf {
    world.home().join(".local/state/ollie/sessions").join(name)
}

fn lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap();
    text.lines().map(parse).collect()
}

/// What the calls of a history answered, in order.
fn answers(context: &str) -> Vec<String> {
    lines(context)
        .iter()
        .filter_map(|entry| entry["calls"].as_array())
        .flatten()
        .map(|call| call["outcome"]["content"].as_str().unwrap().to_owned())
        .collect()
}

fn results(events: &[Value]) -> usize {
    let is = |event: &&Value| event["type"] == "tool_result";
    events.iter().filter(is).count()
}

/// 30 times, or 200 with OLLIE_FULL=1.
#[test]
fn a_kill_at_any_moment_loses_at_most_the_round_in_flight() {
    let full = std::env::var("OLLIE_FULL").is_ok_and(|value| value == "1");
    let times = if full { 200 } else { 30 };
    let world = World::ordinary();
    let backend = rounds(&world, 40 * times);
    let mut served = world.serve();
    served.session(&format!("name=one backend={backend}"));
    served.session("name=other backend=ollama model=none");
    served.write("session/one/prompt", "go");
    let mut dice = Dice::new(7);
    let (mut kept, mut told_before) = (0, 0);
    for time in 0..times {
        if time % 2 == 0 {
            // However busy the machine is, it goes on.
            let path = stored(&world, "one").join("events");
            let two_more = || {
                let events = std::fs::read_to_string(&path).unwrap_or_default();
                events.matches("\"tool_result\"").count() >= told_before + 2
            };
            assert!(await_that(Duration::from_secs(30), two_more));
        }
        // Any moment: that is what is tried.
        std::thread::sleep(Duration::from_millis(dice.below(150) as u64));
        served.kill();
        let directory = stored(&world, "one");
        for file in ["session.json", "history.json"] {
            let text = std::fs::read_to_string(directory.join(file)).unwrap();
            let _: Value = serde_json::from_str(&text).unwrap();
        }
        // It may have ended before the first one.
        let events = std::fs::read_to_string(directory.join("events")).unwrap_or_default();
        let told = results(&lines(&events));

        served = world.serve();
        let index = served.read("session/idx");
        assert_eq!(index.lines().count(), 2, "{index}");
        let now = answers(&served.read("session/one/context"));
        let expected: Vec<_> = (1..=now.len()).map(|at| format!("round {at}\n")).collect();
        assert_eq!(now, expected, "nothing is missing, doubled or out of order");
        assert!(now.len() >= kept, "time {time}: {} < {kept}", now.len());
        // A round that was lost may have had its result, and is made again.
        let (finished, added) = (told - told_before, now.len() - kept);
        assert!(added + 1 >= finished, "time {time}: {added} of {finished}");
        (kept, told_before) = (now.len(), told);
        // The log has what it had.
        let after = served.read("session/one/events");
        assert!(after.starts_with(&events), "time {time}");
        served.write("session/one/ctl", "resume");
    }
    assert!(kept >= times / 2, "it went on: {kept}");
    served.write("session/one/ctl", "stop");
    served.await_rest("one");
    let path = stored(&world, "one");
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let names: Vec<_> = files.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(served.end().status, 0);
}

#[test]
fn what_was_cut_off_is_told_and_what_waits_goes_on_waiting() {
    let world = World::ordinary();
    let recorded = r#"{"text":"I wait."}
{"call":{"name":"shell","arguments":{"code":"echo begun; sleep 4242"}}}
{"stop":"tool_calls"}
{"text":"Gone on."}
{"stop":"end"}
"#;
    let path = world.write("home/model.jsonl", recorded);
    let served = world.serve();
    served.session(&format!("name=one backend=replay:{}", path.display()));
    served.write("session/one/prompt", "first");
    served.write("session/one/prompt", "second");
    let began = || served.read("session/one/chat").contains("begun");
    assert!(await_that(Duration::from_secs(20), began));
    served.kill();

    let served = world.serve();
    assert_eq!(served.read("session/one/state"), "failed\n");
    assert!(
        served
            .read("session/one/chat")
            .contains(":: olliesrv was ended")
    );
    let queue = served.read("session/one/queue");
    assert!(
        queue.contains("second"),
        "what was taken is not lost: {queue}"
    );
    let waiting = lines(&queue);
    let last = waiting.last().unwrap();
    assert_eq!(last["text"], "second");
    served.write("session/one/queue", &format!("remove {}", last["number"]));
    assert!(!served.read("session/one/queue").contains("second"));
    served.write("session/one/ctl", "stop");
    let end = world.ollie(["session", "rm", "one"]).run().has_status(0);
    assert_eq!(end.out(), "");
    assert!(!stored(&world, "one").exists());
    assert_eq!(served.end().status, 0);
}

#[test]
fn a_damaged_file_is_kept_aside_and_ends_nothing() {
    let world = World::ordinary();
    let backend = rounds(&world, 1);
    let served = world.serve();
    for name in ["one", "two", "three"] {
        served.session(&format!("name={name} backend={backend}"));
    }
    served.write("session/two/prompt", "go");
    served.await_rest("two");
    assert_eq!(served.end().status, 0);
    world.write(stored(&world, "one").join("session.json"), "{\"versi");
    world.write(stored(&world, "two").join("history.json"), "\0\0\0");

    let served = world.serve();
    let index = served.read("session/idx");
    let names: Vec<_> = index
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["three", "two"]);
    let _ = served
        .fs(&["read", "session/two/context"])
        .failed()
        .says(&["damaged"]);
    served.write("session/two/ctl", "save");
    assert_eq!(served.read("session/two/context"), "");
    assert!(served.read("session/two/chat").contains("it is kept as"));
    let end = served
        .end()
        .has_status(0)
        .says(&["session one is left out"]);
    drop(end);
    let aside = std::fs::read_dir(stored(&world, "one").parent().unwrap()).unwrap();
    let kept = aside
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("damaged"));
    assert_eq!(kept.count(), 1);
}
