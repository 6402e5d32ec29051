//! The person's own policy files, `sandbox.yaml` and what is given to `policy
//! check`, and `config.yaml`, which names a profile: whatever they are, an
//! error with its place, in bounded time and memory, and nothing runs.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_tests::{Finished, World};

/// What a run may take: seconds of processor time, and bytes of memory that
/// it can write to (setrlimit(2), RLIMIT_CPU and RLIMIT_DATA).
const BOUNDS: [&str; 2] = ["--cpu=10", "--data=536870912"];

/// A text, and where in it the mistake is, counted by hand; no place where it
/// is the whole that is wrong.
fn wrong_texts() -> Vec<(&'static str, String, Option<&'static str>)> {
    let text = |text: &str| text.to_owned();
    vec![
        (
            "10,000 rules",
            format!("filesystem: {{ ro: [{}] }}", "/a,".repeat(10_000)),
            None,
        ),
        (
            "10,000 names",
            format!("env:\n{}", "- A\n".repeat(10_000)),
            None,
        ),
        (
            "an unknown key",
            text("filesystem:\n  ro: [/opt]\n  rxo: [/opt]\n"),
            Some("3:3"),
        ),
        (
            "an unknown key at the top",
            text("yolo: true\n"),
            Some("1:1"),
        ),
        ("a key twice", text("env: [A]\nenv: [B]\n"), Some("2:1")),
        (
            "a key twice below",
            text("filesystem:\n  ro: []\n  ro: [/]\n"),
            Some("3:3"),
        ),
        (
            "a word for a number",
            text("limits: { processes: many }\n"),
            Some("1:22"),
        ),
        (
            "a text for a list",
            text("filesystem:\n  ro: /etc\n"),
            Some("2:7"),
        ),
        ("a list for keys", text("network: [443]\n"), Some("1:10")),
        ("keys for a text", text("env:\n  - { A: B }\n"), Some("2:5")),
        (
            "a number that is too large",
            text("network:\n  connect_tcp: [65536]\n"),
            Some("2:17"),
        ),
        (
            "an anchor",
            text("env: &a [A]\ndrop: { env: *a }\n"),
            Some("1:9"),
        ),
        ("an alias bomb", bomb(), Some("1:1")),
        ("a merge key", text("<<: { env: [A] }\n"), Some("1:1")),
        (
            "two documents",
            text("env: [A]\n---\nenv: [B]\n"),
            Some("2:1"),
        ),
        ("no end", text("env: [A"), Some("")),
        ("a deep list", "[".repeat(60_000), Some("")),
        ("deep keys", "{a: ".repeat(15_000), Some("")),
        (
            "deep blocks",
            (0..300).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
            Some(""),
        ),
        ("a long word", "a".repeat(60_000), Some("")),
        ("a byte of nothing", text("env: [\"A\0\"]\n"), Some("")),
    ]
}

/// Nine lists, each of nine times the one before: nine to the ninth words.
fn bomb() -> String {
    let mut text = "a: &a [x]\n".to_owned();
    for (before, name) in ('a'..='h').zip('b'..='i') {
        let nine = vec![format!("*{before}"); 9].join(", ");
        text += &format!("{name}: &{name} [{nine}]\n");
    }
    text + "env: *i\n"
}

fn bounded(world: &World, arguments: &[&str]) -> Finished {
    let program = world.base().join("bin/olliesrv");
    let run = world.command("/usr/bin/prlimit").args(BOUNDS).arg(program);
    run.args(arguments).limit(Duration::from_secs(60)).run()
}

/// An error, told in few words; no crash, and nothing ran.
#[track_caller]
fn refused(end: &Finished, what: &str, file: &str, place: Option<&str>) {
    assert_eq!((end.status, end.out().as_str()), (206, ""), "{what}: {end}");
    let said = end.err();
    assert!(!said.contains("panicked"), "{what}: {end}");
    assert!(said.len() < 4096, "{what}: {end}");
    match place {
        Some(place) => assert!(said.contains(&format!("{file}:{place}")), "{what}: {end}"),
        None => assert!(
            said.contains(file) || said.contains("rules"),
            "{what}: {end}"
        ),
    }
}

/// Puts something at a path.
type Maker = fn(&Path);

/// What is no file of text. It is put at a path, and removed again.
fn wrong_files() -> Vec<(&'static str, Maker)> {
    vec![
        ("a gigabyte", |path| {
            let file = std::fs::File::create(path).unwrap();
            file.set_len(1 << 30).unwrap();
        }),
        ("a FIFO", |path| {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        }),
        ("a link to itself", |path| {
            symlink(path, path).unwrap();
        }),
        ("a link to zeros without an end", |path| {
            symlink("/dev/zero", path).unwrap();
        }),
        ("a directory", |path| {
            std::fs::create_dir(path).unwrap();
        }),
        ("bytes that are no text", |path| {
            std::fs::write(path, [0xff; 100]).unwrap();
        }),
    ]
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
}

fn configuration(world: &World, name: &str) -> PathBuf {
    let directory = world.make_directory("home/.config/ollie");
    directory.join(name)
}

#[test]
fn a_wrong_sandbox_yaml_is_an_error_with_its_place_and_nothing_runs() {
    let world = World::ordinary();
    let path = configuration(&world, "sandbox.yaml");
    let exec = ["exec", "--", "echo", "ran"];
    assert_eq!(bounded(&world, &exec).ok(), "ran\n");
    for (what, text, place) in wrong_texts() {
        world.write(&path, text);
        refused(&bounded(&world, &exec), what, "sandbox.yaml", place);
        let check = bounded(&world, &["policy", "check", path.to_str().unwrap()]);
        // Rules are counted where they are laid on others.
        if place.is_some() {
            refused(&check, what, "sandbox.yaml", place);
        }
    }
    for (what, make) in wrong_files() {
        remove(&path);
        make(&path);
        refused(&bounded(&world, &exec), what, "sandbox.yaml", None);
        let check = bounded(&world, &["policy", "check", path.to_str().unwrap()]);
        refused(&check, what, "sandbox.yaml", None);
    }
}

#[test]
fn as_many_rules_as_there_may_be_hold_and_open_nothing_else() {
    let world = World::ordinary();
    let path = configuration(&world, "sandbox.yaml");
    world.write("home/data/file", "data\n");
    let rules = "/usr,".repeat(3_700);
    world.write(
        &path,
        format!("filesystem: {{ ro: [{rules} '{{HOME}}/data'] }}\n"),
    );
    let read = |file: &str| bounded(&world, &["exec", "--", "cat", file]);
    let file = |name: &str| world.home().join(name).to_str().unwrap().to_owned();
    assert_eq!(read(&file("data/file")).ok(), "data\n");
    let _ = read(&file(".ssh/id_ed25519")).has_status(1);
}

/// It holds no rules, but the name of a profile.
#[test]
fn a_wrong_config_yaml_is_an_error_with_its_place_and_nothing_runs() {
    let world = World::ordinary();
    let path = configuration(&world, "config.yaml");
    let exec = ["exec", "box", "--", "echo", "ran"];
    let said = |what: &str| {
        let end = bounded(&world, &exec);
        // 213: a wrong configuration; 206: a wrong policy.
        assert!([206, 213].contains(&end.status), "{what}: {end}");
        assert_eq!(end.out(), "", "{what}: {end}");
        assert!(!end.err().contains("panicked"), "{what}: {end}");
        assert!(end.err().len() < 4096, "{what}: {end}");
        end.err()
    };
    let profile = |name: &str| format!("remotes:\n  box:\n    profile: {name}\n");
    for (what, text, place) in [
        (
            "an unknown key",
            "remotes: {}\nyolo: true\n".to_owned(),
            "line 2",
        ),
        (
            "a key twice",
            "remotes: {}\nremotes: {}\n".to_owned(),
            "line 2",
        ),
        (
            "a wrong type",
            "remotes:\n  box: [a]\n".to_owned(),
            "line 2",
        ),
        ("rules", "filesystem: { rw: [/] }\n".to_owned(), "line 1"),
        ("an alias bomb", bomb(), "line"),
        ("a deep list", "[".repeat(60_000), "line"),
        (
            "10,000 unknown remotes",
            format!("remotes:\n{}", "  box: {}\n".repeat(10_000)),
            "line",
        ),
        ("no such profile", profile("nothing"), "nothing"),
        (
            "a path for a profile",
            profile("../../../tmp/mine"),
            "profile",
        ),
    ] {
        world.write(&path, text);
        let said = said(what);
        assert!(said.contains(place), "{what}: {said}");
    }
    for (what, make) in wrong_files() {
        remove(&path);
        make(&path);
        let said = said(what);
        assert!(said.contains("config.yaml"), "{what}: {said}");
    }
}
