//! A session has the user's own tools, as they are now.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use ollie_tests::World;
use serde_json::Value;

/// A model that calls `greet` once in each turn.
fn model(world: &World, turns: usize) -> String {
    let turn = "{\"call\":{\"name\":\"greet\",\"arguments\":{\"name\":\"ada\"}}}\n\
                {\"stop\":\"tool_calls\"}\n{\"text\":\"So.\"}\n{\"stop\":\"end\"}\n";
    let path = world.write("home/model.jsonl", turn.repeat(turns));
    format!("replay:{}", path.display())
}

fn greet(world: &World, word: &str) {
    let script = format!(
        "#!/bin/sh\n# description: Greets somebody.\n# args: NAME\n\
         echo \"{word}, $OLLIE_ARG_NAME\"\n"
    );
    world.write_program("home/.config/ollie/tools/greet.sh", &script);
}

fn answers(context: &str) -> Vec<String> {
    context
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|entry| entry["calls"].as_array().cloned())
        .flatten()
        .map(|call| call["outcome"]["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Without the second reading of the directory the second turn would greet as
/// the first; without bringing tools to a new toolsrv the third would find no
/// `greet`.
#[test]
fn a_tool_of_the_users_is_there_and_changes_between_turns_and_comes_to_a_new_toolsrv() {
    let world = World::ordinary();
    greet(&world, "Good day");
    let backend = model(&world, 4);
    let served = world.serve();
    served.session(&format!("name=s backend={backend}"));
    let turn = || {
        let _ = served.send("s", "go").has_status(0);
        answers(&served.read("session/s/context"))
    };
    assert_eq!(turn().last().unwrap(), "Good day, ada\n");
    greet(&world, "Good night");
    assert_eq!(turn().last().unwrap(), "Good night, ada\n");
    served.write("session/s/ctl", "reconnect");
    assert_eq!(turn().last().unwrap(), "Good night, ada\n");
    // What is broken tells why, and the one before it goes on.
    world.write_program(
        "home/.config/ollie/tools/greet.sh",
        "#!/bin/sh\n# description: Greets.\n# args: ???\necho broken\n",
    );
    assert_eq!(turn().last().unwrap(), "Good night, ada\n");
    let events = served.read("session/s/events");
    assert!(events.contains("the tool greet is not used"), "{events}");
    let _ = served.end();
}
