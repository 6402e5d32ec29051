//! Sessions with a model behind HTTP.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod model;
mod remote;

use ollie_tests::World;
use serde_json::json;

use self::model::{Api, KEY, Model, Reply};

/// Every file below a directory, and what is in it.
fn files(world: &World) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut directories = vec![world.base().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.path() != world.base().join("bin") {
                directories.push(entry.path());
            } else if kind.is_file() {
                let content = std::fs::read(entry.path()).unwrap_or_default();
                found.push((entry.path().display().to_string(), content));
            }
        }
    }
    found
}

#[test]
fn a_key_is_in_no_file_no_log_and_no_tool() {
    let world = World::ordinary();
    let model = Model::start(
        Api::OpenAi,
        vec![
            Reply::Call(
                "shell",
                json!({"code": "env; cat /proc/self/environ /proc/*/environ 2>/dev/null; echo looked"}),
            ),
            Reply::Text("Nothing."),
        ],
    );
    model.configure(&world);
    let served = world.serve_by(world.ollie(["serve"]).env("TEST_MODEL_KEY", KEY));
    served.session("name=one");
    let end = served.send("one", "look for a key").has_status(0);
    assert!(end.out().contains("looked"), "{end}");
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    for asked in &asked {
        assert!(asked.head.contains(KEY), "it is sent where it belongs");
        assert!(!asked.body.to_string().contains(KEY));
    }
    // The second request holds what the tool had seen.
    assert!(asked[1].body.to_string().contains("looked"));
    let mut texts: Vec<(String, Vec<u8>)> = files(&world);
    assert!(texts.iter().any(|(path, _)| path.ends_with("history.json")));
    for file in [
        "backends",
        "session/idx",
        "session/one/chat",
        "session/one/events",
        "session/one/cfg",
        "session/one/context",
        "session/one/env",
        "session/one/remote",
        "session/one/usage",
        "session/one/systemprompt",
        "session/one/proc/index",
    ] {
        texts.push((file.to_owned(), served.read(file).into_bytes()));
    }
    let end = served.end().has_status(0);
    texts.push(("standard error".to_owned(), end.stderr));
    for (place, text) in texts {
        let found = text.windows(KEY.len()).any(|part| part == KEY.as_bytes());
        assert!(!found, "the key is in {place}");
    }
}

#[test]
fn a_missing_key_is_told_to_whoever_gives_the_prompt() {
    let world = World::ordinary();
    let model = Model::start(Api::OpenAi, Vec::new());
    model.configure(&world);
    let served = world.serve();
    served.session("name=one");
    let _ = served
        .fs(&["write", "session/one/prompt", "go"])
        .failed()
        .says(&["set TEST_MODEL_KEY"]);
    assert_eq!(served.read("session/one/state"), "idle\n");
    assert_eq!(served.end().status, 0);
}
