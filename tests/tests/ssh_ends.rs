//! However a session on another host ends, nothing of it is left on either
//! side, and the next one works.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use ollie_tests::{Devbox, Process, Relay, Running, Tree, World, await_that};
use rustix::process::Signal;

/// Sleeps that leave their group, their session and their parent.
const SLEEPS: &str = "setsid sleep 4242 & (sleep 4242 &) ; echo ready; sleep 4242";

fn sleeping(devbox: &Devbox<'_>, options: &[&str]) -> Running {
    sleeping_at(devbox, &devbox.target(), options)
}

fn sleeping_at(devbox: &Devbox<'_>, target: &str, options: &[&str]) -> Running {
    let running = devbox
        .ollie(["exec"])
        .args(options)
        .args([target, "--", "sh", "-c", SLEEPS])
        .spawn();
    running.await_stdout("ready");
    let sleeps = || {
        let all = devbox.processes();
        all.iter()
            .filter(|process| process.has_args(&["sleep", "4242"]))
            .count()
    };
    assert!(await_that(Duration::from_secs(10), || sleeps() == 3));
    running
}

/// The ssh of an olliesrv.
fn ssh_of(running: &Running) -> u32 {
    let all = Process::all();
    all.iter()
        .find(|process| process.parent == running.pid() && process.mentions("ControlM"))
        .unwrap_or_else(|| panic!("no ssh: {all:?}"))
        .pid
}

/// The toolsrv processes there: the server, and those below it.
fn toolsrv_of(devbox: &Devbox<'_>) -> Vec<u32> {
    let mut all = devbox.processes();
    all.retain(|process| process.has_args(&[]) || process.mentions("toolsrv\0serve"));
    all.iter().map(|process| process.pid).collect()
}

#[test]
fn after_ctrl_c() {
    let Some(world) = World::with_ssh("Ctrl-C") else {
        return;
    };
    let devbox = world.devbox().start();
    let running = sleeping(&devbox, &[]);
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    devbox.nothing_left();
    world.nothing_left();
}

#[test]
fn after_a_timeout() {
    let Some(world) = World::with_ssh("--timeout") else {
        return;
    };
    let devbox = world.devbox().start();
    let running = sleeping(&devbox, &["--timeout", "1500ms"]);
    let _ = running.finish().has_status(204);
    devbox.nothing_left();
}

#[test]
fn after_kill_9_of_olliesrv() {
    let Some(world) = World::with_ssh("kill -9") else {
        return;
    };
    let devbox = world.devbox().start();
    let running = sleeping(&devbox, &[]);
    running.signal(Signal::KILL);
    let _ = running.finish().has_status(137);
    devbox.nothing_left();
    world.nothing_left();
}

#[test]
fn after_kill_9_of_ssh_the_outcome_is_unknown() {
    let Some(world) = World::with_ssh("kill -9 of ssh") else {
        return;
    };
    let devbox = world.devbox().start();
    let running = sleeping(&devbox, &[]);
    Tree::kill(ssh_of(&running));
    let _ = running.finish().has_status(203);
    devbox.nothing_left();
    assert_eq!(devbox.shell("echo next").run().ok(), "next\n");
}

#[test]
fn after_kill_9_of_each_toolsrv_process() {
    let Some(world) = World::with_ssh("kill -9 of toolsrv") else {
        return;
    };
    let devbox = world.devbox().start();
    for number in 0..3 {
        let running = sleeping(&devbox, &[]);
        let all = toolsrv_of(&devbox);
        let Some(&pid) = all.get(number) else {
            panic!("only {all:?}")
        };
        Tree::kill(pid);
        let _ = running.finish().failed();
        devbox.nothing_left();
    }
    assert_eq!(devbox.shell("echo next").run().ok(), "next\n");
}

/// kill -9 of ssh at a hundred moments from its start to the end of a call.
#[test]
fn after_kill_9_of_ssh_at_any_moment() {
    let Some(world) = World::with_ssh("kill -9 a hundred times") else {
        return;
    };
    let devbox = world.devbox().start();
    let began = Instant::now();
    assert_eq!(devbox.shell("echo first").run().ok(), "first\n");
    let whole = began.elapsed();
    for number in 0..100_u32 {
        let running = devbox.shell("sleep 0.1; echo done").spawn();
        let moment = whole * number / 100;
        let began = Instant::now();
        // The moment itself is what is tested, so there is no event to await.
        std::thread::sleep(moment.saturating_sub(began.elapsed()));
        let all = Process::all();
        let ssh = all
            .iter()
            .find(|process| process.parent == running.pid() && process.mentions("ControlM"));
        let killed = ssh.map(|ssh| Tree::kill(ssh.pid)).is_some();
        let end = running.finish();
        assert!(end.status == 0 || killed, "not killed, and yet\n{end}");
        assert!(
            [0, 201, 203, 209, 210, 212].contains(&end.status),
            "after {moment:?}\n{end}"
        );
    }
    devbox.nothing_left();
    world.nothing_left();
    assert_eq!(devbox.shell("echo next").run().ok(), "next\n");
}

/// The same while toolsrv is sent: what was there before stays, half of it
/// does not.
#[test]
fn an_upload_that_is_cut_leaves_nothing_and_the_next_one_succeeds() {
    let Some(world) = World::with_ssh("cut uploads") else {
        return;
    };
    let devbox = world.devbox().start();
    let relay = Relay::to(devbox.port());
    let target = devbox.through(&relay);
    let run = || {
        devbox
            .ollie(["exec", &target, "--", "sh", "-c", "echo done"])
            .run()
    };
    assert_eq!(run().ok(), "done\n");
    let right = std::fs::read(world.dist().toolsrv()).unwrap();
    let whole = relay.sent();
    assert!(whole > 100_000, "toolsrv was sent: {whole}");
    for number in 0..25 {
        devbox.uninstall();
        relay.cut_after(whole * number / 25);
        let end = run().failed();
        assert!(end.status > 200, "{end}");
        devbox.nothing_left();
        // It is there whole, or not at all.
        for file in devbox.installed() {
            assert!(std::fs::read(&file).unwrap() == right, "after {number}/25");
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o500);
        }
    }
    relay.cut_after(u64::MAX);
    assert_eq!(run().ok(), "done\n");
    assert_eq!(devbox.shell("echo next").run().ok(), "next\n");
}

#[test]
fn nothing_hangs_when_the_connection_goes_silent() {
    let Some(world) = World::with_ssh("silence") else {
        return;
    };
    let devbox = world
        .devbox()
        .config("ClientAliveInterval 5\nClientAliveCountMax 1")
        .start();
    let relay = Relay::to(devbox.port());
    let running = sleeping_at(&devbox, &devbox.through(&relay), &[]);
    relay.lose_everything(true);
    let began = Instant::now();
    let end = running
        .finish()
        .has_status(203)
        .says(&["silent for", "the outcome of the call is unknown"]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(16), "{took:?}\n{end}");
    // The host learns of it from its own sshd (ClientAliveInterval), or not at
    // all; the session does not wait for that.
    relay.lose_everything(false);
    assert_eq!(devbox.shell("echo next").run().ok(), "next\n");
    devbox.nothing_left();
}

/// Longer than any silence that is taken for an end: somebody asks, and is
/// answered.
#[test]
fn a_call_that_says_nothing_for_long_goes_on() {
    let Some(world) = World::with_ssh("quiet calls") else {
        return;
    };
    let devbox = world.devbox().start();
    assert_eq!(devbox.shell("sleep 17; echo done").run().ok(), "done\n");
}
