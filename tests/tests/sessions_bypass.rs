//! A model asks for a way out of the sandbox, and the person answers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed step fails its test"
)]

use std::time::{Duration, Instant};

use ollie_tests::{Served, World, await_that};
use serde_json::{Value, json};

/// How long an event is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// A model that asks to run `code` outside, and ends then.
fn model(world: &World, code: &str) -> String {
    let call =
        json!({"call": {"name": "shell", "arguments": {"code": code, "bypass": "it has to"}}});
    let turn = format!(
        "{call}\n{{\"stop\":\"tool_calls\"}}\n{{\"text\":\"Well.\"}}\n{{\"stop\":\"end\"}}\n"
    );
    let path = world.write("home/model.jsonl", turn);
    format!("replay:{}", path.display())
}

/// Gives the prompt and waits for the question.
#[track_caller]
fn asked(served: &Served<'_>) -> Value {
    served.write("session/s/prompt", "go");
    let question = || {
        let asks = served.read("session/s/asks");
        let line = asks.lines().next()?.to_owned();
        Some(serde_json::from_str::<Value>(&line).unwrap())
    };
    assert!(await_that(PATIENCE, || question().is_some()), "no question");
    question().unwrap()
}

fn events(served: &Served<'_>, kind: &str) -> Vec<Value> {
    let text = served.read("session/s/events");
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["type"] == kind)
        .collect()
}

/// What the model was told of its call.
fn told(served: &Served<'_>) -> String {
    let context = served.read("session/s/context");
    let entries = context
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut calls = entries.filter_map(|entry| entry["calls"].as_array().cloned());
    let call = calls.next().expect("a round is kept")[0].clone();
    call["outcome"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_approved_runs_and_everybody_is_told() {
    let world = World::ordinary();
    let file = world.outside().join("made");
    let code = format!("echo made > '{}'", file.display());
    let backend = model(&world, &code);
    let served = world.serve();
    served.session(&format!("name=s backend={backend}"));
    let question = asked(&served);
    assert_eq!(served.read("session/s/state"), "asking:shell\n");
    let id = question["call"]["id"].as_str().unwrap();
    let digest = question["digest"].as_str().unwrap();
    assert_eq!(question["call"]["argv"], json!(["sh", "-c", code]));
    assert_eq!(question["call"]["reason"], "it has to");
    assert!(!file.exists());
    // Nothing else than this is approved.
    for wrong in [
        "approve",
        "approve other",
        "deny other",
        &format!("approve {id}"),
        &format!("approve {id} {}", &digest[..7]),
        &format!("approve {id} {}", "0".repeat(64)),
        &format!("approve {id} {digest} x"),
    ] {
        let _ = served.fs(&["write", "session/s/ctl", wrong]).failed();
    }
    assert_eq!(events(&served, "ruling"), [] as [Value; 0]);
    // An id of its run alone.
    let run = id.split('-').nth(1).unwrap();
    assert!(run.len() == 8 && run.bytes().all(|it| it.is_ascii_hexdigit()));
    served.write("session/s/ctl", &format!("approve {id} {}", &digest[..8]));
    served.await_rest("s");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "made\n");
    assert_eq!(served.read("session/s/asks"), "");
    let late = served.fs(&["write", "session/s/ctl", &format!("approve {id} {digest}")]);
    let _ = late.failed().says(&["no question"]);

    let [ask] = &events(&served, "ask")[..] else {
        panic!("one question");
    };
    let [ruling] = &events(&served, "ruling")[..] else {
        panic!("one ruling");
    };
    let [call] = &events(&served, "call")[..] else {
        panic!("one call");
    };
    assert_eq!(ask["id"], call["id"]);
    assert_eq!(ask["call"], question["call"]);
    assert_eq!(ask["digest"], question["digest"]);
    assert_eq!(ask["place"], question["place"]);
    assert_eq!(ask["place"]["host"], Value::Null);
    assert_eq!(ask["call"]["cwd"], world.project().display().to_string());
    assert_eq!(ruling["ask"], ask["call"]["id"]);
    assert_eq!(
        (&ruling["approved"], &ruling["by"]),
        (&json!(true), &json!("ctl"))
    );
    assert!(ask["at"].as_u64() <= ruling["at"].as_u64());
    let [result] = &events(&served, "tool_result")[..] else {
        panic!("one result");
    };
    assert_eq!(result["ok"], true);
    assert!(
        result["degraded"][0].as_str().unwrap().contains("outside"),
        "{result}"
    );
    let states: Vec<Value> = events(&served, "state")
        .into_iter()
        .map(|event| event["state"].clone())
        .collect();
    let at = states.iter().position(|it| it == "asking:shell").unwrap();
    assert_eq!(states[at + 1], "calling:shell", "{states:?}");
    assert!(told(&served).contains("outside of the sandbox"));
    let chat = served.read("session/s/chat");
    for line in [
        "\n:: to run outside of the sandbox, for this reason:\n::   | it has to\n",
        &format!("\n:: approve {id} {digest}\n:: deny {id}\n"),
        "\n:: approved: it runs outside of the sandbox\n",
    ] {
        assert!(chat.contains(line), "{line}{chat}");
    }
    let _ = served.end();
}

#[test]
fn what_is_denied_or_stopped_is_not_run() {
    for (word, by) in [("deny", "ctl"), ("stop", "end")] {
        let world = World::ordinary();
        let file = world.outside().join("made");
        let backend = model(&world, &format!("touch '{}'", file.display()));
        let served = world.serve();
        served.session(&format!("name=s backend={backend}"));
        let question = asked(&served);
        let id = question["call"]["id"].as_str().unwrap();
        let order = match word {
            "deny" => format!("deny {id}"),
            word => word.to_owned(),
        };
        served.write("session/s/ctl", &order);
        served.await_rest("s");
        let [ruling] = &events(&served, "ruling")[..] else {
            panic!("one ruling");
        };
        assert_eq!(ruling["approved"], false);
        assert_eq!(ruling["by"], by);
        let told = told(&served);
        match word {
            "deny" => assert!(told.contains("do not try"), "{told}"),
            _ => assert!(told.contains("stopped"), "{told}"),
        }
        assert_eq!(served.read("session/s/asks"), "");
        assert!(!file.exists());
        let _ = served.end();
        assert!(!file.exists());
    }
}

#[test]
fn what_is_too_long_to_be_judged_is_not_put() {
    let world = World::ordinary();
    let file = world.outside().join("made");
    // Lines that differ, which cannot be counted, before the one that matters.
    let lines: String = (0..200).map(|line| format!(": {line}\n")).collect();
    let backend = model(&world, &format!("{lines}touch '{}'", file.display()));
    let served = world.serve();
    served.session(&format!("name=s backend={backend}"));
    let began = Instant::now();
    served.write("session/s/prompt", "go");
    served.await_rest("s");
    assert!(began.elapsed() < Duration::from_secs(50));
    assert_eq!(events(&served, "ask"), [] as [Value; 0]);
    assert!(told(&served).contains("too long to be judged: 2"));
    let chat = served.read("session/s/chat");
    assert!(
        chat.contains("\n:: a command asks to run outside"),
        "{chat}"
    );
    assert!(chat.contains("too long to be judged: 2"), "{chat}");
    assert!(!file.exists());
    let _ = served.end();
}

#[test]
fn without_an_answer_it_is_denied_after_a_minute() {
    let world = World::ordinary();
    let file = world.outside().join("made");
    let backend = model(&world, &format!("touch '{}'", file.display()));
    let served = world.serve();
    served.session(&format!("name=s backend={backend}"));
    let began = Instant::now();
    let _ = asked(&served);
    let over = || events(&served, "ruling").pop();
    assert!(await_that(Duration::from_secs(90), || over().is_some()));
    assert!(began.elapsed() >= Duration::from_secs(60));
    let ruling = over().unwrap();
    assert_eq!(
        (&ruling["approved"], &ruling["by"]),
        (&json!(false), &json!("time"))
    );
    served.await_rest("s");
    assert!(told(&served).contains("do not try"));
    assert!(!file.exists());
    let _ = served.end();
}

#[test]
fn a_daemon_that_is_killed_leaves_no_question_behind() {
    let world = World::ordinary();
    let file = world.outside().join("made");
    let backend = model(&world, &format!("touch '{}'", file.display()));
    let served = world.serve();
    served.session(&format!("name=s backend={backend}"));
    let _ = asked(&served);
    served.kill();
    // Its own directory waits for the next daemon.
    let alone = || {
        let left = world.leftovers();
        left.iter().all(|left| left.ends_with("run/ollie"))
    };
    assert!(await_that(PATIENCE, alone), "{:?}", world.leftovers());
    assert!(!file.exists());
    let served = world.serve();
    assert_eq!(served.read("session/s/asks"), "");
    assert_eq!(served.read("session/s/state"), "failed\n");
    let _ = served.end();
}

/// Nobody could answer there.
#[test]
fn exec_and_call_and_a_chat_between_pipes_cannot_ask() {
    let world = World::ordinary();
    let file = world.outside().join("made");
    let code = format!("code=touch '{}'", file.display());
    let call = world
        .ollie(["call", "shell", &code, "bypass=it has to"])
        .run();
    let _ = call.failed().says(&["bypass", "olliesrv chat"]);
    let backend = model(&world, &format!("touch '{}'", file.display()));
    // Its own sessions: the model is not told that it could.
    let chat = world
        .ollie(["chat", "--backend", &backend])
        .stdin("go\n")
        .run();
    let shown = chat.ok();
    assert!(shown.contains("bypass"), "{shown}");
    // Those of a daemon, where somebody else might: this one says no.
    let served = world.serve();
    let began = Instant::now();
    let chat = world
        .ollie(["chat", "--backend", &backend])
        .stdin("go\n")
        .run();
    assert!(began.elapsed() < Duration::from_secs(50));
    let chat = chat.has_status(0).says(&["no terminal"]);
    assert!(chat.out().contains(":: denied"), "{chat}");
    assert!(!file.exists());
    let _ = served.end();
}

#[test]
fn on_another_host_it_runs_there() {
    let Some(world) = World::with_ssh("a way out of the sandbox of another host") else {
        return;
    };
    let devbox = world.devbox().start();
    let backend = model(&world, "echo \"$HOME\" > /home/dev/made");
    let serve = world.ollie(["serve"]).env("OLLIE_SSH", devbox.ssh());
    let served = world.serve_by(serve);
    served.session(&format!(
        "name=s remote={} backend={backend}",
        devbox.target()
    ));
    let question = asked(&served);
    let there = devbox.home().join("made");
    assert!(!there.exists());
    assert_eq!(
        question["place"],
        json!({"host": devbox.target().to_string(), "user": "dev"})
    );
    let id = question["call"]["id"].as_str().unwrap();
    let digest = question["digest"].as_str().unwrap();
    served.write("session/s/ctl", &format!("approve {id} {digest}"));
    served.await_rest("s");
    assert_eq!(std::fs::read_to_string(there).unwrap(), "/home/dev\n");
    assert_eq!(served.end().status, 0);
    devbox.nothing_left();
}
