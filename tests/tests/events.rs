//! Events and results as JSON, for programs.

use ollie_tests::World;

#[test]
fn call_runs_shell_code_and_keeps_its_status() {
    let world = World::ordinary();
    let end = world
        .ollie(["call", "shell", "code=echo out; exit 3"])
        .run();
    assert_eq!(end.has_status(3).out(), "out\n");
    let end = world
        .ollie(["call", "shell", "{\"argv\":[\"echo\",\"a b\"]}"])
        .run();
    assert_eq!(end.ok(), "a b\n");
    let end = world
        .ollie(["call", "--json", "shell", "code=echo out"])
        .run();
    let result = &end.json_lines()[0];
    assert_eq!(result["content"], "out\n");
    assert_eq!(result["ok"], true);
    assert_eq!(result["exit"]["code"], 0);
    assert_eq!(result["tree_ended"], true);
}

#[test]
fn the_events_of_exec_are_json_lines_with_the_result_last() {
    let world = World::ordinary();
    let end = world
        .ollie([
            "exec",
            "--json",
            "--",
            "sh",
            "-c",
            "echo out; sleep 0.1; echo err >&2; exit 7",
        ])
        .run()
        .has_status(7);
    let events = end.json_lines();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["started", "output", "output", "result"], "{end}");
    assert!(events[0]["pid"].as_u64() > Some(1));
    assert_eq!(events[1]["stream"], "stdout");
    assert_eq!(events[1]["data"], "out\n");
    assert_eq!(events[2]["stream"], "stderr");
    let result = &events[3];
    assert_eq!(result["exit"]["code"], 7);
    assert_eq!(result["ok"], false);
    assert_eq!(result["content"], "out\nerr\n");
    assert_eq!(result["sandbox"]["profile"], "default");
    assert_ne!(result["sandbox"]["enforced"], "none");
}

/// A command may have ended before anybody reads of it.
#[test]
fn a_short_command_has_started_as_well() {
    let world = World::ordinary();
    for _ in 0..12 {
        let end = world.ollie(["exec", "--json", "--", "echo", "short"]).run();
        let events = end.json_lines();
        let kinds: Vec<_> = events.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["started", "output", "result"], "{end}");
    }
    let end = world.ollie(["exec", "--json", "--", "nosuch"]).run();
    let events = end.has_status(127).json_lines();
    assert_eq!(events.len(), 1, "nothing has started: {events:?}");
    assert_eq!(events[0]["failure"]["kind"], "not-found");
}

#[test]
fn a_result_says_that_there_was_no_sandbox_and_what_was_refused() {
    let world = World::ordinary();
    let last = |arguments: &[&str]| world.ollie(arguments).run().json_lines().pop().unwrap();
    let result = last(&["exec", "--json", "--yolo", "--", "true"]);
    assert_eq!(result["sandbox"]["enforced"], "none");
    let key = world.home().join(".ssh/id_ed25519");
    let key = key.to_str().unwrap();
    let result = last(&["exec", "--json", "--", "cat", key]);
    let denied = &result["sandbox"]["denied"][0];
    assert_eq!(denied["operation"], "read", "{result}");
    assert_eq!(denied["target"], key);
    assert!(denied["allow"].as_str().unwrap().contains("id_ed25519"));
}
