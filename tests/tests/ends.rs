//! However a session ends, nothing of it is left.
//!
//! The command leaves behind what a process group cannot hold: a new session,
//! and a double fork. Each test would be red if whoever is killed were the
//! only one that looks after the tree; [`the_check_sees_what_is_left`] kills
//! all who do, and then something is left.

use std::time::Duration;

use ollie_tests::{Process, Running, Tree, World, await_that};
use rustix::process::Signal;

/// Sleeps that leave their group, their session and their parent.
const SLEEPS: &str = "setsid sleep 4242 & (sleep 4242 &) ; nohup sleep 4242 >/dev/null 2>&1 & \
                      echo ready; sleep 4242";

/// The sleeps of the shell line above, all of which have to run before the end.
fn sleeping(world: &World, options: &[&str]) -> (Running, Tree) {
    let running = world
        .ollie(["exec"])
        .args(options)
        .args(["--", "sh", "-c", SLEEPS])
        .spawn();
    running.await_stdout("ready");
    let sleeps = || {
        let all = world.processes();
        all.iter()
            .filter(|process| process.has_args(&["sleep", "4242"]))
            .count()
    };
    assert!(
        await_that(Duration::from_secs(10), || sleeps() == 4),
        "four sleeps run"
    );
    let tree = running.await_tree();
    (running, tree)
}

#[test]
fn after_ctrl_c() {
    let world = World::ordinary();
    let (running, _) = sleeping(&world, &[]);
    running.ctrl_c();
    // 128 and SIGINT. When olliesrv has ended, so has all the rest.
    let _ = running.finish().has_status(130);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn after_ctrl_c_as_root() {
    let Some(user) = ollie_tests::User::root("Ctrl-C, as root") else {
        return;
    };
    let world = World::new(user);
    let (running, _) = sleeping(&world, &[]);
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn after_sigterm_and_after_the_terminal_has_gone() {
    for signal in [Signal::TERM, Signal::HUP] {
        let world = World::ordinary();
        let (running, _) = sleeping(&world, &[]);
        running.signal(signal);
        let _ = running.finish().has_status(143);
        assert_eq!(world.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn after_a_timeout() {
    let world = World::ordinary();
    let end = world
        .ollie(["exec", "--timeout", "1", "--", "sh", "-c", SLEEPS])
        .run()
        .has_status(204)
        .says(&["time is up"]);
    assert_eq!(end.out(), "ready\n");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn after_the_command_itself_has_ended() {
    let world = World::ordinary();
    // The sleep in the background holds standard output: waiting for its end
    // would be waiting for ever.
    let end = world
        .shell("sleep 4242 & setsid sleep 4242 & echo done")
        .run();
    assert_eq!(end.ok(), "done\n");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn after_kill_9_of_olliesrv() {
    let world = World::ordinary();
    let (running, _) = sleeping(&world, &[]);
    running.signal(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    world.nothing_left();
}

#[test]
fn after_kill_9_of_the_server() {
    let world = World::ordinary();
    let (running, tree) = sleeping(&world, &[]);
    Tree::kill(tree.server);
    // The outcome is unknown, and nothing else is said.
    let _ = running.finish().has_status(203);
    world.nothing_left();
}

#[test]
fn after_kill_9_of_the_companion() {
    let world = World::ordinary();
    let (running, tree) = sleeping(&world, &[]);
    Tree::kill(tree.companion);
    let _ = running.finish().failed();
    world.nothing_left();
}

#[test]
fn after_kill_9_of_a_supervisor() {
    let world = World::ordinary();
    let (running, tree) = sleeping(&world, &[]);
    Tree::kill(tree.supervisor);
    let _ = running.finish().has_status(203);
    world.nothing_left();
}

#[test]
fn after_kill_9_of_the_server_and_its_supervisor() {
    let world = World::ordinary();
    let (running, tree) = sleeping(&world, &[]);
    Tree::kill(tree.supervisor);
    Tree::kill(tree.server);
    let _ = running.finish().failed();
    world.nothing_left();
}

/// Nobody needs it, so nobody may miss it.
#[test]
fn kill_9_of_the_supervisor_that_waits_harms_no_call() {
    let world = World::ordinary();
    let running = world
        .shell("echo ready; while [ ! -e go ]; do sleep 0.02; done; echo last words")
        .spawn();
    running.await_stdout("ready");
    let spare = || running.await_tree().spare;
    assert!(await_that(Duration::from_secs(10), || spare().is_some()));
    let spare = spare().expect("one waits");
    Tree::kill(spare);
    assert!(await_that(Duration::from_secs(5), || Process::read(spare).is_none()));
    world.write("home/project/go", "");
    assert_eq!(running.finish().ok(), "ready\nlast words\n");
}

/// What switches the mechanism off: nobody of the three is left to end the
/// tree.
#[test]
fn the_check_sees_what_is_left() {
    let world = World::ordinary();
    let (running, tree) = sleeping(&world, &[]);
    // Stopped first, so that none of them acts on the death of another.
    for signal in ["-STOP", "-KILL"] {
        let pids = tree.all().into_iter().map(|pid| pid.to_string());
        let _ = world.command("kill").arg(signal).args(pids).run().ok();
    }
    let _ = running.finish().failed();
    let left = world.leftovers();
    let count = |text: &str| left.iter().filter(|line| line.contains(text)).count();
    // The first sleep of the command has a supervisor for its parent and dies
    // with it (PR_SET_PDEATHSIG, prctl(2)); its siblings do not.
    assert!(count("sleep 4242") >= 2, "{left:?}");
    assert_eq!(count("/ollie-run-"), 1, "{left:?}");
    assert_eq!(count("/ollie-tmp-"), 1, "{left:?}");
    for process in world.processes() {
        Tree::kill(process.pid);
    }
    for directory in ["run", "tmp"] {
        std::fs::remove_dir_all(world.base().join(directory)).unwrap();
    }
}
