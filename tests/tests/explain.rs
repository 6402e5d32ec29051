//! What is said of a refusal: by programs whose messages have different shapes,
//! by `policy why`, and by nobody where the policy refuses nothing.

use std::path::Path;
use std::time::Duration;

use ollie_tests::{Finished, World, gap};

/// What it is, the program it needs, and code that reads the file `$F`.
const READERS: &[(&str, &str, &str)] = &[
    ("coreutils", "/usr/bin/cat", "cat $F"),
    (
        "Python's traceback",
        "/usr/bin/python3",
        "/usr/bin/python3 -c 'import os; open(os.environ[\"F\"])'",
    ),
    (
        "git",
        "/usr/bin/git",
        "git init -q . && git commit -q --allow-empty -F $F",
    ),
    (
        "node's stack",
        "/usr/bin/node",
        "node -e 'require(\"fs\").readFileSync(process.env.F)'",
    ),
    (
        "go",
        "/usr/bin/go",
        "export GOTOOLCHAIN=local && printf 'package main\nimport (\"log\"; \"os\")\nfunc main() { _, e := os.ReadFile(os.Getenv(\"F\")); if e != nil { log.Fatal(e) } }\n' > m.go \
         && go run m.go",
    ),
    (
        "Java's exception",
        "/usr/bin/java",
        "echo 'class R { public static void main(String[] a) throws Exception { new java.io.FileReader(System.getenv(\"F\")).close(); } }' > R.java \
         && java -XX:TieredStopAtLevel=1 R.java",
    ),
    (
        "perl",
        "/usr/bin/perl",
        "perl -e 'open(my $f, \"<\", $ENV{F}) or die \"cannot open $ENV{F}: $!\"'",
    ),
];

fn run(world: &World, options: &[&str], code: &str) -> Finished {
    let words = ["--", "sh", "-c", code];
    let run = world.ollie(["exec"]).args(options).args(words);
    run.limit(Duration::from_secs(150)).run()
}

#[test]
fn programs_of_different_shapes_are_explained_and_mode_bits_are_not_blamed() {
    let world = World::ordinary();
    let secret = world.write("home/data/secret", "secret\n");
    let secret = secret.to_str().unwrap();
    // One that the policy allows to read, and its bits do not.
    let closed = world.write("home/project/closed", "closed\n");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let closed = closed.to_str().unwrap();
    let mut problems = Vec::new();
    for (what, program, code) in READERS {
        if !Path::new(program).exists() {
            gap(what, &format!("needs {program}"));
            continue;
        }
        let of = |file: &str| run(&world, &[], &format!("export F={file}; {code}"));
        let end = of(secret);
        let said = end.err();
        let read = format!("does not allow to read {secret}");
        let line = r#"filesystem: { ro: ["{HOME}/data/secret"] }"#;
        if end.status == 0 || !said.contains(&read) || !said.contains(line) {
            problems.push(format!("{what}: {end}"));
        }
        let end = of(closed);
        if end.status == 0 || end.err().contains("does not allow") {
            problems.push(format!("{what}, mode bits: {end}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn cargo_is_explained() {
    let world = World::ordinary();
    let mut path = world.toolchain().into_os_string();
    path.push(":");
    path.push(world.path());
    world.write(
        "home/data/dep/Cargo.toml",
        "[package]\nname = \"dep\"\nversion = \"1.0.0\"\n",
    );
    world.write("home/data/dep/src/lib.rs", "");
    let manifest = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\n\
                    dep = { path = \"../data/dep\" }\n";
    world.write("home/project/Cargo.toml", manifest);
    world.write("home/project/src/lib.rs", "");
    let end = world.shell("cargo build -q --offline").env("PATH", &path);
    let end = end.limit(Duration::from_secs(150)).run().failed();
    let dep = world.home().join("data/dep/Cargo.toml");
    let _ = end.says(&[&format!("does not allow to read {}", dep.display())]);
}

/// A tool can say what it likes. What it may do is no reason for advice.
#[test]
fn a_message_about_what_is_allowed_is_no_reason_for_advice() {
    let world = World::ordinary();
    world.write("home/project/file", "mine\n");
    for message in [
        "cat: $PWD/file: Permission denied",
        "PermissionError: [Errno 13] Permission denied: '$PWD/file'",
        "cat: /usr/bin/env: Permission denied",
        "tool: /etc/hosts: Permission denied",
        "connect to 127.0.0.1 port 80: Permission denied",
    ] {
        let end = run(&world, &[], &format!("echo \"{message}\" >&2; exit 1"));
        assert_eq!(end.status, 1, "{end}");
        assert!(!end.err().contains("to allow it"), "{message}: {end}");
        assert!(!end.err().contains("filesystem:"), "{message}: {end}");
    }
}

#[test]
fn a_file_tool_is_explained_by_the_file_that_it_was_asked_for() {
    let world = World::ordinary();
    world.make_directory("home/data");
    let target = world.home().join("data/new");
    let arguments = serde_json::json!({"path": target, "content": "x\n"}).to_string();
    let end = world
        .ollie(["call", "file_write", &arguments])
        .run()
        .failed();
    let end = end.says(&[
        &format!("does not allow to write {}", target.display()),
        r#"filesystem: { rw: ["{HOME}/data"] }"#,
        "opens writing of all below",
    ]);
    assert!(!end.err().contains(".ollie-"), "{end}");
    assert!(!end.err().contains("--yolo"), "{end}");
}

#[test]
fn a_refused_connection_is_explained_with_the_line_for_the_network() {
    let world = World::ordinary();
    let python = "import socket; socket.create_connection(('127.0.0.1', 80))";
    let python = format!("/usr/bin/python3 -c \"{python}\"");
    let dial = "exec 3<>/dev/tcp/127.0.0.1/80";
    let bash = format!("bash -c '{dial}'");
    let _ = run(&world, &["--profile", "strict"], &python)
        .failed()
        .says(&[
            "does not allow to connect to the network",
            "network none (profile strict, line",
            "network: { unrestricted: true }",
        ]);
    let _ = run(
        &world,
        &["--profile", "strict"],
        "getent hosts example.org; echo 'Temporary failure in name resolution' >&2; exit 2",
    )
    .failed()
    .says(&["a server of names", "UDP"]);
    world.write(
        "home/.config/ollie/sandbox.yaml",
        "network: { connect_tcp: [1], bind_tcp: [2] }\n",
    );
    let line = "network: { connect_tcp: [1, 80], bind_tcp: [2] }";
    let _ = run(&world, &[], &bash).failed().says(&[
        "does not allow to connect to 127.0.0.1:80",
        line,
        "opens TCP port 80 of every host",
    ]);
    // That line does open it: now it is the server that is missing.
    world.write("home/.config/ollie/sandbox.yaml", format!("{line}\n"));
    let end = run(&world, &[], &bash).failed();
    assert!(!end.err().contains("does not allow"), "{end}");
    let udp = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)";
    let _ = run(&world, &[], &format!("/usr/bin/python3 -c \"{udp}\""))
        .failed()
        .says(&["does not allow to connect to the network"]);
}

#[test]
fn why_answers_for_files_sockets_and_addresses() {
    let world = World::ordinary();
    world.write("home/.netrc", "machine example.org password x\n");
    world.write("home/.config/gcloud/credentials.db", "");
    let home = world.home();
    let at = |path: &str| home.join(path).to_str().unwrap().to_owned();
    let why = |operation: &str, what: &str| world.ollie(["policy", "why", operation, what]).run();
    let refused = |operation: &str, what: &str, texts: &[&str]| {
        let end = why(operation, what).has_status(1);
        for text in texts {
            assert!(end.out().contains(text), "{text}: {end}");
        }
    };
    let netrc = [
        "no rule grants it",
        "a file of passwords, which no profile grants",
        ".netrc",
    ];
    refused("read", &at(".netrc"), &netrc);
    refused(
        "read",
        &at(".ssh/id_ed25519"),
        &["a place of private keys, which no profile grants"],
    );
    refused(
        "read",
        "/home/nobody-is-there/.netrc",
        &["No rule is proposed, for there is no /home/nobody-is-there/.netrc"],
    );
    refused("read", "/home", &["No rule is proposed", "home"]);
    refused("read", "/etc/shadow", &["a file of passwords"]);
    // The least that would do it, and what it opens.
    refused(
        "read",
        &at(".bashrc"),
        &["{HOME}/.bashrc", "of this file alone"],
    );
    refused(
        "write",
        "/etc/new",
        &["No rule is proposed", "/etc/ssh", "make the file first"],
    );
    refused(
        "create",
        &at(".config/new"),
        &["No rule is proposed", "gcloud"],
    );
    refused(
        "create",
        &at(".cache/new"),
        &["No rule is proposed", "of ollie's own"],
    );
    refused(
        "connect",
        "/run/docker.sock",
        &["unix_sockets: [", "docker.sock"],
    );
    refused(
        "bind",
        &at("new.sock"),
        &["No rule is proposed", "the home directory"],
    );
    let _ = why("bind", "own.sock").ok();
    let open = why("connect", "example.org:443").ok();
    assert!(
        open.contains("allowed by network unrestricted (profile default, line"),
        "{open}"
    );
    world.write(
        "home/.config/ollie/sandbox.yaml",
        "network: { connect_tcp: [443], bind_tcp: [8080] }\n",
    );
    for (operation, address) in [
        ("connect", "example.org:443"),
        ("connect", "[::1]:443"),
        ("bind", ":8080"),
    ] {
        let _ = why(operation, address).ok();
    }
    let line = "network: { connect_tcp: [80, 443], bind_tcp: [8080] }";
    refused("connect", ":80", &[line, "(user ", "sandbox.yaml, line 1)"]);
    let line = "network: { connect_tcp: [443], bind_tcp: [443, 8080] }";
    refused("bind", "127.0.0.1:443", &[line]);
    // A file may be called so.
    refused("connect", "/run/host:443", &["unix_sockets"]);
}
