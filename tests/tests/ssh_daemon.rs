//! A command on a host that a running daemon has a session on goes over the
//! daemon's ssh connection.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::path::PathBuf;
use std::time::Duration;

use ollie_tests::{Devbox, Finished, Process, Served, Tree, World, await_that};
use rustix::process::Signal;
use serde_json::Value;

/// The idle time of a connection, and what a busy machine adds.
const IDLE: Duration = Duration::from_secs(12);

fn serve<'w>(world: &'w World, devbox: &Devbox<'_>) -> Served<'w> {
    world.serve_by(world.ollie(["serve"]).env("OLLIE_SSH", devbox.ssh()))
}

/// Makes a session there, and waits for its toolsrv; its file `remote`.
fn session(served: &Served<'_>, name: &str, target: &str) -> Value {
    served.session(&format!("name={name} backend=ollama remote={target}"));
    let remote = || -> Value {
        serde_json::from_str(&served.read(&format!("session/{name}/remote"))).unwrap()
    };
    let connected = || remote()["status"] == "connected";
    assert!(
        await_that(Duration::from_secs(120), connected),
        "{}",
        remote()
    );
    remote()
}

fn exec(devbox: &Devbox<'_>, code: &str) -> Finished {
    devbox
        .ollie(["exec", "--json", &devbox.target(), "--", "sh", "-c", code])
        .run()
        .has_status(0)
}

/// What `exec --json` says of its connection.
fn connection(end: &Finished) -> String {
    end.json_lines()[0]["connection"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn logins(devbox: &Devbox<'_>) -> usize {
    devbox.logged("Accepted publickey")
}

fn directory(world: &World) -> PathBuf {
    world.base().join("run/ollie/ssh")
}

fn sockets(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory(world));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The process ids of the connections.
fn masters(world: &World) -> Vec<u32> {
    let words = [
        &format!("{}/", directory(world).display()),
        "ControlPersist",
    ];
    let all = Process::all().into_iter();
    all.filter(|process| words.iter().all(|word| process.mentions(word)))
        .map(|process| process.pid)
        .collect()
}

/// What a killed daemon leaves goes with the next one.
fn nothing_left(world: &World, devbox: &Devbox<'_>) {
    devbox.nothing_left();
    assert!(await_that(IDLE, || masters(world).is_empty()));
    assert!(sockets(world).is_empty());
    let _ = std::fs::remove_dir_all(world.base().join("run/ollie"));
    world.nothing_left();
}

#[test]
fn a_command_has_the_daemons_connection_and_everything_else_of_its_own() {
    let Some(world) = World::with_ssh("exec and a daemon") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook("mkdir /home/dev/project; chown dev /home/dev/project")
        .start();
    let alone = exec(&devbox, "true");
    assert_eq!(connection(&alone), "own");
    assert_eq!(logins(&devbox), 1);

    let served = serve(&world, &devbox);
    let target = devbox.target();
    let first = session(&served, "one", &target);
    assert_eq!(first["toolsrv"]["connection"], "first", "{first}");
    let second = session(&served, "two", &target);
    assert_eq!(second["toolsrv"]["connection"], "shared", "{second}");
    assert_eq!(logins(&devbox), 2);

    let end = devbox
        .ollie([
            "exec",
            "--verbose",
            "--cwd",
            "project",
            "--profile",
            "strict",
        ])
        .args(["--env", "OWN=yes", &target, "--", "sh", "-c"])
        .arg("pwd; echo $OWN; cat; exit 7")
        .stdin("in")
        .run()
        .has_status(7);
    assert_eq!(end.out(), "/home/dev/project\nyes\nin");
    assert!(
        end.err().contains("over the connection of the daemon"),
        "{end}"
    );
    assert_eq!(connection(&exec(&devbox, "true")), "daemon");
    let called = devbox
        .ollie(["call", "--on", &target, "shell", "code=echo called"])
        .run();
    assert_eq!(called.ok(), "called\n");
    assert_eq!(logins(&devbox), 2, "{}", devbox.log());

    // Another way to the same host is another connection: who knows what key
    // it has.
    let other = devbox
        .ollie(["exec", "--json", "devbox", "--", "true"])
        .run();
    assert_eq!(connection(&other.has_status(0)), "own");
    assert_eq!(served.end().status, 0);
    assert!(!world.base().join("run/ollie").exists());
    nothing_left(&world, &devbox);
}

#[test]
fn a_command_goes_on_when_the_daemon_ends_or_is_killed() {
    let Some(world) = World::with_ssh("exec and the end of a daemon") else {
        return;
    };
    let devbox = world.devbox().start();
    for kill in [false, true] {
        let served = serve(&world, &devbox);
        session(&served, "one", &devbox.target());
        let before = logins(&devbox);
        let running = devbox
            .shell("echo ready; while [ ! -e go-on ]; do sleep 0.05; done; echo on; exit 5")
            .spawn();
        running.await_stdout("ready");
        match kill {
            false => assert_eq!(served.end().status, 0),
            true => served.kill(),
        }
        std::fs::write(devbox.home().join("go-on"), "").unwrap();
        let end = running.finish().has_status(5);
        assert_eq!(end.out(), "ready\non\n");
        assert_eq!(logins(&devbox), before);
        std::fs::remove_file(devbox.home().join("go-on")).unwrap();
        nothing_left(&world, &devbox);
        let _ = std::fs::remove_dir_all(world.home().join(".local/state/ollie"));
    }
}

/// A chat without a daemon keeps connections as one would.
#[test]
fn a_chat_leaves_no_connection_behind() {
    let Some(world) = World::with_ssh("a chat on another host") else {
        return;
    };
    let devbox = world.devbox().start();
    let target = devbox.target();
    let mut chat = devbox
        .ollie(["chat", "--backend", "ollama", "--remote", &target])
        .piped();
    let is_there = || devbox.logged("Starting session") == 1 && !devbox.installed().is_empty();
    assert!(await_that(Duration::from_secs(120), is_there));
    let shared = || connection(&exec(&devbox, "true")) == "daemon";
    assert!(await_that(Duration::from_secs(10), shared));
    drop(chat.stdin.take());
    assert!(chat.wait().success());
    assert!(!world.base().join("run/ollie").exists());
    nothing_left(&world, &devbox);
}

#[test]
fn a_lost_connection_ends_a_command_and_the_session_has_a_new_one() {
    let Some(world) = World::with_ssh("exec and a killed connection") else {
        return;
    };
    let devbox = world.devbox().start();
    let served = serve(&world, &devbox);
    session(&served, "one", &devbox.target());
    let running = devbox.shell("echo ready; sleep 4242").spawn();
    running.await_stdout("ready");
    let found = masters(&world);
    assert_eq!(found.len(), 1);
    Tree::kill(found[0]);
    let _ = running.finish().has_status(203);
    // The socket that the killed one left leads a command nowhere.
    assert_eq!(sockets(&world).len(), 1);
    assert_eq!(connection(&exec(&devbox, "true")), "own");
    let logged = logins(&devbox);
    served.write("session/one/ctl", "reconnect");
    let connected = || served.read("session/one/remote").contains("\"first\"");
    assert!(await_that(Duration::from_secs(30), connected));
    assert_eq!(connection(&exec(&devbox, "true")), "daemon");
    assert_eq!(logins(&devbox), logged + 1);
    assert_eq!(sockets(&world).len(), 1);
    assert_eq!(served.end().status, 0);
    nothing_left(&world, &devbox);
}

#[test]
fn a_command_with_a_lease_outlives_the_daemons_connection() {
    let Some(world) = World::with_ssh("leases and a daemon") else {
        return;
    };
    let devbox = world.devbox().start();
    let served = serve(&world, &devbox);
    session(&served, "one", &devbox.target());
    let before = logins(&devbox);
    let running = devbox
        .ollie(["exec", "--lease", "1m", &devbox.target(), "--", "sh", "-c"])
        .arg("echo one; while [ ! -e go-on ]; do sleep 0.05; done; echo two; exit 5")
        .spawn();
    running.await_stdout("one");
    assert_eq!(logins(&devbox), before);
    for master in masters(&world) {
        Tree::kill(master);
    }
    assert!(await_that(Duration::from_secs(30), || logins(&devbox) > before));
    std::fs::write(devbox.home().join("go-on"), "").unwrap();
    let end = running.finish().has_status(5);
    assert_eq!(end.out(), "one\ntwo\n");
    assert_eq!(served.end().status, 0);
    nothing_left(&world, &devbox);
}

/// Whoever can write to the directory could read what is sent.
#[test]
fn a_connection_in_a_place_of_others_is_not_used() {
    let Some(world) = World::with_ssh("foreign connections") else {
        return;
    };
    let devbox = world.devbox().start();
    let served = serve(&world, &devbox);
    session(&served, "one", &devbox.target());
    let at = directory(&world);
    let above = world.base().join("run/ollie");
    let socket = sockets(&world).remove(0);
    let mode = |path: &PathBuf, mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    let owner = |path: &PathBuf, uid| std::os::unix::fs::chown(path, Some(uid), None).unwrap();
    for path in [&at, &above] {
        mode(path, 0o755);
        assert_eq!(connection(&exec(&devbox, "true")), "own", "{path:?}");
        mode(path, 0o700);
    }
    for path in [&at, &above, &socket] {
        owner(path, devbox.uid());
        assert_eq!(connection(&exec(&devbox, "true")), "own", "{path:?}");
        owner(path, 0);
    }
    // A link to it is not it.
    let moved = world.base().join("run/moved");
    std::fs::rename(&at, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &at).unwrap();
    assert_eq!(connection(&exec(&devbox, "true")), "own");
    std::fs::remove_file(&at).unwrap();
    std::fs::rename(&moved, &at).unwrap();
    assert_eq!(connection(&exec(&devbox, "true")), "daemon");
    assert_eq!(served.end().status, 0);
    nothing_left(&world, &devbox);
}

#[test]
fn an_unresponsive_connection_is_passed_over() {
    let Some(world) = World::with_ssh("a stopped connection") else {
        return;
    };
    let devbox = world.devbox().start();
    let served = serve(&world, &devbox);
    session(&served, "one", &devbox.target());
    let master = rustix::process::Pid::from_raw(masters(&world)[0].cast_signed()).unwrap();
    rustix::process::kill_process(master, Signal::STOP).unwrap();
    assert_eq!(connection(&exec(&devbox, "true")), "own");
    rustix::process::kill_process(master, Signal::CONT).unwrap();
    assert_eq!(served.end().status, 0);
    nothing_left(&world, &devbox);
}

/// The shared connection leads out of any sandbox, and so do the daemon's
/// sessions: a tool reaches neither socket.
#[test]
fn a_tool_reaches_neither_the_connection_nor_the_daemon() {
    let Some(world) = World::with_ssh("tools and connections") else {
        return;
    };
    let devbox = world.devbox().start();
    let served = serve(&world, &devbox);
    session(&served, "one", &devbox.target());
    let socket = sockets(&world).remove(0);
    let over = format!(
        "ssh -F /dev/null -S {} -o ControlMaster=no -o ProxyCommand=false x id -un",
        socket.display()
    );
    let connect = format!(
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{}\"); print(\"in\")'",
        world.doorway().display()
    );
    let tool = |how: &[&str], code: &str| {
        world
            .ollie(["exec"])
            .args(how)
            .args(["--", "sh", "-c", code])
            .run()
    };
    let there = devbox.logged("Starting session");
    let end = tool(&[], &over);
    assert!(end.status != 0 && !end.out().contains("dev"), "{end}");
    assert_eq!(devbox.logged("Starting session"), there);
    assert_eq!(
        tool(&["--yolo"], &over).ok(),
        "dev\n",
        "it would not be noticed"
    );
    let end = tool(&[], &connect);
    assert!(end.status != 0 && !end.out().contains("in"), "{end}");
    assert_eq!(
        tool(&["--yolo"], &connect).ok(),
        "in\n",
        "it would not be noticed"
    );
    assert_eq!(served.end().status, 0);
    nothing_left(&world, &devbox);
}
