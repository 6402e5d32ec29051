//! What the command line says: exit statuses, reports, traces.

use std::process::Command;
use std::time::{Duration, Instant};

use ollie_tests::World;
use serde_json::Value;

#[test]
fn what_ollie_cannot_do_has_the_documented_status_and_a_reason() {
    let world = World::ordinary();
    let table: [(i32, &[&str], &str); 19] = [
        (2, &["exec"], "COMMAND"),
        (2, &["exec", "uname", "-a"], "olliesrv exec -- uname -a"),
        (2, &["exec", "uname"], "olliesrv exec -- uname"),
        (2, &["nosuch"], "nosuch"),
        (2, &["exec", "--timeout", "abc", "--", "true"], "abc"),
        (2, &["exec", "--env", "X", "--", "true"], "NAME=VALUE"),
        (
            2,
            &["exec", "--env", "LD_PRELOAD=x", "--", "true"],
            "LD_PRELOAD",
        ),
        (2, &["call", "shell", "code"], "NAME=VALUE"),
        (2, &["call", "shell", "{\"code\":"], "JSON"),
        (
            126,
            &["exec", "--", "/etc/passwd"],
            "cannot execute /etc/passwd",
        ),
        (127, &["exec", "--", "nosuch"], "nosuch: no such program"),
        (
            201,
            &["exec", "--bundle", "/nonexistent", "--", "true"],
            "/nonexistent",
        ),
        (
            206,
            &["exec", "--profile", "nosuch", "--", "true"],
            "nosuch",
        ),
        (
            207,
            &["exec", "--cwd", "/nonexistent", "--", "true"],
            "/nonexistent",
        ),
        (
            207,
            &["exec", "--cwd", "/etc/passwd", "--", "true"],
            "/etc/passwd",
        ),
        (208, &["call", "nosuch"], "no tool named \"nosuch\""),
        (208, &["call", "shell"], "code"),
        (208, &["call", "shell", "cod=1"], "cod"),
        (
            204,
            &["exec", "--timeout", "50ms", "--", "sleep", "4242"],
            "time is up",
        ),
    ];
    for (status, arguments, text) in table {
        let end = world
            .ollie(arguments)
            .run()
            .has_status(status)
            .says(&[text]);
        assert_eq!(end.out(), "", "{end}");
    }
}

#[test]
fn a_policy_with_a_mistake_is_refused_with_its_place() {
    let world = World::ordinary();
    for (text, says) in [
        ("filesystem: { rO: [] }\n", ":1:"),
        ("env: [A]\nenv: [B]\n", ":2:"),
        ("filesystem:\n  ro: nothing\n", ":2:7: a list is expected"),
        (
            "drop: { filesystem: [\"{NO_SUCH_VARIABLE}/x\"] }\n",
            "NO_SUCH_VARIABLE",
        ),
    ] {
        world.write("home/.config/ollie/sandbox.yaml", text);
        let end = world.ollie(["exec", "--", "echo", "ran"]).run();
        assert_eq!(end.out(), "", "nothing may run: {end}");
        let _ = end.failed().says(&["sandbox.yaml", says]);
    }
}

#[test]
fn help_and_version_are_there() {
    let world = World::ordinary();
    let help = world.ollie(["--help"]).run().ok();
    for status in 201..=209 {
        assert!(
            help.contains(&status.to_string()),
            "{status} is not explained"
        );
    }
    for command in ["exec", "call", "policy", "doctor"] {
        assert!(help.contains(command));
        assert!(
            world
                .ollie([command, "--help"])
                .run()
                .ok()
                .contains("Usage:")
        );
    }
    let version = world.ollie(["--version"]).run().ok();
    assert_eq!(version, format!("olliesrv {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_policy_is_shown_as_text_and_as_json() {
    let world = World::ordinary();
    let text = world.ollie(["policy", "show"]).run().ok();
    let project = world.project().display().to_string();
    for part in ["profile default, line", &project, "enforced: "] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let json = world.ollie(["policy", "show", "--json"]).run().ok();
    let record: Value = serde_json::from_str(&json).unwrap();
    assert!(record["policy"].is_object() && record["enforcement"].is_object());
    let json = world
        .ollie(["policy", "show", "--json", "--yolo"])
        .run()
        .ok();
    let record: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(record["enforcement"]["enforced"], "none");
}

#[test]
fn doctor_goes_through_all_steps_and_says_what_is_wrong() {
    let world = World::ordinary();
    let report = |arguments: &[&str], status| -> Value {
        let end = world.ollie(arguments).run().has_status(status);
        serde_json::from_str(&end.out()).unwrap()
    };
    let well = report(&["doctor", "--json"], 0);
    assert_eq!(well["ok"], true);
    let checks = well["checks"].as_array().unwrap();
    let names: Vec<_> = checks
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    for name in [
        "bundle", "toolsrv", "session", "kernel", "policy", "call", "end",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let ill = report(&["doctor", "--json", "--bundle", "/nonexistent"], 201);
    assert_eq!(ill["ok"], false);
    let last = ill["checks"].as_array().unwrap().last().unwrap();
    assert_eq!(last["ok"], false);
    assert!(last["found"].as_str().unwrap().contains("/nonexistent"));
    assert!(last["remedy"].is_string());
    let text = world.ollie(["doctor"]).run().ok();
    assert!(!text.contains("FAILED"), "{text}");
}

#[test]
fn a_trace_shows_messages_and_neither_data_nor_proofs() {
    let world = World::ordinary();
    let end = world
        .ollie([
            "exec",
            "--trace-9p",
            "--env",
            "TOKEN=t0p",
            "--",
            "sh",
            "-c",
            "cat; echo argued",
        ])
        .stdin("typed")
        .run()
        .has_status(0);
    assert_eq!(end.out(), "typedargued\n");
    let trace = end.err();
    for message in [
        "-> Tversion",
        "<- Rversion",
        "-> Tauth",
        "-> Twrite",
        "<- Rread",
        "-> Tclunk",
    ] {
        assert!(trace.contains(message), "no {message:?} in {trace}");
    }
    for data in ["typed", "argued", "t0p"] {
        assert!(!trace.contains(data), "{data:?} in {trace}");
    }
    let words = trace.split(|c: char| !c.is_ascii_hexdigit());
    assert_eq!(words.filter(|word| word.len() >= 32).count(), 0, "{trace}");
}

#[test]
fn verbose_tells_the_steps_with_their_times() {
    let world = World::ordinary();
    let end = world
        .ollie(["exec", "--verbose", "--", "true"])
        .run()
        .has_status(0);
    let _ = end.says(&["ms]", "toolsrv is ready", "toolsrv is gone"]);
}

/// Nobody waits for a grace that nobody needs: the shortest is two seconds.
#[test]
fn a_session_ends_when_its_command_does() {
    let world = World::ordinary();
    let once = || {
        let started = Instant::now();
        let _ = world.ollie(["exec", "--", "true"]).run().ok();
        started.elapsed()
    };
    let mut times: Vec<_> = (0..8).map(|_| once()).collect();
    times.sort();
    // A busy machine slows down all of them.
    assert!(
        times[7] - times[0] < Duration::from_millis(1900),
        "{times:?}"
    );
}

#[test]
fn what_a_command_prints_steers_no_terminal_through_ollie() {
    let world = World::ordinary();
    let evil = "\x1b]0;title\x07\u{202e}";
    let end = world.ollie(["exec", "--"]).arg(evil).run().has_status(127);
    assert!(
        !end.err().contains('\x1b') && !end.err().contains('\u{202e}'),
        "{end}"
    );
}

#[test]
fn each_shell_accepts_its_completions_and_they_name_every_command() {
    let world = World::ordinary();
    let help = world.ollie(["help"]).run().has_status(0);
    let listed = help.out();
    let commands: Vec<&str> = listed
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty())
        .collect();
    assert!(commands.contains(&"exec"), "{listed}");
    for shell in ["bash", "zsh", "fish"] {
        let end = world.ollie(["completions", shell]).run().has_status(0);
        let script = end.out();
        for command in &commands {
            assert!(script.contains(command), "{shell} completes {command}");
        }
        let file = world.write(format!("completions.{shell}"), &script);
        let status = Command::new(shell).arg("-n").arg(file).status().unwrap();
        assert!(status.success(), "{shell} reads its completions");
    }
    let pages = world.home().join("pages");
    let _written = world
        .ollie(["man", "--dir", &pages.display().to_string()])
        .run()
        .has_status(0);
    for command in commands {
        let page = pages.join(format!("olliesrv-{command}.1"));
        let known = command == "help" || std::fs::read_to_string(&page).unwrap().starts_with(".ie");
        assert!(known, "{}", page.display());
    }
    for (words, title) in [
        (&["man"][..], ".TH olliesrv 1"),
        (&["man", "exec"], ".TH olliesrv-exec 1"),
        (&["man", "policy", "show"], ".TH olliesrv-policy-show 1"),
    ] {
        let page = world.ollie(words).run().ok();
        assert!(page.contains(title), "{page}");
    }
    let _ = world
        .ollie(["man", "none"])
        .run()
        .has_status(2)
        .says(&["no command \"none\""]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let world = World::ordinary();
    let program = world.base().join("bin/olliesrv");
    // true(1) has closed its end by then.
    let code = format!(
        "{{ sleep 0.5; {} completions bash; echo $? >&2; }} | true",
        program.display()
    );
    let end = world.command("/bin/sh").args(["-c", &code]).run();
    assert_eq!(end.err(), "141\n", "{end}");
}

#[test]
fn policy_show_folds_what_is_not_here_and_all_shows_it() {
    let world = World::ordinary();
    let short = world.ollie(["policy", "show"]).run().ok();
    assert!(
        short.contains("not on this host; --all shows them"),
        "{short}"
    );
    assert!(!short.contains("\nnot on this host\n"), "{short}");
    let long = world.ollie(["policy", "show", "--all"]).run().ok();
    assert!(long.contains("\nnot on this host\n"), "{long}");
    assert!(long.lines().count() > short.lines().count() + 10);
}

#[test]
fn doctors_milliseconds_have_three_places_at_most() {
    let world = World::ordinary();
    let end = world.ollie(["doctor", "--json"]).run();
    let report: Value = serde_json::from_str(&end.out()).unwrap();
    for check in report["checks"].as_array().unwrap() {
        let text = check["ms"].to_string();
        let places = text.split_once('.').map_or(0, |(_, places)| places.len());
        assert!((1..=3).contains(&places), "{text}");
    }
}

#[test]
fn a_background_process_of_a_single_call_is_said_to_have_ended() {
    let world = World::ordinary();
    let _ = world
        .ollie(["call", "proc_start", "code=exec sleep 60"])
        .run()
        .has_status(0)
        .says(&["ended with it", "--lease"]);
    world.nothing_left();
}

#[test]
fn a_working_directory_that_cannot_be_entered_is_told_as_on_another_host() {
    let world = World::ordinary();
    let home = world.home().display().to_string();
    world.write("home/file", "");
    let closed = world.make_directory("home/closed");
    let shut = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(&closed, shut).unwrap();
    for (cwd, problem) in [
        ("none", "No such file or directory"),
        ("file", "Not a directory"),
        ("closed", "Permission denied"),
    ] {
        let cwd = format!("{home}/{cwd}");
        let _ = world
            .ollie(["exec", "--cwd", &cwd, "--", "pwd"])
            .run()
            .has_status(207)
            .says(&[&cwd, problem]);
    }
    let shut = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&closed, shut).unwrap();
}
