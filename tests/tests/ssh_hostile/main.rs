//! A host that does not keep to the protocol cannot keep olliesrv.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use ollie_tests::{Invocation, World, gap};
use rustix::process::Signal;

/// What is left of a limit on a busy machine.
const MOMENT: Duration = Duration::from_secs(20);

fn exec(world: &World, mode: &str, options: &[&str]) -> Option<Invocation> {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        gap("a hostile host", "needs python3");
        return None;
    }
    let host = world.base().join("host");
    std::fs::write(&host, include_str!("host.py")).expect("the host is written");
    std::fs::set_permissions(&host, std::fs::Permissions::from_mode(0o755)).expect("it runs");
    let words = [&["exec", "-n"], options, &["hostile", "--", "true"]].concat();
    let invocation = world.ollie(words).env("OLLIE_SSH", &host);
    Some(invocation.env("HOST_MODE", mode))
}

#[test]
fn a_call_that_goes_on_after_its_time_is_given_up() {
    let world = World::ordinary();
    let Some(exec) = exec(&world, "endless", &["--timeout", "1"]) else {
        return;
    };
    let begun = Instant::now();
    let _ = exec
        .run()
        .has_status(209)
        .says(&["still here", "the time of the call is up"]);
    assert!(begun.elapsed() > Duration::from_secs(10), "not before");
}

#[test]
fn impatience_does_not_prolong_the_wait() {
    let world = World::ordinary();
    let Some(exec) = exec(&world, "endless", &[]) else {
        return;
    };
    let running = exec.spawn();
    running.await_stderr("still here");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        running.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(500));
    }
    let _ = running.finish().has_status(130);
    assert!(begun.elapsed() < MOMENT, "{:?}", begun.elapsed());
}

#[test]
fn a_start_under_a_lease_that_is_not_answered_can_be_left() {
    let world = World::ordinary();
    let Some(exec) = exec(&world, "silent", &["--lease", "30s", "--verbose"]) else {
        return;
    };
    let running = exec.spawn();
    running.await_stderr("is there and right");
    // Into the wait for the start, which is some messages further.
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    running.signal(Signal::TERM);
    let _ = running.finish().has_status(143).says(&["reattach"]);
    assert!(begun.elapsed() < MOMENT, "{:?}", begun.elapsed());
    let leases = world.home().join(".local/state/ollie/leases");
    assert_eq!(leases.read_dir().expect("it is there").count(), 1);
}
