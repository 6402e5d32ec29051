//! The forwarded socket: used where it is asked for, and never a silent
//! fallback.

use std::os::unix::fs::PermissionsExt as _;

use ollie_tests::{Running, World, await_that};
use rustix::process::Signal;

fn waiting(devbox: &ollie_tests::Devbox<'_>) -> Running {
    let running = devbox
        .ollie(["exec", "--transport", "forward", &devbox.target()])
        .args(["--", "sh", "-c", "echo ready; sleep 4242"])
        .spawn();
    running.await_stdout("ready");
    running
}

#[test]
fn nine_p_goes_through_the_forwarded_socket() {
    let Some(world) = World::with_ssh("forward") else {
        return;
    };
    let devbox = world
        .devbox()
        .config("MaxSessions 1\nLogLevel DEBUG1")
        .start();
    // Another way to the same host opens no such stream.
    let _ = devbox.shell("true").run().ok();
    assert_eq!(devbox.logged("direct-streamlocal"), 0, "{}", devbox.log());
    let end = devbox
        .ollie(["exec", "--json", "--transport", "forward", &devbox.target()])
        .args(["--", "sh", "-c", "echo through"])
        .run()
        .has_status(0);
    assert_eq!(end.json_lines()[0]["transport"], "forward", "{end}");
    // What sshd saw: a stream to the socket beside the one session.
    assert_eq!(devbox.logged("Starting session: command"), 2);
    let opened = "ctype direct-streamlocal@openssh.com";
    assert_eq!(devbox.logged(opened), 1, "{}", devbox.log());
    let running = waiting(&devbox);
    let runtime = world.base().join("run");
    let entries: Vec<_> = std::fs::read_dir(&runtime).unwrap().flatten().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let own = entries[0].path();
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(own.join("9p").exists() && own.join("ctl").exists());
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    devbox.nothing_left();
    world.nothing_left();
}

#[test]
fn where_forwarding_is_forbidden_it_fails_and_says_so() {
    for line in [
        "AllowTcpForwarding no",
        "PermitOpen none",
        "DisableForwarding yes",
        "AllowStreamLocalForwarding no",
        "restrict",
    ] {
        let Some(world) = World::with_ssh("forbidden forwarding") else {
            return;
        };
        let devbox = match line {
            // Of authorized_keys(5).
            "restrict" => {
                let devbox = world.devbox().start();
                let keys = devbox.path("run/devbox/authorized_keys");
                let key = std::fs::read_to_string(&keys).unwrap();
                std::fs::write(keys, format!("restrict {key}")).unwrap();
                devbox
            }
            line => world.devbox().config(line).start(),
        };
        let _ = devbox
            .ollie([
                "exec",
                "--transport",
                "forward",
                &devbox.target(),
                "--",
                "true",
            ])
            .run()
            .has_status(210)
            .says(&["does not forward toolsrv's socket", "stdio"]);
        devbox.nothing_left();
        world.nothing_left();
        // And auto never needs it.
        let end = devbox
            .ollie(["exec", "--json", "--transport", "auto", &devbox.target()])
            .args(["--", "sh", "-c", "exit 0"])
            .run();
        assert_eq!(end.json_lines()[0]["transport"], "stdio", "{line}");
    }
}

#[test]
fn kill_9_of_olliesrv_leaves_at_most_an_empty_directory_and_the_next_start_removes_it() {
    let Some(world) = World::with_ssh("forward and kill -9") else {
        return;
    };
    let devbox = world.devbox().start();
    let running = waiting(&devbox);
    running.signal(Signal::KILL);
    let _ = running.finish().has_status(137);
    devbox.nothing_left();
    let runtime = world.base().join("run");
    let stale = || std::fs::read_dir(&runtime).unwrap().flatten().next();
    let empty = || stale().is_none_or(|own| !own.path().join("ctl").exists());
    assert!(await_that(std::time::Duration::from_secs(10), empty));
    let end = devbox
        .ollie(["exec", "--transport", "forward", &devbox.target()])
        .args(["--", "sh", "-c", "echo next"])
        .run();
    assert_eq!(end.ok(), "next\n");
    world.nothing_left();
}
