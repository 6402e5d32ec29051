//! ssh's questions reach the person who has a terminal, and nobody else.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::path::Path;
use std::process::Command;

use ollie_tests::{Devbox, World, gap};

/// Gives the client's key a passphrase.
fn lock(devbox: &Devbox<'_>) {
    let locked = Command::new("ssh-keygen")
        .args(["-q", "-p", "-P", "", "-N", "open sesame", "-f"])
        .arg(devbox.path("key"))
        .status()
        .unwrap();
    assert!(locked.success());
}

/// `olliesrv exec` on a terminal of its own, which script(1) makes; what is
/// typed is its standard input.
fn on_a_terminal(devbox: &Devbox<'_>, typed: &str) -> ollie_tests::Finished {
    let command = format!(
        "OLLIE_SSH={} {}/bin/olliesrv exec -n {} -- echo in",
        devbox.ssh().display(),
        devbox.world().base().display(),
        devbox.target()
    );
    devbox
        .world()
        .command("/usr/bin/script")
        .args(["-qefc", &command, "/dev/null"])
        .stdin(typed)
        .run()
}

fn ready(what: &str) -> Option<World> {
    if !Path::new("/usr/bin/script").exists() {
        gap(what, "needs script(1)");
        return None;
    }
    World::with_ssh(what)
}

#[test]
fn a_passphrase_is_asked_for_on_the_terminal_and_not_shown() {
    let Some(world) = ready("passphrases") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let end = on_a_terminal(&devbox, "open sesame\n").has_status(0);
    assert!(end.out().contains("Enter passphrase for key"), "{end}");
    assert!(end.out().ends_with("in\r\n"), "{end}");
    let after = end
        .out()
        .split("Enter passphrase")
        .nth(1)
        .unwrap()
        .to_owned();
    assert!(!after.contains("sesame"), "{end}");
}

#[test]
fn a_wrong_passphrase_is_refused() {
    let Some(world) = ready("wrong passphrases") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let end = on_a_terminal(&devbox, "wrong\nwrong\nwrong\n").has_status(211);
    assert!(end.out().contains("refused the authentication"), "{end}");
}

#[test]
fn a_host_key_is_confirmed_by_the_person() {
    let Some(world) = ready("host keys") else {
        return;
    };
    let devbox = world.devbox().start();
    std::fs::write(devbox.path("known_hosts"), "").unwrap();
    let end = on_a_terminal(&devbox, "no\n").has_status(211);
    assert!(end.out().contains("authenticity of host"), "{end}");
    assert_eq!(
        std::fs::read_to_string(devbox.path("known_hosts")).unwrap(),
        ""
    );
    let _ = on_a_terminal(&devbox, "yes\n").has_status(0);
    let known = std::fs::read_to_string(devbox.path("known_hosts")).unwrap();
    assert!(known.contains("ssh-ed25519"), "{known}");
}

#[test]
fn without_a_terminal_nobody_is_asked_and_nothing_hangs() {
    let Some(world) = ready("no terminal") else {
        return;
    };
    let devbox = world.devbox().start();
    lock(&devbox);
    let end = devbox
        .world()
        .command("/usr/bin/setsid")
        .args([
            "--wait".as_ref(),
            world.base().join("bin/olliesrv").as_os_str(),
        ])
        .args(["exec", &devbox.target(), "--", "true"])
        .env("OLLIE_SSH", devbox.ssh())
        .run();
    let _ = end.has_status(211).says(&["refused the authentication"]);
}
