//! `olliesrv chat` as a person at a terminal has it.

use ollie_tests::{World, gap};
use serde_json::{Value, json};

/// What was shown, and the status in the end.
#[track_caller]
fn at_a_terminal(world: &World, model: &str, steps: &[(&str, &str)]) -> (String, i64) {
    let model = world.write("home/model.jsonl", model);
    let backend = format!("replay:{}", model.display());
    ollie_tests::at_a_terminal(world, &["chat", "--backend", &backend], None, steps)
}

fn world(what: &str) -> Option<World> {
    if !std::path::Path::new("/dev/ptmx").exists() {
        gap(what, "needs /dev/ptmx");
        return None;
    }
    Some(World::ordinary())
}

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

/// A turn with a call that would take a minute, and one without.
const LONG: &str = r#"{"text":"I wait."}
{"call":{"name":"shell","arguments":{"code":"echo begun; sleep 60; printf 'ne%s' ver"}}}
{"stop":"tool_calls"}
{"text":"Here again."}
{"stop":"end"}
{"text":"And again."}
{"stop":"end"}
"#;

/// Its call is stopped, and the next prompt is there.
const STOPPED: [(&str, &str); 5] = [
    ("await", "> "),
    ("type", "go\r"),
    // The command's output, not the call that names it.
    ("await", "begun\r\n"),
    ("type", CTRL_C),
    ("await", "> "),
];

#[test]
fn ctrl_c_stops_a_call_and_the_next_prompt_is_there() {
    let Some(world) = world("Ctrl-C in a turn") else {
        return;
    };
    let steps = [
        &STOPPED[..],
        &[
            ("type", "once more\r"),
            ("await", "Here again."),
            ("await", "> "),
            ("type", CTRL_D),
        ],
    ]
    .concat();
    let (shown, status) = at_a_terminal(&world, LONG, &steps);
    assert!(!shown.contains("never"), "{shown}");
    assert!(shown.contains("/help tells"), "{shown}");
    // On this machine there is nothing to be connected to.
    assert!(shown.contains("[thinking]"), "{shown}");
    assert!(!shown.contains("[connecting]"), "{shown}");
    assert_eq!(status, 0, "{shown}");
}

#[test]
fn what_is_resumed_is_seen() {
    let Some(world) = world("/resume") else {
        return;
    };
    let steps = [
        &STOPPED[..],
        &[
            ("type", "/resume\r"),
            ("await", "Here again."),
            ("await", "> "),
            ("type", CTRL_D),
        ],
    ]
    .concat();
    let (shown, status) = at_a_terminal(&world, LONG, &steps);
    assert_eq!(status, 0, "{shown}");
}

#[test]
fn what_a_tool_prints_cannot_pass_for_a_line_of_ours() {
    let Some(world) = world("imitation") else {
        return;
    };
    let model = r#"{"call":{"name":"shell","arguments":{"code":"printf ':: for%s\\n\\033[2J> ' ged; echo"}}}
{"stop":"tool_calls"}
{"text":"Seen."}
{"stop":"end"}
"#;
    let steps = [
        ("await", "> "),
        ("type", "go\r"),
        ("await", "Seen."),
        ("await", "> "),
        ("type", CTRL_D),
    ];
    let (shown, status) = at_a_terminal(&world, model, &steps);
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("  :: forged"), "{shown}");
    assert!(!shown.contains("\n:: forged"), "{shown}");
    assert!(shown.contains("  \\u{1b}[2J> "), "{shown}");
    assert!(!shown.contains("\x1b[2J"), "{shown}");
}

#[test]
fn many_ctrl_cs_neither_hang_nor_are_they_lost() {
    let Some(world) = world("many Ctrl-Cs") else {
        return;
    };
    // Of signals that come together one may be all that is seen (signal(7)).
    let burst = CTRL_C.repeat(4);
    let steps = [
        ("await", "> "),
        ("type", "go\r"),
        ("await", "begun\r\n"),
        ("type", &burst),
        // Two leave; one stops the turn, and then there is a prompt, at which
        // no Ctrl-C is for nothing either.
        ("leave", CTRL_C),
    ];
    let (shown, status) = at_a_terminal(&world, LONG, &steps);
    assert!(!shown.contains("never"), "{shown}");
    assert_eq!(status, 130, "{shown}");
    world.nothing_left();
}

#[test]
fn at_an_empty_prompt_ctrl_c_says_how_to_leave_and_the_second_leaves() {
    let Some(world) = world("Ctrl-C at the prompt") else {
        return;
    };
    let steps = [
        ("await", "> "),
        ("type", CTRL_C),
        ("await", "leaves"),
        ("type", CTRL_C),
    ];
    let (shown, status) = at_a_terminal(&world, LONG, &steps);
    assert_eq!(status, 130, "{shown}");
    // Nothing was said, so nothing is kept.
    assert!(!shown.contains("--session"), "{shown}");
}

#[test]
fn words_are_shown_as_they_come_and_old_lines_come_back() {
    let Some(world) = world("streaming on a terminal") else {
        return;
    };
    let model = r#"{"text":"First words. "}
{"wait_ms":3000}
{"text":"Last words."}
{"stop":"end"}
{"text":"Second answer."}
{"stop":"end"}
"#;
    let steps = [
        ("await", "> "),
        ("type", "tell me\r"),
        ("await", "First words. "),
        // Seen before the rest was there: the state shows that it still thinks.
        ("await", "Last words."),
        ("await", "> "),
        ("type", UP),
        ("await", "tell me"),
        ("type", "\r"),
        ("await", "Second answer."),
        ("await", "> "),
        ("type", CTRL_D),
    ];
    let (shown, status) = at_a_terminal(&world, model, &steps);
    assert_eq!(status, 0, "{shown}");
    assert!(
        shown.contains("chat --session"),
        "how to come back: {shown}"
    );
}

/// A model that calls `shell` with each of these, and then is done.
fn calling(calls: &[Value]) -> String {
    let call = |arguments: &Value| {
        let call = json!({"call": {"name": "shell", "arguments": arguments}});
        format!("{call}\n{{\"stop\":\"tool_calls\"}}\n")
    };
    let calls: String = calls.iter().map(call).collect();
    calls + "{\"text\":\"All done.\"}\n{\"stop\":\"end\"}\n"
}

/// The end of a conversation.
const DONE: [(&str, &str); 3] = [("await", "All done."), ("await", "> "), ("type", CTRL_D)];

#[test]
fn a_yes_lets_out_what_was_shown_and_it_steers_no_terminal() {
    let Some(world) = world("a question at the terminal") else {
        return;
    };
    let file = world.outside().join("made");
    let code = format!(
        ": '\u{1b}[2J\u{202e}'{}\ntouch '{}'",
        " ".repeat(400),
        file.display()
    );
    let model = calling(&[json!({"code": code, "bypass": "why\u{202e}"})]);
    for (answer, made) in [
        ("yes\r", true),
        ("Y\r", true),
        ("\r", false),
        ("yep\r", false),
        // Not confirmed by Enter.
        ("y\u{4}", false),
    ] {
        let steps = [
            &[
                ("await", "> "),
                ("type", "go\r"),
                ("await", "::   | why\\u{202e}\r\n"),
                ("await", "[y/N] "),
                ("type", answer),
            ][..],
            &DONE,
        ]
        .concat();
        let (shown, status) = at_a_terminal(&world, &model, &steps);
        assert_eq!(status, 0, "{shown}");
        assert_eq!(file.exists(), made, "{answer:?}: {shown}");
        for line in [
            " on this machine, in\r\n",
            "\n::   | : '\\u{1b}[2J\\u{202e}'\\x20{400}\r\n",
            "\n::   | touch '",
            "\n:: with the variables\r\n",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        assert!(!shown.contains("\x1b[2J") && !shown.contains('\u{202e}'));
        let _ = std::fs::remove_file(&file);
    }
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let Some(world) = world("typing ahead") else {
        return;
    };
    let file = world.outside().join("made");
    let model = calling(&[
        json!({"code": "echo begun; sleep 2"}),
        json!({"code": format!("touch '{}'", file.display()), "bypass": "why"}),
    ]);
    let steps = [
        &[
            ("await", "> "),
            ("type", "go\r"),
            ("await", "begun\r\n"),
            // A whole line, and one that an Enter would complete.
            ("type", "y\ry"),
            ("await", "with the variables\r\n"),
            // Nobody reads that fast.
            ("type", "y\r"),
            ("await", "[y/N] "),
            ("type", "\r"),
            ("await", ":: denied"),
        ][..],
        &DONE,
    ]
    .concat();
    let (shown, status) = at_a_terminal(&world, &model, &steps);
    assert_eq!(status, 0, "{shown}");
    assert!(!file.exists(), "{shown}");
}

#[test]
fn ctrl_c_at_a_question_stops_the_turn() {
    let Some(world) = world("Ctrl-C at a question") else {
        return;
    };
    let file = world.outside().join("made");
    let model = calling(&[json!({"code": format!("touch '{}'", file.display()), "bypass": "w"})]);
    let steps = [
        ("await", "> "),
        ("type", "go\r"),
        ("await", "[y/N] "),
        ("type", CTRL_C),
        ("await", ":: asked no more"),
        ("await", "> "),
        ("type", CTRL_D),
    ];
    let (shown, status) = at_a_terminal(&world, &model, &steps);
    // As of any turn that was stopped.
    assert_eq!(status, 130, "{shown}");
    assert!(!file.exists(), "{shown}");
}

#[test]
fn a_session_that_is_not_there_is_told_with_those_that_are() {
    let Some(world) = world("--session of none") else {
        return;
    };
    let unknown = ["chat", "--session", "nosuch"];
    let none = world.ollie(unknown).run().has_status(208);
    let _ = none.says(&["there is no session \"nosuch\"; there is none"]);
    let said = "{\"text\":\"All done.\"}\n{\"stop\":\"end\"}\n";
    let begun = [
        &[("await", "> "), ("type", "/rename one\r"), ("await", "> ")][..],
        &[("type", "go\r")],
        &DONE,
    ];
    let (shown, _) = at_a_terminal(&world, said, &begun.concat());
    let one = world.ollie(unknown).run().has_status(208);
    let _ = one.says(&["there is no session \"nosuch\"; there is one"]);
    assert!(shown.contains("--session one"), "{shown}");
}

#[test]
fn a_renamed_session_goes_on() {
    let Some(world) = world("/rename") else {
        return;
    };
    let model = r#"{"text":"All done."}
{"stop":"end"}
"#;
    let steps = [
        &[
            ("await", "> "),
            ("type", "/rename other\r"),
            ("await", "> "),
            ("type", "go\r"),
        ][..],
        &DONE,
    ]
    .concat();
    let (shown, status) = at_a_terminal(&world, model, &steps);
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("chat --session other\r\n"), "{shown}");
}

#[test]
fn a_line_that_is_no_text_is_refused_and_the_chat_goes_on() {
    let Some(world) = world("bytes that are not UTF-8") else {
        return;
    };
    let model = r#"{"text":"All done."}
{"stop":"end"}
"#;
    let steps = [
        &[
            ("await", "> "),
            ("type bytes", "63 61 66 e9 21 0d"),
            ("await", "not UTF-8"),
            ("await", "> "),
            ("type", "go\r"),
        ][..],
        &DONE,
    ]
    .concat();
    let (shown, status) = at_a_terminal(&world, model, &steps);
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("chat --session"), "{shown}");
}
