//! A host behind a network of its own: nothing but the way to it, and packets
//! that are lost on it.

use std::time::{Duration, Instant};

use ollie_tests::{Wire, World, gap};

#[test]
fn a_host_without_any_route_works_and_lost_packets_are_noticed_within_fifteen_seconds() {
    let Some(world) = World::with_ssh("a network of its own") else {
        return;
    };
    let Some(wire) = Wire::new() else {
        return gap("lost packets", "needs ip(8) and veth devices");
    };
    let devbox = world
        .devbox()
        .behind(&wire)
        .config("ClientAliveInterval 5\nClientAliveCountMax 1")
        .start();
    assert_eq!(devbox.shell("echo works").run().ok(), "works\n");

    let running = devbox.shell("echo ready; exec sleep 4242").spawn();
    running.await_stdout("ready");
    wire.lose_everything(true);
    let began = Instant::now();
    let end = running
        .finish()
        .has_status(203)
        .says(&["silent for", "the outcome of the call is unknown"]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(16), "{took:?}\n{end}");
    wire.lose_everything(false);
    assert_eq!(devbox.shell("echo next").run().ok(), "next\n");
    devbox.nothing_left();
}
