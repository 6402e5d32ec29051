//! Sessions whose tools run on another host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_tests::{Devbox, Process, Served, Tree, Wire, World, await_that, gap};
use serde_json::{Value, json};

use crate::model::{Api, KEY, Model, Reply};

const PROJECT: &str = "mkdir /home/dev/project; echo 'helo world' >/home/dev/project/a.txt; \
                       chown -R dev /home/dev/project";

fn serve<'w>(world: &'w World, devbox: &Devbox<'_>) -> Served<'w> {
    let serve = world
        .ollie(["serve"])
        .env("TEST_MODEL_KEY", KEY)
        .env("OLLIE_SSH", devbox.ssh());
    world.serve_by(serve)
}

fn session(served: &Served<'_>, devbox: &Devbox<'_>) {
    served.session(&format!("name=one remote={} cwd=project", devbox.target()));
}

fn events(served: &Served<'_>) -> Vec<Value> {
    let events = served.read("session/one/events");
    events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

/// The processes of `serve` that lead to the host.
fn ways(served: &Served<'_>, devbox: &Devbox<'_>) -> Vec<u32> {
    let port = devbox.port().to_string();
    Process::all()
        .into_iter()
        .filter(|process| process.parent == served.pid() && process.mentions(&port))
        .map(|process| process.pid)
        .collect()
}

#[test]
fn a_file_is_edited_there_with_each_api_and_all_tellings_agree() {
    let Some(world) = World::with_ssh("a session on another host") else {
        return;
    };
    let devbox = world.devbox().hook(PROJECT).start();
    for api in Api::ALL {
        edit(api, &world, &devbox);
        devbox.nothing_left();
    }
}

fn edit(api: Api, world: &World, devbox: &Devbox<'_>) {
    let file = devbox.home().join("project/a.txt");
    std::fs::write(&file, "helo world\n").unwrap();
    let calls = [
        ("file_read", json!({"path": "a.txt"})),
        (
            "file_edit",
            json!({"path": "a.txt", "edits": [{"old": "helo", "new": "hello"}]}),
        ),
        // Two streams have no order where nothing comes between.
        (
            "shell",
            json!({"code": "cat a.txt; sleep 1; echo h\u{e9} >&2"}),
        ),
    ];
    let log = world.home().join(".local/state/ollie/sessions/one/events");
    let mut replies: Vec<Reply> = calls
        .iter()
        .map(|(name, arguments)| Reply::Call(name, arguments.clone()))
        .collect();
    replies.push(Reply::Slow("The word ", "is right now \u{1f980}.", log));
    let model = Model::start(api, replies);
    model.configure(world);
    let served = serve(world, devbox);
    session(&served, devbox);
    let end = served.send("one", "mend the word").has_status(0);
    assert!(end.out().contains("hello world\n"), "{end}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello world\n");

    // The server's log: one request a round, each as its API has it.
    let asked = model.asked();
    assert_eq!(asked.len(), 4, "{api:?}");
    for asked in &asked {
        let (_, path) = api.paths();
        let head = asked.head.to_ascii_lowercase();
        assert!(head.starts_with(&format!("post {path} http/1.1")), "{head}");
        assert!(head.contains(&api.credentials()), "{head}");
        let system = api.system(&asked.body);
        assert!(system.contains("/home/dev/project"), "that host: {system}");
        assert_eq!(asked.body["model"], "large");
    }
    let rounds: Vec<_> = asked
        .iter()
        .map(|asked| api.answered(&asked.body))
        .collect();
    for (round, later) in rounds.iter().zip(rounds.iter().skip(1)) {
        assert_eq!(round[..], later[..round.len()], "what was said stays");
    }
    let answered = &rounds[3];
    let made: Vec<_> = answered
        .iter()
        .map(|(name, arguments, _)| (name.as_str(), arguments.clone()))
        .collect();
    assert_eq!(made, calls, "{api:?}");

    // The events: the same calls, and what each printed is what the model got.
    let events = events(&served);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .filter(|kind| ["user", "call", "tool_result", "turn"].contains(kind))
        .collect();
    let round = ["call", "tool_result"];
    let rounds = [&["user"][..], &round, &round, &round, &["turn"]].concat();
    assert_eq!(kinds, rounds);
    let chat = served.read("session/one/chat");
    for (call, (name, arguments, result)) in of_kind(&events, "call").iter().zip(answered) {
        assert_eq!(call["name"], name.as_str());
        let told: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(&told, arguments);
        let mut printed: String = of_kind(&events, "tool")
            .iter()
            .filter(|event| event["id"] == call["id"])
            .map(|event| event["chunk"].as_str().unwrap())
            .collect();
        let whole = of_kind(&events, "tool_result")
            .into_iter()
            .find(|event| event["id"] == call["id"])
            .unwrap();
        assert_eq!(whole["ok"], true, "{whole}");
        printed.push_str(whole["content"].as_str().unwrap_or_default());
        assert_eq!(printed.trim_end(), result.trim_end(), "{api:?}");
        // The chat: the call on a line, what it printed below.
        let line = format!("[tool:{name}] {}\n", call["arguments"].as_str().unwrap());
        let block = format!("{line}{}", printed.trim_end());
        assert!(chat.contains(&block), "{block:?} in {chat}");
    }
    let said: String = of_kind(&events, "assistant")
        .iter()
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, "The word is right now \u{1f980}.");
    assert!(chat.contains(&format!("assistant: {said}\n")), "{chat}");
    // What each reply of the server says of tokens, four times.
    let usage: Value = serde_json::from_str(&served.read("session/one/usage")).unwrap();
    let counted = of_kind(&events, "usage").len();
    assert_eq!(
        counted,
        if api == Api::Anthropic {
            counted.max(4)
        } else {
            4
        }
    );
    assert_eq!(usage["output"], 60, "{usage}");

    let remote: Value = serde_json::from_str(&served.read("session/one/remote")).unwrap();
    assert_eq!(remote["status"], "connected");
    assert_eq!(remote["toolsrv"]["host"]["user"], "dev");
    assert_eq!(remote["toolsrv"]["host"]["cwd"], "/home/dev/project");
    assert!(chat.contains("works in /home/dev/project\n"), "{chat}");
    let _ = world.ollie(["session", "rm", "one"]).run().has_status(0);
    assert_eq!(served.end().status, 0);
}

/// A call that counts how often it runs, and waits.
fn counted() -> Value {
    json!({"code": "echo x >>count; echo begun; exec sleep 4242"})
}

/// What a call in flight comes to whose way is lost, and what follows.
fn lost(served: &Served<'_>, model: &Model, devbox: &Devbox<'_>) {
    served.await_rest("one");
    let events = events(served);
    let turns = of_kind(&events, "turn");
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0]["outcome"], "done");
    // The model: each call has one result, in order, in every request.
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    for (count, asked) in asked.iter().enumerate() {
        let answered = Api::OpenAi.answered(&asked.body);
        assert_eq!(answered.len(), count);
        let unknown = asked.body.to_string().matches("outcome is unknown").count();
        assert_eq!(unknown, usize::from(count > 0), "told once, and kept");
    }
    // The person as well.
    let chat = served.read("session/one/chat");
    assert_eq!(chat.matches("outcome is unknown").count(), 1, "{chat}");
    // It ran once, and the next call came to a new toolsrv.
    let answered = Api::OpenAi.answered(&asked[2].body);
    assert_eq!(answered[1].2.trim_end(), "x", "{answered:?}");
    let count = std::fs::read_to_string(devbox.home().join("project/count")).unwrap();
    assert_eq!(count, "x\n");
    assert_eq!(of_kind(&events, "call").len(), 2);
    assert!(chat.contains("it was started anew"), "{chat}");
    let remote: Value = serde_json::from_str(&served.read("session/one/remote")).unwrap();
    assert_eq!(remote["toolsrv"]["generation"], 2);
}

fn await_begun(served: &Served<'_>) {
    // The first one on another host may pack toolsrv for the way.
    let began = || served.read("session/one/chat").contains("\nbegun\n");
    assert!(await_that(Duration::from_secs(120), began));
}

#[test]
fn a_way_that_is_lost_in_a_call_is_told_once_and_the_next_call_has_a_new_one() {
    let Some(world) = World::with_ssh("a lost way") else {
        return;
    };
    let devbox = world.devbox().hook(PROJECT).start();
    let model = Model::start(
        Api::OpenAi,
        vec![
            Reply::Call("shell", counted()),
            Reply::Call("shell", json!({"code": "cat count"})),
            Reply::Text("Gone on."),
        ],
    );
    model.configure(&world);
    let served = serve(&world, &devbox);
    session(&served, &devbox);
    served.write("session/one/prompt", "go");
    await_begun(&served);
    let ways = ways(&served, &devbox);
    assert!(!ways.is_empty());
    ways.into_iter().for_each(Tree::kill);
    let done = || served.read("session/one/chat").contains("Gone on.");
    assert!(await_that(Duration::from_secs(60), done));
    lost(&served, &model, &devbox);
    assert_eq!(served.end().status, 0);
    devbox.nothing_left();
}

#[test]
fn lost_packets_in_a_call_end_it_and_the_session_goes_on() {
    let Some(world) = World::with_ssh("lost packets in a session") else {
        return;
    };
    let Some(wire) = Wire::new() else {
        return gap("lost packets in a session", "needs ip(8) and veth devices");
    };
    let devbox = world
        .devbox()
        .hook(PROJECT)
        .behind(&wire)
        .config("ClientAliveInterval 5\nClientAliveCountMax 1")
        .start();
    let model = Model::start(
        Api::OpenAi,
        vec![
            Reply::Call("shell", counted()),
            Reply::Call("shell", json!({"code": "cat count"})),
            Reply::Text("Gone on."),
        ],
    );
    model.configure(&world);
    let served = serve(&world, &devbox);
    session(&served, &devbox);
    served.write("session/one/prompt", "go");
    await_begun(&served);
    wire.lose_everything(true);
    let told = || {
        served
            .read("session/one/chat")
            .contains("outcome is unknown")
    };
    assert!(await_that(Duration::from_secs(30), told));
    wire.lose_everything(false);
    let done = || served.read("session/one/chat").contains("Gone on.");
    assert!(await_that(Duration::from_secs(60), done));
    lost(&served, &model, &devbox);
    assert_eq!(served.end().status, 0);
    devbox.nothing_left();
    // The old connection ends by ssh's own count: three times five seconds.
    let port = devbox.port().to_string();
    let gone = || {
        !Process::all()
            .iter()
            .any(|one| one.mentions(&port) && one.mentions("ControlPersist"))
    };
    assert!(await_that(Duration::from_secs(30), gone));
}

fn stored(world: &World) -> PathBuf {
    world.home().join(".local/state/ollie/sessions/one")
}

fn whole(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let _: Value = serde_json::from_str(&text).unwrap();
}

#[test]
fn after_kill_9_a_session_of_another_host_is_there_and_connects_when_it_is_needed() {
    let Some(world) = World::with_ssh("kill -9 of a session on another host") else {
        return;
    };
    let devbox = world.devbox().hook(PROJECT).start();
    let model = Model::start(
        Api::OpenAi,
        vec![
            Reply::Call("shell", json!({"code": "echo kept"})),
            Reply::Call("shell", counted()),
            Reply::Call("shell", json!({"code": "cat count"})),
            Reply::Text("Gone on."),
        ],
    );
    model.configure(&world);
    let served = serve(&world, &devbox);
    session(&served, &devbox);
    served.write("session/one/prompt", "go");
    await_begun(&served);
    served.kill();
    // Nothing of it is left there, although nobody said goodbye.
    devbox.nothing_left();
    whole(&stored(&world).join("session.json"));
    whole(&stored(&world).join("history.json"));
    let before = devbox.logged("Accepted publickey");

    let served = serve(&world, &devbox);
    assert_eq!(served.read("session/one/state"), "failed\n");
    let context = served.read("session/one/context");
    assert!(
        context.contains("kept") && !context.contains("begun"),
        "{context}"
    );
    for file in ["cfg", "env", "systemprompt", "remote", "events", "usage"] {
        let _ = served.read(&format!("session/one/{file}"));
    }
    let env = served.read("session/one/env");
    assert!(env.contains("PRIME_CWD=/home/dev/project\n"), "{env}");
    let remote: Value = serde_json::from_str(&served.read("session/one/remote")).unwrap();
    assert_eq!(remote["status"], "unused");
    assert_eq!(
        devbox.logged("Accepted publickey"),
        before,
        "to look connects to nothing"
    );
    // Whoever comes back is told where the tools run.
    let _ = world
        .ollie(["chat", "--session", "one"])
        .run()
        .has_status(0)
        .says(&["tools run on", "in /home/dev/project"]);
    assert_eq!(devbox.logged("Accepted publickey"), before);

    served.write("session/one/ctl", "resume");
    let done = || served.read("session/one/chat").contains("Gone on.");
    assert!(await_that(Duration::from_secs(60), done));
    served.await_rest("one");
    assert_eq!(devbox.logged("Accepted publickey"), before + 1);
    let answered = Api::OpenAi.answered(&model.asked()[3].body);
    let results: Vec<_> = answered.iter().map(|call| call.2.trim_end()).collect();
    assert_eq!(results, ["kept", "x"], "the round in flight is missing");
    assert_eq!(served.end().status, 0);
    devbox.nothing_left();
    // What kill -9 leaves: the connection ends and takes its socket along, the
    // directory stays, empty.
    let directory = world.base().join("run/ollie");
    let emptied = || std::fs::remove_dir(directory.join("ssh")).is_ok() || !directory.exists();
    assert!(await_that(Duration::from_secs(12), emptied));
    let _ = std::fs::remove_dir(directory);
}
