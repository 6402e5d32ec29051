//! What takes too much is ended, and toolsrv answers all the while.

use std::time::{Duration, Instant};

use ollie_tests::{Finished, User, World};

fn limited(world: &World, limits: &str, code: &str) -> Finished {
    world.write(
        "home/.config/ollie/sandbox.yaml",
        format!("limits: {{ {limits} }}\n"),
    );
    world.shell(code).limit(Duration::from_secs(120)).run()
}

/// The status of "ended beyond a limit of the policy".
const LIMIT: i32 = 214;

#[test]
fn a_fork_bomb_is_ended_and_nothing_of_it_is_left() {
    for user in User::each("a fork bomb, as root") {
        let world = World::new(user);
        // It doubles nine times and no more, so that a machine whose limit does
        // not work survives the test: 1,023 processes at the most.
        let bomb = "bomb() { [ $1 -gt 9 ] || { bomb $(($1 + 1)) & bomb $(($1 + 1)) & }; sleep 20; }
bomb 1";
        let _ = limited(&world, "processes: 100", bomb)
            .has_status(LIMIT)
            .says(&["limits.processes is 100"]);
        world.nothing_left();
    }
}

#[test]
fn threads_count_as_processes() {
    let world = World::ordinary();
    let code = "exec python3 -c 'import threading, time
for i in range(100): threading.Thread(target=time.sleep, args=(60,)).start()'";
    let _ = limited(&world, "processes: 50", code)
        .has_status(LIMIT)
        .says(&["limits.processes is 50"]);
}

#[test]
fn who_stays_below_a_limit_is_left_alone() {
    let world = World::ordinary();
    let code = "for i in 1 2 3 4 5; do sleep 0.3 & done; wait; echo done";
    let end = limited(&world, "processes: 100, memory_mb: 256", code);
    assert_eq!(end.ok(), "done\n");
}

#[test]
fn what_takes_too_much_memory_is_ended() {
    for user in User::each("memory, as root") {
        let world = World::new(user);
        let code = "exec python3 -c 'import time
a = []
while len(a) < 300: a.append(b\"x\" * (1 << 20)); time.sleep(0.002)
time.sleep(60)'";
        let _ = limited(&world, "memory_mb: 150", code)
            .has_status(LIMIT)
            .says(&["limits.memory_mb is 150"]);
    }
}

/// Each of the ten has the same 60 MiB, which are there once.
#[test]
fn shared_memory_counts_once() {
    let world = World::ordinary();
    let code = "exec python3 -c 'import os, time
a = b\"x\" * (60 << 20)
for i in range(10):
    if os.fork() == 0: time.sleep(0.5); os._exit(0)
for i in range(10): os.wait()
print(\"done\")'";
    let end = limited(&world, "memory_mb: 250", code);
    assert_eq!(end.ok(), "done\n");
}

#[test]
fn a_file_stops_growing_at_its_limit() {
    let world = World::ordinary();
    let end = limited(
        &world,
        "file_size_mb: 2",
        "head -c 9000000 /dev/zero > big; stat -c %s big",
    );
    assert_eq!(end.out().trim(), (2 << 20).to_string(), "{end}");
}

#[test]
fn the_result_says_that_a_limit_is_only_watched() {
    let world = World::ordinary();
    world.write(
        "home/.config/ollie/sandbox.yaml",
        "limits: { processes: 100 }\n",
    );
    let end = world.ollie(["exec", "--json", "--", "true"]).run();
    let result = end.json_lines().pop().unwrap().to_string();
    assert!(
        result.contains("limits.processes (100) is watched"),
        "{result}"
    );
}

/// While one call is at its worst, another one of the same user is served.
#[test]
fn another_call_is_served_while_one_takes_all_it_gets() {
    let world = World::ordinary();
    let worst = world
        .shell("yes | tr -d '\\n' & while :; do :; done")
        .untapped()
        .spawn();
    let _ = worst.await_tree();
    let start = Instant::now();
    assert_eq!(world.shell("echo served").run().ok(), "served\n");
    assert!(start.elapsed() < Duration::from_secs(20));
    drop(worst);
}
