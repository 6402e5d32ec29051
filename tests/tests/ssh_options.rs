//! The options that ssh is given, whatever a person's ssh_config says: what each
//! prevents happens where it alone is left out, and not otherwise.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ollie_tests::{Devbox, Finished, World, await_that};

/// What an option is for.
struct Row {
    /// Its name, or `-T`.
    option: &'static str,
    /// Lines of ssh_config(5) that it goes before. `BASE` is the world's
    /// directory.
    config: &'static str,
    /// Whether what it prevents was seen.
    seen: fn(&Devbox<'_>, &Finished) -> bool,
}

const ROWS: [Row; 12] = [
    Row {
        option: "-T",
        config: "RequestTTY force\n EscapeChar ~",
        seen: |devbox, _| devbox.logged("request pty-req") > 0,
    },
    Row {
        option: "RemoteCommand",
        config: "RemoteCommand echo wrong",
        seen: |_, end| !worked(end),
    },
    Row {
        option: "StdinNull",
        config: "StdinNull yes",
        seen: |_, end| !worked(end),
    },
    Row {
        option: "SessionType",
        config: "SessionType none",
        seen: |_, end| !worked(end),
    },
    Row {
        option: "ForkAfterAuthentication",
        config: "ForkAfterAuthentication yes",
        // Then nobody could end it.
        seen: |devbox, _| base(devbox).join("early").exists(),
    },
    Row {
        option: "PermitLocalCommand",
        config: "PermitLocalCommand yes\n LocalCommand touch BASE/local",
        seen: |devbox, _| base(devbox).join("local").exists(),
    },
    Row {
        option: "ClearAllForwardings",
        config: "RemoteForward 0 127.0.0.1:1\n Tunnel yes\n ExitOnForwardFailure yes",
        seen: |devbox, _| devbox.logged("rtype tcpip-forward") + devbox.logged("tun@") > 0,
    },
    Row {
        option: "ForwardX11",
        config: "ForwardX11 yes\n ForwardX11Trusted yes",
        seen: |devbox, _| devbox.logged("request x11-req") > 0,
    },
    Row {
        option: "ForwardAgent",
        config: "ForwardAgent yes\n IdentityAgent BASE/agent",
        seen: |devbox, _| devbox.logged("request auth-agent-req") > 0,
    },
    Row {
        option: "ControlMaster",
        config: "ControlMaster auto\n ControlPath BASE/ctl\n ControlPersist 600",
        seen: |devbox, _| base(devbox).join("ctl").exists(),
    },
    Row {
        option: "LogLevel",
        config: "LogLevel QUIET\n PubkeyAuthentication no",
        // It is not said why.
        seen: |_, end| end.status != 211,
    },
    Row {
        option: "BatchMode",
        config: "PubkeyAuthentication no",
        // Empty passwords, which lock an account somewhere.
        seen: |devbox, _| devbox.logged("Failed password") > 0,
    },
];

fn worked(end: &Finished) -> bool {
    end.status == 7 && end.out() == "in\n~.\nout\n"
}

fn base<'a>(devbox: &'a Devbox<'_>) -> &'a Path {
    devbox.world().base()
}

/// Those that only time shows: an idle connection that is lost, and a host that
/// never greets (`ssh_keeper`, `ssh_login`).
const BY_TIME: [&str; 3] = [
    "ServerAliveInterval",
    "ServerAliveCountMax",
    "ConnectTimeout",
];

/// Leaves its first argument's option out; tells what it was given, and whether
/// ssh has ended before the command.
const WITHOUT: &str = r#"#!/bin/sh
printf '%s\n' "$@" >>BASE/given
left=$#
while [ $left -gt 0 ]; do
    word=$1 left=$((left - 1))
    shift
    case $word in
        OPTION) continue ;;
        -o) case $1 in OPTION=*) shift; left=$((left - 1)); continue ;; esac ;;
    esac
    set -- "$@" "$word"
done
SSH "$@"
status=$?
[ -e BASE/devbox/home/dev/project/ended ] || : >BASE/early
exit $status
"#;

/// One exec by an ssh that is not given `option`.
fn run(devbox: &Devbox<'_>, row: &Row, option: &str) -> Finished {
    let world = devbox.world();
    let wrapper = WITHOUT
        .replace("BASE", &world.base().display().to_string())
        .replace("OPTION", option)
        .replace("SSH", &devbox.ssh().display().to_string());
    let wrapper = world.write_program("without", &wrapper);
    // Without a terminal: nobody is asked.
    let mut exec = world
        .command("/usr/bin/setsid")
        .arg("--wait")
        .arg(world.base().join("bin/olliesrv"))
        .args([
            "exec",
            "--answer-timeout",
            "10s",
            "--cwd",
            "project",
            "devbox",
            "--",
        ])
        .args(["sh", "-c", "cat; echo out; sleep 0.3; touch ended; exit 7"])
        .env("OLLIE_SSH", wrapper)
        .stdin("in\n~.\n");
    if row.option == "ForwardX11" {
        exec = exec.env("DISPLAY", ":99");
    }
    exec.run()
}

fn shown(row: &Row) {
    let world = World::with_ssh(row.option).unwrap();
    let mut devbox = world
        .devbox()
        .hook("mkdir /home/dev/project; chown dev /home/dev/project")
        .config("LogLevel DEBUG1\nPasswordAuthentication yes")
        .start();
    let base = world.base().display().to_string();
    devbox.ssh_config(&format!("Host *\n {}\n", row.config.replace("BASE", &base)));
    let agent = row.config.contains("IdentityAgent").then(|| {
        let agent = world.base().join("agent");
        let running = world
            .command("/usr/bin/ssh-agent")
            .args(["-D".as_ref(), "-a".as_ref(), agent.as_os_str()])
            .spawn();
        assert!(await_that(Duration::from_secs(20), || agent.exists()));
        running
    });

    let end = run(&devbox, row, "nothing");
    assert!(!(row.seen)(&devbox, &end), "{} is given\n{end}", row.option);
    match row.config.contains("PubkeyAuthentication no") {
        true => assert_eq!(end.status, 211, "{}: {end}", row.option),
        false => assert!(worked(&end), "{}: {end}\n{}", row.option, devbox.log()),
    }
    // Whatever else is given has a row too.
    let given = std::fs::read_to_string(world.base().join("given")).unwrap();
    let lines: Vec<&str> = given.lines().collect();
    let given: BTreeSet<&str> = lines
        .windows(2)
        .filter(|pair| pair[0] == "-o")
        .filter_map(|pair| Some(pair[1].split_once('=')?.0))
        .collect();
    let known = |name: &&str| BY_TIME.contains(name) || ROWS.iter().any(|row| row.option == *name);
    let unknown: Vec<_> = given.iter().filter(|name| !known(name)).collect();
    assert!(!given.is_empty() && unknown.is_empty(), "{unknown:?}");

    let _ = std::fs::remove_file(devbox.home().join("project/ended"));
    let end = run(&devbox, row, row.option);
    assert!(
        (row.seen)(&devbox, &end),
        "nothing is seen without {}\n{end}\n{}",
        row.option,
        devbox.log()
    );
    if world.base().join("ctl").exists() {
        let _ = world
            .command(devbox.ssh())
            .args(["-O", "exit", "devbox"])
            .run()
            .has_status(0);
    }
    drop(agent);
    devbox.may_leave_something();
}

#[test]
fn each_option_prevents_what_it_is_given_for() {
    if World::with_ssh("options of ssh").is_none() {
        return;
    }
    std::thread::scope(|scope| {
        let rows: Vec<_> = ROWS.iter().map(|row| scope.spawn(|| shown(row))).collect();
        for row in rows {
            if let Err(panic) = row.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
