//! Whatever answers behind ssh, tools run there, or the error says what came.

use ollie_tests::{World, gap};

/// Streams, standard input and status go both ways.
const CODE: &str = "echo out; echo err >&2; cat; exit 7";

fn works(devbox: &ollie_tests::Devbox<'_>) {
    let end = devbox.shell(CODE).stdin("in").run().has_status(7);
    assert_eq!(end.out(), "out\nin", "{end}");
    let _ = end.says(&["err\n"]);
}

fn works_with_shell(shell: &str) {
    let Some(world) = World::with_ssh(shell) else {
        return;
    };
    if !std::path::Path::new(shell).exists() {
        return gap(shell, "is not installed");
    }
    works(&world.devbox().shell(shell).start());
}

#[test]
fn with_bash() {
    works_with_shell("/bin/bash");
}

#[test]
fn with_dash() {
    works_with_shell("/bin/dash");
}

#[test]
fn with_fish() {
    works_with_shell("/usr/bin/fish");
}

#[test]
fn with_tcsh() {
    works_with_shell("/bin/tcsh");
}

#[test]
fn with_zsh() {
    works_with_shell("/bin/zsh");
}

#[test]
fn with_mksh() {
    works_with_shell("/bin/mksh");
}

#[test]
fn with_ksh() {
    works_with_shell("/bin/ksh");
}

/// A shell of another family, like nushell: it knows `exec`, names and words in
/// single quotes, and takes nothing else for a command.
#[test]
fn with_a_shell_that_knows_single_quotes_and_nothing_else() {
    let Some(world) = World::with_ssh("a foreign shell") else {
        return;
    };
    let shell = r#"#!/bin/bash
whole="^exec sh -c '([^']*)'\$"
[[ $# -eq 2 && $1 = -c && $2 =~ $whole ]] && exec sh -c "${BASH_REMATCH[1]}"
echo "Error: nu::parser::parse_mismatch: $2" >&2
exit 1
"#
    .replace("\\$", "$");
    let devbox = world
        .devbox()
        .shell("/run/devbox/nu")
        .hook(&format!(
            "cat >/run/devbox/nu <<'END'\n{shell}END\nchmod 755 /run/devbox/nu"
        ))
        .start();
    works(&devbox);
    // And it is what it claims to be.
    let port = devbox.port().to_string();
    let posix = world
        .command(devbox.ssh())
        .args(["-p", &port, "dev@127.0.0.1", "A=1; echo \"$A\""])
        .run();
    let _ = posix.has_status(1).says(&["parse_mismatch"]);
}

/// It may start programs by name and not become one.
#[test]
fn with_a_restricted_shell() {
    works_with_shell("/bin/rbash");
}

/// An OpenSSH older than 8.7 knows three of the options not and says so.
#[test]
fn with_an_ssh_that_does_not_know_the_newest_options() {
    let Some(world) = World::with_ssh("old ssh") else {
        return;
    };
    let devbox = world.devbox().start();
    let old = world.write_program(
        "old-ssh",
        &format!(
            "#!/bin/sh\nfor word; do case $word in\n\
             StdinNull=*|SessionType=*|ForkAfterAuthentication=*)\n\
             echo \"command-line: line 0: Bad configuration option: ${{word%%=*}}\" >&2\n\
             exit 255 ;;\nesac; done\nexec {} \"$@\"\n",
            devbox.ssh().display()
        ),
    );
    let end = devbox.shell(CODE).env("OLLIE_SSH", &old).stdin("in").run();
    assert_eq!(end.has_status(7).out(), "out\nin");
    assert_eq!(devbox.logged("Accepted publickey"), 1, "{}", devbox.log());
}

/// A live master of the user's is used: nobody logs in a second time.
#[test]
fn through_the_users_own_master() {
    let Some(world) = World::with_ssh("a master") else {
        return;
    };
    let devbox = world.devbox().start();
    let path = world.base().join("ctl");
    devbox.ssh_config(&format!("Host *\n ControlPath {}\n", path.display()));
    let port = devbox.port().to_string();
    let master = world
        .command(devbox.ssh())
        .args(["-M", "-N", "-p", &port, "dev@127.0.0.1"])
        .spawn();
    let there = || path.exists();
    assert!(ollie_tests::await_that(
        std::time::Duration::from_secs(20),
        there
    ));
    works(&devbox);
    assert_eq!(devbox.logged("Accepted publickey"), 1, "{}", devbox.log());
    // It is the user's, so it stays.
    assert!(path.exists());
    drop(master);
}

/// A login shell may also be a script: this one is busybox's, whose `sh`,
/// `head` and `xz` are its own.
#[test]
fn with_busybox() {
    let Some(world) = World::with_ssh("busybox") else {
        return;
    };
    let shell = "#!/bin/sh\nexec busybox ash \"$@\"\n";
    let devbox = world
        .devbox()
        .shell("/run/devbox/ash")
        .hook(&format!(
            "printf '%s' '{shell}' >/run/devbox/ash\nchmod 755 /run/devbox/ash"
        ))
        .start();
    works(&devbox);
}

#[test]
fn with_a_forced_command_that_is_a_shell() {
    for shell in [
        "/bin/sh",
        "/bin/bash",
        "/bin/dash",
        "/bin/zsh",
        "/bin/ksh",
        "/bin/mksh",
        "busybox sh",
    ] {
        let Some(world) = World::with_ssh("ForceCommand") else {
            return;
        };
        if shell.starts_with('/') && !std::path::Path::new(shell).exists() {
            gap(shell, "is not installed");
            continue;
        }
        works(
            &world
                .devbox()
                .config(&format!("ForceCommand {shell}"))
                .start(),
        );
    }
}

/// They read no script of sh(1): fish waits for the end of its input before it
/// reads any of it, tcsh says what it does not understand.
#[test]
fn a_forced_command_that_is_another_shell_is_an_error() {
    for shell in ["/usr/bin/fish", "/bin/tcsh"] {
        let Some(world) = World::with_ssh("ForceCommand of another family") else {
            return;
        };
        if !std::path::Path::new(shell).exists() {
            gap(shell, "is not installed");
            continue;
        }
        let devbox = world
            .devbox()
            .config(&format!("ForceCommand {shell}"))
            .start();
        let began = std::time::Instant::now();
        let _ = devbox
            .ollie(["exec", "--answer-timeout", "2s"])
            .args([&devbox.target(), "--", "true"])
            .run()
            .has_status(210)
            .says(&["does not answer as a shell"]);
        assert!(began.elapsed() < std::time::Duration::from_secs(10));
    }
}

#[test]
fn what_rc_files_and_banners_print_is_passed_over_and_doctor_shows_it() {
    let Some(world) = World::with_ssh("noise") else {
        return;
    };
    let devbox = world
        .devbox()
        .shell("/bin/zsh")
        .hook(
            "printf 'A banner\\nof lines\\n' >/run/devbox/banner\n\
             printf '%s\\n' 'printf \"no newline: \\033[31mred\"; echo warning >&2' \
             >/home/dev/.zshenv",
        )
        .config("Banner /run/devbox/banner")
        .start();
    works(&devbox);
    let end = devbox
        .ollie(["doctor", &devbox.target()])
        .run()
        .has_status(0);
    assert!(end.out().contains("no newline: \\u{1b}[31mred"), "{end}");
    assert!(end.out().contains("9P goes over stdio"), "{end}");
    // Not even the answer that follows it directly is lost.
    assert!(end.out().contains("a shell answers: Linux "), "{end}");
    assert!(!end.out().contains('\u{1b}'), "{end}");
}

/// Each shell reads a file of the user's before the command.
#[test]
fn what_each_shells_own_file_prints_is_passed_over() {
    for (shell, file) in [
        ("/bin/bash", ".bashrc"),
        ("/bin/tcsh", ".cshrc"),
        ("/usr/bin/fish", ".config/fish/config.fish"),
    ] {
        let Some(world) = World::with_ssh("noisy files") else {
            return;
        };
        if !std::path::Path::new(shell).exists() {
            gap(shell, "is not installed");
            continue;
        }
        let hook = format!(
            "mkdir -p /home/dev/.config/fish\n\
             printf 'echo noise from {file}\\nprintf \"and more\"\\n' >/home/dev/{file}\n\
             chown -R dev /home/dev"
        );
        let devbox = world.devbox().shell(shell).hook(&hook).start();
        works(&devbox);
        let end = devbox.ollie(["doctor", &devbox.target()]).run();
        let out = end.has_status(0).out();
        assert!(out.contains("noise from"), "{shell} reads no {file}: {out}");
    }
}

#[test]
fn a_shell_that_answers_nonsense_is_quoted() {
    let Some(world) = World::with_ssh("nonsense") else {
        return;
    };
    let devbox = world.devbox().shell("/bin/false").start();
    let _ = devbox
        .shell("true")
        .run()
        .has_status(210)
        .says(&["does not answer as a shell", "exit status: 1"]);
    drop(devbox);
    let devbox = world
        .devbox()
        .config("ForceCommand echo 'Your account has expired'")
        .start();
    let _ = devbox
        .shell("true")
        .run()
        .has_status(210)
        .says(&["Your account has expired"]);
}

#[test]
fn a_shell_that_never_answers_is_given_up() {
    let Some(world) = World::with_ssh("silence") else {
        return;
    };
    let devbox = world
        .devbox()
        .config("ForceCommand echo working; exec sleep 4242")
        .start();
    let began = std::time::Instant::now();
    let _ = devbox
        .ollie(["exec", "--answer-timeout", "2s"])
        .args([&devbox.target(), "--", "true"])
        .run()
        .has_status(210)
        .says(&["no answer within 2 s", "working"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    // ssh, which would wait for it, is gone here.
    world.nothing_left();
    // sshd does not end it; nothing of ours could.
    devbox
        .processes()
        .iter()
        .for_each(|process| ollie_tests::Tree::kill(process.pid));
}

#[test]
fn a_flood_is_given_up() {
    let Some(world) = World::with_ssh("flood") else {
        return;
    };
    let devbox = world.devbox().config("ForceCommand exec yes").start();
    let _ = devbox
        .shell("true")
        .run()
        .has_status(210)
        .says(&["65536 bytes of something else"]);
}

/// Every option of the user's configuration that would break the one command.
#[test]
fn a_configuration_with_everything_that_could_be_in_the_way() {
    let Some(world) = World::with_ssh("ssh_config") else {
        return;
    };
    let devbox = world.devbox().start();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port();
    let lines = format!(
        "Host *\n RequestTTY force\n RemoteCommand echo wrong\n StdinNull yes\n \
         SessionType none\n ForkAfterAuthentication yes\n PermitLocalCommand yes\n \
         LocalCommand echo wrong\n LocalForward {taken} 127.0.0.1:1\n \
         ExitOnForwardFailure yes\n ForwardX11 yes\n ForwardAgent yes\n LogLevel QUIET\n \
         ControlMaster auto\n ControlPath {}/ctl-%C\n ControlPersist 600\n Compression yes\n \
         SendEnv *\n EscapeChar ~\n Tunnel yes\n VisualHostKey yes\n TCPKeepAlive no\n \
         ServerAliveInterval 0\n",
        world.base().display()
    );
    devbox.ssh_config(&lines);
    works(&devbox);
    assert!(
        !std::fs::read_dir(world.base())
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("ctl-")),
        "no master stays behind"
    );
}

#[test]
fn with_one_session_for_each_connection() {
    let Some(world) = World::with_ssh("MaxSessions") else {
        return;
    };
    works(&world.devbox().config("MaxSessions 1").start());
}

#[test]
fn where_everything_but_a_session_is_forbidden() {
    for line in [
        "AllowTcpForwarding no",
        "PermitOpen none",
        "DisableForwarding yes",
        "AllowStreamLocalForwarding no",
        "PermitUserEnvironment no\nX11Forwarding no\nAllowAgentForwarding no",
    ] {
        let Some(world) = World::with_ssh("forwarding") else {
            return;
        };
        works(&world.devbox().config(line).start());
    }
}

#[test]
fn targets_of_every_form() {
    let Some(world) = World::with_ssh("targets") else {
        return;
    };
    let devbox = world.devbox().start();
    let port = devbox.port();
    for target in [
        "devbox".to_owned(),
        "dev@devbox".to_owned(),
        format!("dev@[::1]:{port}"),
        format!("dev@127.0.0.1:{port}"),
    ] {
        let end = devbox.ollie(["exec", &target, "--", "id", "-un"]).run();
        assert_eq!(end.ok(), "dev\n", "{target}");
    }
    for target in ["-oProxyCommand=touch wrong", "a b", "dev@-x"] {
        let end = devbox.ollie(["exec", "--", "true"]).run();
        let _ = end.has_status(0);
        let _ = devbox
            .ollie(["call", "--on", target, "shell", "code=true"])
            .run()
            .has_status(2);
    }
    assert!(!world.project().join("wrong").exists());
}

#[test]
fn through_a_second_sshd() {
    let Some(world) = World::with_ssh("ProxyJump") else {
        return;
    };
    let devbox = world.devbox().start();
    // It jumps through itself: two connections, one in the other.
    let port = devbox.port();
    devbox.ssh_config(&format!(
        "Host behind\n HostName ::1\n Port {port}\n User dev\n ProxyJump devbox\n\
         Host beside\n HostName ::1\n Port {port}\n User dev\n ProxyCommand {} -W [%h]:%p devbox\n",
        devbox.ssh().display()
    ));
    for (host, connections) in [("behind", 2), ("beside", 4)] {
        let end = devbox.ollie(["exec", host, "--", "id", "-un"]).run();
        assert_eq!(end.ok(), "dev\n", "{host}");
        let logged = devbox.logged("Accepted publickey");
        assert_eq!(logged, connections, "{}", devbox.log());
    }
}

/// A jump host with a port and a configuration of its own, whose account can
/// do nothing but forward.
#[test]
fn through_a_jump_host_that_runs_nothing() {
    let Some(world) = World::with_ssh("a jump host") else {
        return;
    };
    let devbox = world.devbox().start();
    let jump = world
        .devbox()
        .named("jump")
        .shell("/bin/false")
        .config(&format!(
            "PermitTTY no\nForceCommand /bin/false\nAllowStreamLocalForwarding no\n\
             PermitOpen 127.0.0.1:{}",
            devbox.port()
        ))
        .start();
    assert_ne!(devbox.port(), jump.port());
    devbox.knows(&jump);
    devbox.ssh_config(&format!(
        "Host inside\n HostName 127.0.0.1\n Port {}\n User dev\n ProxyJump jump\n\
         Host jump\n HostName 127.0.0.1\n Port {}\n User dev\n",
        devbox.port(),
        jump.port()
    ));
    let end = devbox.ollie(["exec", "inside", "--", "id", "-un"]).run();
    assert_eq!(end.ok(), "dev\n");
    for host in [&devbox, &jump] {
        assert_eq!(host.logged("Accepted publickey"), 1, "{}", host.log());
    }
    assert_eq!(jump.logged("Starting session"), 0, "{}", jump.log());
    assert_eq!(jump.installed().len(), 0);
}

#[test]
fn a_host_with_another_key_is_never_talked_to() {
    let Some(world) = World::with_ssh("host keys") else {
        return;
    };
    let devbox = world.devbox().start();
    let known = devbox.path("known_hosts");
    let right = std::fs::read_to_string(&known).unwrap();
    let other = std::fs::read_to_string(devbox.path("key.pub")).unwrap();
    let other = other.split(' ').nth(1).unwrap();
    let (place, _) = right.trim().rsplit_once(' ').unwrap();
    std::fs::write(&known, format!("{place} {other}\n")).unwrap();
    let _ = devbox
        .shell("true")
        .run()
        .has_status(211)
        .says(&["the host's key could not be verified"]);
    // Nor one whose key is not known, when there is nobody to ask.
    std::fs::write(&known, "").unwrap();
    let _ = devbox.shell("true").run().has_status(211);
    assert_eq!(std::fs::read_to_string(&known).unwrap(), "");
    assert_eq!(devbox.logged("Accepted publickey"), 0);
}

#[test]
fn a_refused_key_is_final() {
    let Some(world) = World::with_ssh("authentication") else {
        return;
    };
    let devbox = world.devbox().start();
    std::fs::write(devbox.path("run/devbox/authorized_keys"), "").unwrap();
    let _ = devbox
        .shell("true")
        .run()
        .has_status(211)
        .says(&["the host refused the authentication", "publickey"]);
    assert_eq!(devbox.logged("Failed publickey"), 1, "one attempt");
}

#[test]
fn who_is_not_there_is_told_from_who_refuses() {
    let Some(world) = World::with_ssh("unreachable") else {
        return;
    };
    let devbox = world.devbox().start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let target = format!("127.0.0.1:{port}");
    let _ = devbox
        .ollie(["exec", &target, "--", "true"])
        .run()
        .has_status(210)
        .says(&["could not be reached", "refused"]);
    let _ = devbox
        .ollie(["exec", "no-such-host.invalid", "--", "true"])
        .run()
        .has_status(210)
        .says(&["could not be reached", "no-such-host.invalid"]);
}

/// It takes connections and never greets; that of the configuration would wait
/// for ever.
#[test]
fn a_host_that_never_greets_is_given_up() {
    let Some(world) = World::with_ssh("no greeting") else {
        return;
    };
    let devbox = world.devbox().start();
    devbox.ssh_config("Host *\n ConnectTimeout 0\n");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    let _ = devbox
        .ollie(["exec", &target, "--", "true"])
        .limit(std::time::Duration::from_secs(60))
        .run()
        .has_status(210)
        .says(&["could not be reached", "timed out"]);
}

#[test]
fn the_working_directory_is_the_hosts() {
    let Some(world) = World::with_ssh("--cwd") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook("mkdir -p /home/dev/src/a /home/dev/closed\ntouch /home/dev/file\nchown -R dev /home/dev\nchmod 0 /home/dev/closed")
        .start();
    let run = |cwd: &str| {
        devbox
            .ollie(["exec", "--cwd", cwd, &devbox.target(), "--", "pwd"])
            .run()
    };
    assert_eq!(run("/home/dev/src/a").ok(), "/home/dev/src/a\n");
    assert_eq!(run("src/a").ok(), "/home/dev/src/a\n");
    for (cwd, problem) in [
        ("/home/dev/none", "No such file or directory"),
        ("/home/dev/file", "Not a directory"),
        ("/home/dev/closed", "Permission denied"),
    ] {
        let _ = run(cwd).has_status(207).says(&[cwd, problem]);
    }
}
