//! `olliesrv chat` as a person at a terminal has it.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use ollie_tests::{World, gap};
use serde_json::{Value, json};

/// A terminal (pty(7)) and somebody at it: awaits texts, types, reads what
/// stands there; `leave` is typed until it ends. Each step has twenty seconds. Prints everything that was
/// shown, and the status, as JSON.
const PERSON: &str = r#"
import json, os, pty, select, signal, sys, time

steps, command = json.loads(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown, looked, ended = b'', 0, False

def more(deadline):
    global shown, ended
    wait = deadline - time.monotonic()
    if wait <= 0 or not select.select([terminal], [], [], wait)[0]:
        return False
    try:
        piece = os.read(terminal, 65536)
    except OSError:  # EIO: nobody has the other end any more
        piece = b''
    shown += piece
    ended = not piece
    return bool(piece)

def finish(problem, status=None):
    print(json.dumps({'shown': shown.decode(errors='replace'), 'problem': problem, 'status': status}))
    sys.exit()

for kind, text in steps:
    deadline = time.monotonic() + 20
    if kind == 'type':
        os.write(terminal, text.encode())
    while kind == 'await' and text.encode() not in shown[looked:]:
        if not more(deadline):
            os.kill(pid, signal.SIGKILL)
            finish(f'{text!r} did not come')
    if kind == 'await':
        looked = shown.index(text.encode(), looked) + len(text.encode())
deadline = time.monotonic() + 20
while not ended and time.monotonic() < deadline:
    if not more(time.monotonic() + 0.5) and not ended and steps[-1][0] == 'leave':
        os.write(terminal, steps[-1][1].encode())
if not ended:
    os.kill(pid, signal.SIGKILL)
    finish('it does not end')
finish(None, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// What was shown, and the status in the end.
#[track_caller]
fn at_a_terminal(world: &World, model: &str, steps: &[(&str, &str)]) -> (String, i64) {
    let model = world.write("home/model.jsonl", model);
    let end = world
        .command("python3")
        .args(["-c", PERSON, &json!(steps).to_string()])
        .arg(world.base().join("bin/olliesrv"))
        .args(["chat", "--backend"])
        .arg(format!("replay:{}", model.display()))
        .env("TERM", "xterm")
        .limit(std::time::Duration::from_secs(120))
        .run();
    let said: Value = serde_json::from_str(&end.ok()).unwrap();
    let shown = said["shown"].as_str().unwrap().to_owned();
    assert_eq!(said["problem"], Value::Null, "{shown}");
    (shown, said["status"].as_i64().unwrap())
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
    ] {
        let steps = [
            &[
                ("await", "> "),
                ("type", "go\r"),
                (
                    "await",
                    ":: to run outside of the sandbox: why\\u{202e}\r\n",
                ),
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
            &format!("\n:: in \"{}\"\r\n", world.project().display()),
            "\n::   | : '\\u{1b}[2J\\u{202e}'\\x20{400}\r\n",
            &format!("\n::   | touch '{}'\r\n", file.display()),
            "\n:: with the variables ",
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
