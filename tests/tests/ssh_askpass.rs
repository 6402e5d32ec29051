//! ssh's questions reach the person who has a terminal, and nobody else.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ollie_tests::{Devbox, World, at_a_terminal, gap};

/// Gives the client's key a passphrase.
fn lock(devbox: &Devbox<'_>) {
    let locked = Command::new("ssh-keygen")
        .args(["-q", "-p", "-P", "", "-N", "open sesame", "-f"])
        .arg(devbox.path("key"))
        .status()
        .unwrap();
    assert!(locked.success());
}

/// `olliesrv exec` on a terminal of its own.
#[track_caller]
fn exec(devbox: &Devbox<'_>, steps: &[(&str, &str)]) -> (String, i64) {
    let target = devbox.target();
    let arguments = ["exec", "-n", &target, "--", "echo", "in"];
    at_a_terminal(devbox.world(), &arguments, Some(&devbox.ssh()), steps)
}

/// What the model says to whatever it is told.
const MODEL: &str = r#"{"text":"First answer."}
{"stop":"end"}
{"text":"Second answer."}
{"stop":"end"}
"#;

/// `olliesrv chat`, with its own sessions, whose tools run there.
#[track_caller]
fn chat(devbox: &Devbox<'_>, steps: &[(&str, &str)]) -> (String, i64) {
    let model = devbox.world().write("home/model.jsonl", MODEL);
    let (target, backend) = (devbox.target(), format!("replay:{}", model.display()));
    let arguments = ["chat", "--backend", &backend, "--remote", &target];
    at_a_terminal(devbox.world(), &arguments, Some(&devbox.ssh()), steps)
}

/// Everything that the sessions of this world have on the disk.
fn kept(world: &World) -> String {
    let end = world
        .command("/bin/sh")
        .args([
            "-c",
            "cd \"$HOME\" && find .local/state -type f -exec cat {} +",
        ])
        .run();
    end.ok()
}

fn ready(what: &str) -> Option<World> {
    if !Path::new("/dev/ptmx").exists() {
        gap(what, "needs /dev/ptmx");
        return None;
    }
    World::with_ssh(what)
}

const PASSPHRASE: &str = "Enter passphrase for key";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

#[test]
fn a_passphrase_is_asked_for_on_the_terminal_and_not_shown() {
    let Some(world) = ready("passphrases") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let (shown, status) = exec(&devbox, &[("await", PASSPHRASE), ("type", "open sesame\r")]);
    assert_eq!(status, 0, "{shown}");
    assert!(shown.ends_with("in\r\n"), "{shown}");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn a_wrong_passphrase_is_refused() {
    let Some(world) = ready("wrong passphrases") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let wrong = [("await", PASSPHRASE), ("type", "wrong\r")];
    let (shown, status) = exec(&devbox, &wrong.repeat(3));
    assert_eq!(status, 211, "{shown}");
    assert!(shown.contains("refused the authentication"), "{shown}");
}

#[test]
fn ctrl_c_at_a_question_ends_exec() {
    let Some(world) = ready("Ctrl-C at a question of exec") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let (shown, status) = exec(&devbox, &[("await", PASSPHRASE), ("type", CTRL_C)]);
    assert_eq!(status, 130, "{shown}");
}

#[test]
fn a_host_key_is_confirmed_by_the_person() {
    let Some(world) = ready("host keys") else {
        return;
    };
    let devbox = world.devbox().start();
    std::fs::write(devbox.path("known_hosts"), "").unwrap();
    let (shown, status) = exec(&devbox, &[("await", "(yes/no"), ("type", "no\r")]);
    assert_eq!(status, 211, "{shown}");
    assert!(shown.contains("authenticity of host"), "{shown}");
    assert_eq!(
        std::fs::read_to_string(devbox.path("known_hosts")).unwrap(),
        ""
    );
    let (shown, status) = exec(&devbox, &[("await", "(yes/no"), ("type", "yes\r")]);
    assert_eq!(status, 0, "{shown}");
    let known = std::fs::read_to_string(devbox.path("known_hosts")).unwrap();
    assert!(known.contains("ssh-ed25519"), "{known}");
}

#[test]
fn a_chat_asks_before_its_first_line_and_keeps_no_passphrase() {
    let Some(world) = ready("passphrases of a chat") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let steps = [
        ("await", PASSPHRASE),
        ("type", "wrong\r"),
        ("await", PASSPHRASE),
        ("type", "open sesame\r"),
        ("await", "connected to "),
        ("await", "> "),
        ("type", "hello there\r"),
        ("await", "First answer."),
        ("await", "> "),
        ("type", CTRL_D),
    ];
    let (shown, status) = chat(&devbox, &steps);
    assert_eq!(status, 0, "{shown}");
    let kept = kept(&world);
    assert!(kept.contains("hello there"), "{kept}");
    for secret in ["sesame", "wrong"] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(!kept.contains(secret), "{kept}");
    }
}

#[test]
fn a_chat_asks_about_a_host_key_and_the_word_is_no_prompt() {
    let Some(world) = ready("host keys of a chat") else {
        return;
    };
    let devbox = world.devbox().start();
    std::fs::write(devbox.path("known_hosts"), "").unwrap();
    let steps = [
        ("await", "(yes/no"),
        ("type", "yes\r"),
        ("await", "connected to "),
        ("await", "> "),
        ("type", "hello there\r"),
        ("await", "First answer."),
        ("await", "> "),
        ("type", CTRL_D),
    ];
    let (shown, status) = chat(&devbox, &steps);
    assert_eq!(status, 0, "{shown}");
    let kept = kept(&world);
    assert!(kept.contains("user: hello there"), "{kept}");
    assert!(!kept.contains("user: yes"), "{kept}");
}

#[test]
fn ctrl_c_gives_a_question_up_and_the_chat_goes_on() {
    let Some(world) = ready("Ctrl-C at ssh's question") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let steps = [
        ("await", PASSPHRASE),
        // What was typed so far is no line of anything else.
        ("type", "half"),
        ("type", CTRL_C),
        ("await", "refused the authentication"),
        ("await", "> "),
        ("type", "/reconnect\r"),
        ("await", PASSPHRASE),
        ("type", "open sesame\r"),
        ("await", "connected to "),
        ("await", "> "),
        ("type", "hello there\r"),
        ("await", "First answer."),
        ("await", "> "),
        ("type", CTRL_D),
    ];
    let (shown, status) = chat(&devbox, &steps);
    assert_eq!(status, 0, "{shown}");
    let kept = kept(&world);
    for secret in ["sesame", "half"] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(!kept.contains(secret), "{kept}");
    }
}

#[test]
fn a_question_within_a_turn_is_stopped_with_it_and_asked_again() {
    let Some(world) = ready("ssh's questions within a turn") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let call = r#"{"call":{"name":"shell","arguments":{"code":"echo do'n'e"}}}
{"stop":"tool_calls"}
"#;
    let said = r#"{"text":"All done."}
{"stop":"end"}
"#;
    let model = world.write("home/calls.jsonl", [call, said, call, said].concat());
    let (target, backend) = (devbox.target(), format!("replay:{}", model.display()));
    let first = ["--name", "n", "--backend", &backend, "--remote", &target];
    let at = |arguments: &[&str], steps: &[(&str, &str)]| {
        let arguments = [&["chat"], arguments].concat();
        at_a_terminal(&world, &arguments, Some(&devbox.ssh()), steps)
    };
    let end = [("await", "All done."), ("await", "> "), ("type", CTRL_D)];
    let asked = [("await", PASSPHRASE), ("type", "open sesame\r")];
    let begun = [&asked[..], &[("await", "> "), ("type", "go\r")], &end].concat();
    let (shown, status) = at(&first, &begun);
    assert_eq!(status, 0, "{shown}");
    // Restored, it connects with its first call.
    let turn = [
        &[
            ("await", "> "),
            ("type", "more\r"),
            ("await", PASSPHRASE),
            ("type", "half"),
            ("type", CTRL_C),
            ("await", "> "),
            ("type", "/resume\r"),
        ][..],
        &asked,
        &end,
    ]
    .concat();
    let (shown, status) = at(&["--session", "n"], &turn);
    assert_eq!(status, 0, "{shown}");
    let kept = kept(&world);
    for secret in ["sesame", "half"] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(!kept.contains(secret), "{kept}");
    }
}

#[test]
fn when_ssh_is_gone_its_question_is_too() {
    let Some(world) = ready("an ssh that dies while it asks") else {
        return;
    };
    let devbox = world.devbox().start();
    // It goes with its question, and nobody has answered.
    let ssh = world.write(
        "dying-ssh",
        "#!/bin/sh\n\"$SSH_ASKPASS\" 'Enter passphrase for key of this: ' &\nsleep 2\nkill -9 $!\necho gone >&2\nexit 255\n",
    );
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let target = devbox.target();
    let model = world.write("home/model.jsonl", MODEL);
    let backend = format!("replay:{}", model.display());
    let steps = [
        ("await", PASSPHRASE),
        ("type", "half"),
        ("await", "gone"),
        ("await", "> "),
        ("type", "/quit\r"),
    ];
    let arguments = ["chat", "--backend", &backend, "--remote", &target];
    let (shown, status) = at_a_terminal(&world, &arguments, Some(&ssh), &steps);
    assert_eq!(status, 0, "{shown}");
    assert!(!shown.contains("half"), "{shown}");
}

#[test]
fn without_a_terminal_nobody_is_asked_and_nothing_hangs() {
    let Some(world) = ready("no terminal") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let end = devbox
        .world()
        .command("/usr/bin/setsid")
        .args([
            "--wait".as_ref(),
            world.base().join("bin/olliesrv").as_os_str(),
        ])
        .args(["exec", &devbox.target(), "--", "true"])
        .env("OLLIE_SSH", devbox.ssh())
        .run();
    let _ = end.has_status(211).says(&["refused the authentication"]);
}
