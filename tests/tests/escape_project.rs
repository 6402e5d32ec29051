//! The project's own policy file: it narrows at once, and widens for who has
//! trusted it as it is.

use std::os::unix::fs::symlink;
use std::time::Duration;

use ollie_tests::{Finished, World};

const FILE: &str = "home/project/.ollie-sandbox.yaml";
const ASKS: &str = "filesystem: { rw: ['{HOME}/data'] }\n";

/// A project that asks for a directory of the home.
fn asking() -> World {
    let world = World::ordinary();
    world.write("home/data/file", "data\n");
    world.write(FILE, ASKS);
    world
}

fn reads_data(world: &World) -> Finished {
    world.shell("cat ~/data/file").run()
}

fn trust(world: &World) -> Finished {
    world.ollie(["policy", "trust", "--yes"]).run()
}

fn digest(world: &World) -> String {
    let end = world.ollie(["policy", "diff"]).run();
    let text = end.ok();
    let line = text.lines().find_map(|line| line.strip_prefix("sha256 "));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn what_it_asks_for_it_has_once_it_is_trusted_and_not_before() {
    let world = asking();
    let _ = reads_data(&world).failed().says(&[
        "the project asks for more",
        "rw {HOME}/data",
        "olliesrv policy trust",
    ]);
    assert!(trust(&world).ok().contains("rw {HOME}/data"));
    let end = world.shell("cat ~/data/file && echo x > ~/data/new").run();
    assert!(!end.err().contains("asks for more"), "{end}");
    assert_eq!(end.ok(), "data\n");
    let _ = world.shell("cat ~/.ssh/id_ed25519").run().failed();
}

#[test]
fn one_changed_byte_needs_trust_anew() {
    let world = asking();
    let _ = trust(&world).ok();
    world.write(FILE, format!("{ASKS}#"));
    let _ = reads_data(&world).failed().says(&["asks for more"]);
    world.write(FILE, ASKS);
    assert_eq!(reads_data(&world).ok(), "data\n");
}

#[test]
fn one_moved_link_needs_trust_anew() {
    let world = asking();
    world.write("home/other/file", "other\n");
    let link = world.home().join("data-link");
    symlink("data", &link).unwrap();
    world.write(FILE, "filesystem: { ro: ['{HOME}/data-link'] }\n");
    let _ = trust(&world).ok();
    let read = || world.shell("cat ~/data-link/file").run();
    assert_eq!(read().ok(), "data\n");
    std::fs::remove_file(&link).unwrap();
    symlink("other", &link).unwrap();
    let _ = read().failed().says(&["asks for more"]);
}

#[test]
fn a_link_that_a_tool_made_opens_nothing_even_when_trusted() {
    let world = asking();
    world.write(FILE, "filesystem: { ro: ['{CWD}/keys'] }\n");
    let _ = world.shell("ln -s ~/.ssh keys").run().ok();
    let _ = trust(&world);
    let _ = world.shell("cat keys/id_ed25519").run().failed();
}

#[test]
fn trust_is_for_one_directory() {
    let world = asking();
    let _ = trust(&world).ok();
    let elsewhere = world.make_directory("home/elsewhere");
    world.write("home/elsewhere/.ollie-sandbox.yaml", ASKS);
    let end = world.shell("cat ~/data/file").cwd(elsewhere).run();
    let _ = end.failed().says(&["asks for more"]);
}

#[test]
fn a_tool_that_rewrites_the_file_gains_nothing_and_it_is_said() {
    let world = asking();
    world.write(FILE, "");
    let code = format!(
        "echo \"{}\" > .ollie-sandbox.yaml; cat ~/data/file",
        ASKS.trim()
    );
    let _ = world
        .shell(&code)
        .run()
        .failed()
        .says(&["changed during this session"]);
    let _ = reads_data(&world).failed().says(&["asks for more"]);
}

#[test]
fn the_digest_of_the_file_grants_it_for_one_session() {
    let world = asking();
    let digest = digest(&world);
    let with = |digest: &str| {
        world
            .ollie(["exec", "--trust-project", digest, "--", "cat"])
            .arg(world.home().join("data/file"))
            .run()
    };
    assert_eq!(with(&digest).ok(), "data\n");
    // It was for that session.
    let _ = reads_data(&world).failed();
    // Another file than the one that was looked at: nothing runs.
    world.write(FILE, format!("{ASKS}#"));
    let _ = with(&digest).has_status(2).says(&[&digest]);
    let wrong = world.ollie(["policy", "trust", &digest]).run();
    let _ = wrong.has_status(2);
}

#[test]
fn what_it_takes_away_is_gone_without_trust() {
    let world = asking();
    world.write(
        FILE,
        "network: { none: true }\ndrop: { filesystem: ['{HOME}/.gitconfig'], env: [LANG] }\n\
         limits: { file_size_mb: 1 }\n",
    );
    let _ = world.shell("cat ~/.gitconfig").run().failed();
    let code = "test -z \"$LANG\" && ulimit -f";
    assert_eq!(world.shell(code).run().ok().trim(), "2048");
    let _ = world
        .shell("python3 -c 'import socket; socket.socket()'")
        .run()
        .failed();
    // No line of the person's file brings it back, so none is proposed.
    let why = |operation: &str, what: &str| {
        let end = world.ollie(["policy", "why", operation, what]).run();
        end.out() + &end.err()
    };
    let config = world.home().join(".gitconfig").display().to_string();
    let dropped = why("read", &config);
    assert!(dropped.contains("drop {HOME}/.gitconfig"), "{dropped}");
    let tcp = why("connect", "example.org:443");
    assert!(tcp.contains("the project's file"), "{tcp}");
    let told = world
        .shell("cat ~/.gitconfig; python3 -c 'import socket; socket.socket()'")
        .run()
        .failed()
        .err();
    for text in [&dropped, &tcp, &told] {
        assert!(text.contains("No rule is proposed"), "{text}");
        assert!(
            !text.contains("filesystem: {") && !text.contains("network: {"),
            "{text}"
        );
    }
    let shown = world.ollie(["policy", "show"]).run().ok();
    assert!(shown.contains("\ndropped\n  "), "{shown}");
}

#[test]
fn it_never_switches_anything_off() {
    let world = asking();
    for text in [
        "general: { best_effort: true }",
        "filesystem: { rw: ['{HOME}'] }",
        "filesystem: { ro: [/] }",
        "filesystem: { rwx: ['{HOME}/.ssh'] }",
        "env: [LD_PRELOAD]",
        "yolo: true",
    ] {
        world.write(FILE, text);
        let _ = world
            .shell("echo ran")
            .run()
            .has_status(206)
            .says(&[".ollie-sandbox.yaml"]);
        let _ = trust(&world).has_status(206);
    }
}

/// Whatever lies there: an error with the place, in bounded time, and nothing
/// runs.
#[test]
fn a_file_that_is_none_is_an_error_and_nothing_runs() {
    let world = asking();
    let path = world.base().join(FILE);
    let refused = |what: &str| {
        let end = world.shell("echo ran").limit(Duration::from_secs(20)).run();
        assert_eq!((end.status, end.out().as_str()), (206, ""), "{what}: {end}");
        end
    };
    let many = format!("filesystem: {{ ro: [{}] }}", "/a,".repeat(10_000));
    for (what, text) in [
        ("10,000 rules", many.as_str()),
        ("an unknown key", "filesystem: { rxo: [] }"),
        ("a key twice", "env: [A]\nenv: [B]\n"),
        ("a wrong type", "limits: { processes: many }"),
        ("an alias bomb", "env: &a [A]\ndrop: { env: *a }\n"),
    ] {
        world.write(FILE, text);
        let _ = refused(what);
    }
    world.write(FILE, "env: [A]\n  b\n");
    let _ = refused("no YAML").says(&[".ollie-sandbox.yaml:"]);
    let lay = |make: &dyn Fn()| {
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        make();
        world.give(world.base());
    };
    lay(&|| {
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 30).unwrap();
    });
    let _ = refused("a gigabyte").says(&["longer than"]);
    lay(&|| {
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
    });
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let _ = refused("a FIFO");
    lay(&|| symlink("/etc/passwd", &path).unwrap());
    let _ = refused("a link");
    lay(&|| symlink(&path, &path).unwrap());
    let _ = refused("a link to itself");
    lay(&|| std::fs::create_dir(&path).unwrap());
    let _ = refused("a directory");
}

#[test]
fn check_why_and_schema_answer() {
    let world = asking();
    assert!(
        world
            .ollie(["policy", "check"])
            .run()
            .ok()
            .contains("right, 1 rules")
    );
    world.write("home/mine.yaml", "filesystem:\n  rox: [/opt]\n  rxw: []\n");
    let file = world.home().join("mine.yaml");
    let end = world.ollie(["policy", "check"]).arg(&file).run();
    let _ = end.has_status(206).says(&["mine.yaml:3:3", "rwx"]);
    let why = |operation: &str, path: &str| world.ollie(["policy", "why", operation, path]).run();
    assert!(why("write", "file").ok().contains("is allowed by rwx"));
    let home = world.home();
    let key = home.join(".ssh/id_ed25519");
    let refused = why("read", key.to_str().unwrap()).has_status(1);
    assert!(refused.out().contains("filesystem: { ro: ["), "{refused}");
    let _ = why("eat", "file").has_status(2).says(&["execute"]);
    let schema: serde_json::Value =
        serde_json::from_str(&world.ollie(["policy", "schema"]).run().ok()).unwrap();
    assert!(schema["properties"]["filesystem"].is_object());
}

#[test]
fn control_characters_of_a_project_are_shown_and_not_sent() {
    let world = asking();
    world.write(FILE, "filesystem: { rw: [\"{HOME}/da\\e[2Jta\"] }\n");
    let end = reads_data(&world).failed();
    assert!(!end.stderr.contains(&0x1b), "{end}");
}

/// On a terminal of its own, which script(1) makes; what is typed is its
/// standard input.
fn trust_on_a_terminal(world: &World, typed: &str) -> Finished {
    let command = format!("{}/bin/olliesrv policy trust", world.base().display());
    world
        .command("/usr/bin/script")
        .args(["-qefc", &command, "/dev/null"])
        .stdin(typed)
        .run()
}

#[test]
fn who_trusts_sees_what_it_comes_to_and_is_asked() {
    if !std::path::Path::new("/usr/bin/script").exists() {
        return ollie_tests::gap("the question of trust", "needs script(1)");
    }
    let world = asking();
    for typed in ["n\n", "\n", "yess\n"] {
        let end = trust_on_a_terminal(&world, typed).has_status(1);
        // As written, and as it holds here.
        assert!(end.out().contains("rw {HOME}/data"), "{end}");
        let here = format!("rw {}", world.home().join("data").display());
        assert!(end.out().contains(&here), "{end}");
        assert!(end.out().contains("[y/N]"), "{end}");
        let _ = reads_data(&world).failed();
    }
    let _ = trust_on_a_terminal(&world, "y\n").has_status(0);
    assert_eq!(reads_data(&world).ok(), "data\n");
    // There is nothing left to ask.
    let end = trust_on_a_terminal(&world, "").has_status(0);
    assert!(!end.out().contains("[y/N]"), "{end}");
}

#[test]
fn without_a_terminal_nothing_is_trusted_that_nobody_named() {
    let world = asking();
    let digest = digest(&world);
    let silent = world.ollie(["policy", "trust"]).stdin("y\n").run();
    let _ = silent.has_status(2).says(&["--yes", &digest]);
    let _ = reads_data(&world).failed();
    let _ = world.ollie(["policy", "trust", &digest]).run().ok();
    assert_eq!(reads_data(&world).ok(), "data\n");
}
