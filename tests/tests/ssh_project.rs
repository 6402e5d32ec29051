//! A project's own policy file on another host: it narrows at once, and widens
//! for who has trusted it as it is there.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not known as tests to clippy"
)]

use std::os::unix::fs::symlink;

use ollie_tests::{Devbox, Finished, World};

const FILE: &str = "project/.ollie-sandbox.yaml";
const ASKS: &str = "filesystem: { rw: ['{HOME}/data'] }\n";

/// Writes a file of the account's home there.
fn write(devbox: &Devbox<'_>, path: &str, text: &str) {
    let path = devbox.home().join(path);
    let directory = path.parent().unwrap();
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(&path, text).unwrap();
    let uid = Some(devbox.uid());
    for path in [directory, &path] {
        std::os::unix::fs::chown(path, uid, uid).unwrap();
    }
}

/// A project there that asks for a directory of the home.
fn asking(world: &World) -> Devbox<'_> {
    let devbox = world.devbox().start();
    write(&devbox, "data/file", "data\n");
    write(&devbox, FILE, ASKS);
    devbox
}

fn shell(devbox: &Devbox<'_>, target: &str, code: &str) -> Finished {
    devbox
        .ollie(["exec", "--cwd", "project", target, "--", "sh", "-c", code])
        .run()
}

fn reads_data(devbox: &Devbox<'_>) -> Finished {
    shell(devbox, &devbox.target(), "cat ~/data/file")
}

fn policy(devbox: &Devbox<'_>, command: &str) -> Finished {
    let target = devbox.target();
    let words = ["policy", command, "--cwd", "project", "--on", &target];
    let yes = (command == "trust").then_some("--yes");
    devbox.ollie(words).args(yes).run()
}

#[test]
fn what_it_asks_for_it_has_once_it_is_trusted_there_and_not_before() {
    let Some(world) = World::with_ssh("a project's file on another host") else {
        return;
    };
    let devbox = asking(&world);
    let command = format!("olliesrv policy trust --on {}", devbox.target());
    let _ = reads_data(&devbox).failed().says(&[
        "the project asks for more",
        "rw {HOME}/data",
        &command,
    ]);
    assert!(policy(&devbox, "diff").ok().contains("not trusted"));
    assert!(policy(&devbox, "check").ok().contains("right, 1 rules"));
    // Trust on this machine is none there.
    world.write("home/data/file", "data\n");
    world.write("home/project/.ollie-sandbox.yaml", ASKS);
    let _ = world.ollie(["policy", "trust", "--yes"]).run().ok();
    let _ = reads_data(&devbox).failed();

    assert!(policy(&devbox, "trust").ok().contains("rw {HOME}/data"));
    let code = "cat ~/data/file && echo x > ~/data/new";
    let end = shell(&devbox, &devbox.target(), code);
    assert!(!end.err().contains("asks for more"), "{end}");
    assert_eq!(end.ok(), "data\n");
    let _ = shell(&devbox, &devbox.target(), "ls ~/.ssh ~").failed();
    assert!(policy(&devbox, "diff").ok().contains("trusted, it has"));
    // Whatever the person calls the host.
    assert_eq!(shell(&devbox, "devbox", "cat ~/data/file").ok(), "data\n");
    // One byte more, and it is another file.
    write(&devbox, FILE, &format!("{ASKS}#"));
    let _ = reads_data(&devbox).failed().says(&["asks for more"]);
    write(&devbox, FILE, ASKS);
    assert_eq!(reads_data(&devbox).ok(), "data\n");
}

#[test]
fn one_moved_link_there_needs_trust_anew() {
    let Some(world) = World::with_ssh("a link on another host") else {
        return;
    };
    let devbox = asking(&world);
    write(&devbox, "other/file", "other\n");
    let link = devbox.home().join("data-link");
    symlink("data", &link).unwrap();
    write(&devbox, FILE, "filesystem: { ro: ['{HOME}/data-link'] }\n");
    let _ = policy(&devbox, "trust").ok();
    let read = || shell(&devbox, "devbox", "cat ~/data-link/file");
    assert_eq!(read().ok(), "data\n");
    std::fs::remove_file(&link).unwrap();
    symlink("other", &link).unwrap();
    let _ = read().failed().says(&["asks for more"]);
}

#[test]
fn what_it_takes_away_is_gone_and_what_a_tool_writes_into_it_has_no_effect() {
    let Some(world) = World::with_ssh("a narrowing file on another host") else {
        return;
    };
    let devbox = asking(&world);
    write(&devbox, ".gitconfig", "[user]\n");
    let narrow = "drop: { filesystem: ['{HOME}/.gitconfig'] }\nlimits: { file_size_mb: 1 }\n";
    write(&devbox, FILE, narrow);
    let code = format!(
        "ulimit -f; cat ~/.gitconfig; echo \"{}\" > .ollie-sandbox.yaml; cat ~/data/file",
        ASKS.trim()
    );
    let end = shell(&devbox, "devbox", &code).failed();
    assert_eq!(end.out(), "2048\n", "{end}");
    let _ = end.says(&["changed during this session"]);
    let _ = reads_data(&devbox).failed().says(&["asks for more"]);
    // Nothing has changed in this one.
    let quiet = shell(&devbox, "devbox", "true");
    assert!(!quiet.err().contains("changed"), "{quiet}");
}

#[test]
fn the_digest_grants_it_for_one_session_and_no_other_file() {
    let Some(world) = World::with_ssh("--trust-project on another host") else {
        return;
    };
    let devbox = asking(&world);
    let text = policy(&devbox, "diff").ok();
    let digest = text.lines().find_map(|line| line.strip_prefix("sha256 "));
    let digest = digest.unwrap();
    let with = |digest: &str| {
        let words = [
            "exec",
            "--cwd",
            "project",
            "--trust-project",
            digest,
            "devbox",
            "--",
            "sh",
            "-c",
            "cat ~/data/file",
        ];
        devbox.ollie(words).run()
    };
    assert_eq!(with(digest).ok(), "data\n");
    let _ = reads_data(&devbox).failed();
    write(&devbox, FILE, &format!("{ASKS}#"));
    let end = with(digest).has_status(2).says(&[digest]);
    assert_eq!(end.out(), "");
    std::fs::remove_file(devbox.home().join(FILE)).unwrap();
    let _ = with(digest).has_status(2).says(&["has no"]);
}

#[test]
fn why_is_answered_by_the_host_that_it_is_asked_of() {
    let Some(world) = World::with_ssh("policy why on another host") else {
        return;
    };
    let devbox = asking(&world);
    write(&devbox, ".ssh/id", "a key\n");
    symlink("data", devbox.home().join("data-link")).unwrap();
    let _ = policy(&devbox, "trust").ok();
    let why = |operation: &str, path: &str| {
        let words = ["policy", "why", "--cwd", "project", "--on", "devbox"];
        devbox.ollie(words).args([operation, path]).run()
    };
    let allowed = why("write", "/home/dev/data-link/new").ok();
    assert!(
        allowed.contains("/home/dev/data/new is allowed by rw"),
        "{allowed}"
    );
    let refused = why("read", "/home/dev/.ssh/id").has_status(1);
    assert!(refused.out().contains("filesystem: { ro: ["), "{refused}");
}

/// Whatever lies there: an error, and nothing runs.
#[test]
fn a_file_there_that_is_none_is_an_error_and_nothing_runs() {
    let Some(world) = World::with_ssh("no policy file on another host") else {
        return;
    };
    let devbox = asking(&world);
    let path = devbox.home().join(FILE);
    let refused = |says: &str| {
        let end = shell(&devbox, "devbox", "echo ran").has_status(206);
        assert_eq!(end.out(), "", "{end}");
        let _ = end.says(&[says]);
    };
    write(&devbox, FILE, "filesystem:\n  rxo: []\n");
    refused(".ollie-sandbox.yaml:2:3");
    write(&devbox, ".ssh/id", "a key\n");
    write(&devbox, FILE, "filesystem: { rw: ['{HOME}/.ssh'] }\n");
    refused("a place of private keys");
    let lay = |make: &dyn Fn()| {
        std::fs::remove_file(&path).unwrap();
        make();
    };
    lay(&|| {
        std::fs::File::create(&path)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
    });
    refused("longer than 65536 bytes");
    lay(&|| {
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
    });
    refused("not a regular file");
    lay(&|| symlink("/home/dev/data/file", &path).unwrap());
    refused("it is a link");
}

#[test]
fn a_session_without_such_a_file_asks_nothing_about_it() {
    let Some(world) = World::with_ssh("no project file on another host") else {
        return;
    };
    let devbox = asking(&world);
    let messages = || {
        let words = [
            "exec",
            "--trace-9p",
            "--cwd",
            "project",
            "devbox",
            "--",
            "true",
        ];
        let end = devbox.ollie(words).run().has_status(0);
        end.err().matches("-> Twalk").count()
    };
    let with = messages();
    std::fs::remove_file(devbox.home().join(FILE)).unwrap();
    assert_eq!(with, messages() + 1);
}
