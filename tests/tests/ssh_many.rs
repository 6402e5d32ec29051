//! Many at once, hosts that are busy, and what never leaves this machine.

use std::path::{Path, PathBuf};

use ollie_tests::World;

#[test]
fn twenty_deployments_to_one_fresh_host_at_once() {
    let Some(world) = World::with_ssh("twenty at once") else {
        return;
    };
    // Three may be on their way in; then sshd refuses some, and from ten on all.
    let devbox = world.devbox().config("MaxStartups 3:50:10").start();
    let running: Vec<_> = (0..20)
        .map(|number| {
            devbox
                .shell(&format!("echo {number}"))
                .limit(std::time::Duration::from_secs(120))
                .spawn()
        })
        .collect();
    for (number, running) in running.into_iter().enumerate() {
        assert_eq!(running.finish().ok(), format!("{number}\n"));
    }
    assert_eq!(devbox.installed().len(), 1, "{:?}", devbox.installed());
    // What sshd saw of them: a session each, and no more.
    assert_eq!(devbox.logged("Starting session"), 20, "{}", devbox.log());
    assert!(
        devbox.logged("drop connection") + devbox.logged("MaxStartups") > 0,
        "sshd refused nobody, so nothing was tested:\n{}",
        devbox.log()
    );
}

#[test]
fn deploy_goes_to_many_hosts_and_tells_of_each() {
    let Some(world) = World::with_ssh("many hosts") else {
        return;
    };
    // Fifty accounts with homes of their own, behind three sshds with ports and
    // directories of their own. The accounts' number is the same, so that what
    // is left of them is seen.
    let hosts = ["devbox", "second", "third"].map(|name| {
        world
            .devbox()
            .named(name)
            .hook(
                "uid=$(id -u dev)\nfor i in $(seq 0 49); do\n\
                 echo \"dev$i:x:$uid:$uid::/home/dev$i:/bin/dash\" >>/etc/passwd\n\
                 mkdir /home/dev$i; chown dev /home/dev$i; done\n\
                 for i in $(seq 0 49); do echo \"dev$i:*:19000:0:99999:7:::\" >>/etc/shadow; done",
            )
            .start()
    });
    let [devbox, second, third] = &hosts;
    devbox.knows(second);
    devbox.knows(third);
    let names: Vec<String> = (0..50)
        .map(|i| format!("dev{i}@127.0.0.1:{}", hosts[i % 3].port()))
        .collect();
    let mut args = vec!["deploy".to_owned(), "--json".to_owned()];
    args.extend(names.iter().cloned());
    args.push("127.0.0.1:1".to_owned());
    let end = devbox
        .ollie(&args)
        .limit(std::time::Duration::from_secs(180))
        .run()
        // That of the one that failed.
        .has_status(210);
    let records: serde_json::Value = serde_json::from_str(&end.out()).unwrap();
    let records = records.as_array().unwrap();
    assert_eq!(records.len(), 51, "a record for each");
    let bad: Vec<_> = records
        .iter()
        .filter(|record| record["ok"] != true)
        .collect();
    assert_eq!(bad.len(), 1, "{bad:#?}");
    assert_eq!(bad[0]["name"], "127.0.0.1:1");
    assert_eq!(bad[0]["status"], 210);
    assert!(
        bad[0]["remedy"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    let sessions = hosts.each_ref().map(|host| host.logged("Starting session"));
    assert_eq!(sessions, [17, 17, 16], "one for each, as sshd saw it");
    for i in 0..50 {
        let platforms = hosts[i % 3]
            .path("home")
            .join(format!("dev{i}/.cache/ollie"));
        assert!(platforms.is_dir(), "nothing in {}", platforms.display());
    }
}

/// One account by its alias, by its address and by its address again: three
/// lines, one install, three logins. And the status tells what failed.
#[test]
fn each_host_that_was_named_has_its_line_and_the_status_tells_why_one_failed() {
    let Some(world) = World::with_ssh("names and statuses") else {
        return;
    };
    let devbox = world.devbox().start();
    let target = devbox.target();
    let end = devbox
        .ollie(["deploy", "devbox", &target, &target])
        .run()
        .has_status(0);
    let mut names: Vec<_> = end
        .out()
        .lines()
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, [&target, &target, "devbox"], "{end}");
    assert_eq!(devbox.installed().len(), 1, "{:?}", devbox.installed());
    assert_eq!(devbox.logged("Accepted publickey"), 3, "{}", devbox.log());

    // One that refuses everybody, one that is not there, one whose profile is
    // not there.
    let closed = world.devbox().named("closed").start();
    std::fs::write(closed.path("run/devbox/authorized_keys"), "").unwrap();
    devbox.knows(&closed);
    world.write(
        "home/.config/ollie/config.yaml",
        format!("remotes:\n  lost:\n    target: {target}\n    profile: none\n"),
    );
    let closed = closed.target();
    let nobody = "dev@127.0.0.1:1";
    for (hosts, status, each) in [
        (&[&*closed][..], 211, &[211][..]),
        (&[nobody], 210, &[210]),
        (&["lost"], 206, &[206]),
        (&[&*closed, "devbox", &*closed], 211, &[0, 211, 211]),
        (
            &[&*closed, nobody, "lost", "devbox"],
            201,
            &[0, 206, 210, 211],
        ),
    ] {
        let end = devbox.ollie(["deploy", "--json"]).args(hosts).run();
        let records: serde_json::Value = serde_json::from_str(&end.out()).unwrap();
        let records = records.as_array().unwrap();
        let mut statuses: Vec<_> = records
            .iter()
            .map(|record| record["status"].as_i64().unwrap())
            .collect();
        statuses.sort();
        assert_eq!(statuses, each, "{end}");
        let _ = end.has_status(status);
    }
}

#[test]
fn remotes_of_the_configuration_are_hosts_too() {
    let Some(world) = World::with_ssh("remotes") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook("mkdir /home/dev/src; chown dev /home/dev/src")
        .start();
    let text = format!(
        "remotes:\n  mine:\n    target: {}\n    cwd: src\n    transport: stdio\n  other: {{}}\n",
        devbox.target()
    );
    world.write("home/.config/ollie/config.yaml", &text);
    assert_eq!(
        devbox.ollie(["exec", "mine", "--", "pwd"]).run().ok(),
        "/home/dev/src\n"
    );
    // The command line goes before it.
    let run = devbox
        .ollie(["exec", "--cwd", "/", "mine", "--", "pwd"])
        .run();
    assert_eq!(run.ok(), "/\n");
    let list = devbox.ollie(["remotes"]).run().ok();
    assert!(
        list.contains(&format!("mine             {}", devbox.target())),
        "{list}"
    );
    assert!(
        devbox
            .ollie(["config", "check"])
            .run()
            .ok()
            .contains("config.yaml: right")
    );
    world.write(
        "home/.config/ollie/config.yaml",
        "remotes:\n  mine:\n    traget: x\n",
    );
    let _ = devbox
        .ollie(["config", "check"])
        .run()
        .has_status(213)
        .says(&["config.yaml", "traget", "3"]);
    // Back ends are looked at without a look at their files or at the network.
    for (text, says) in [
        ("backend: nobody", "nobody"),
        ("backends: { a: { kind: replay } }", "recording"),
        ("backends: { a: { kind: openai, thinking: 9 } }", "thinking"),
        (
            "backends: { a: { kind: openai, key_env: A, key_file: b } }",
            "one place",
        ),
    ] {
        world.write("home/.config/ollie/config.yaml", text);
        let _ = devbox
            .ollie(["config", "check"])
            .run()
            .has_status(213)
            .says(&["config.yaml", says]);
    }
    world.write(
        "home/.config/ollie/config.yaml",
        "backend: a\nbackends: { a: { kind: ollama, ca_file: /nowhere } }\n",
    );
    let _ = devbox.ollie(["config", "check"]).run().ok();
    world.write(
        "home/.config/ollie/config.yaml",
        "remotes:\n  mine:\n    traget: x\n",
    );
    // Whoever misspells it is told by every command, not only by that one.
    let _ = devbox
        .ollie(["exec", "mine", "--", "true"])
        .run()
        .has_status(213);
}

const MOMENT: std::time::Duration = std::time::Duration::from_secs(20);

/// Plants secrets wherever they are on a developer's machine, and then looks
/// for them on the host: its files, its processes' arguments and environments.
#[test]
fn no_secret_reaches_the_host() {
    let Some(world) = World::with_ssh("secrets") else {
        return;
    };
    const SECRET: &str = "sk-planted-4f1d9c";
    // sshd takes what it is sent, and ssh sends what it has.
    let devbox = world.devbox().config("AcceptEnv *").start();
    let agent = world.base().join("agent");
    let _agent = world
        .command("/usr/bin/ssh-agent")
        .args(["-D".as_ref(), "-a".as_ref(), agent.as_os_str()])
        .spawn();
    assert!(ollie_tests::await_that(MOMENT, || agent.exists()));
    devbox.ssh_config(&format!(
        "Host *\n SendEnv *\n ForwardAgent yes\n IdentityAgent {}\n",
        agent.display()
    ));
    // The configuration in force, with a key of each kind that it may have.
    world.write(
        "home/.config/ollie/config.yaml",
        format!(
            "# {SECRET}\nbackend: a\nbackends:\n  a: {{ kind: openai, key_file: {0} }}\n  \
             b: {{ kind: anthropic, key_env: PLANTED_KEY }}\n  \
             c: {{ kind: openai, key_command: [echo, {SECRET}] }}\n",
            world.home().join(".config/ollie/keys").display()
        ),
    );
    for file in [
        "home/.config/ollie/config.yaml.bak",
        "home/.config/ollie/env",
        "home/.config/ollie/keys",
        "home/.local/state/ollie/sessions/one/chat",
        "home/.local/state/ollie/sessions/one/history.jsonl",
        "home/.local/state/ollie/sessions/one/settings.yaml",
        "home/.local/share/ollie/memory.md",
        "home/.cache/ollie/notes",
        "home/.ssh/id_planted",
        "home/project/.env",
    ] {
        world.write(file, SECRET);
    }
    let running = devbox
        .ollie([
            "exec",
            &devbox.target(),
            "--",
            "sh",
            "-c",
            "echo ready; read x",
        ])
        .env("OPENAI_API_KEY", SECRET)
        .env("ANTHROPIC_API_KEY", SECRET)
        .env("PLANTED_KEY", SECRET)
        .env("PLANTED_HARMLESS", "1")
        .stdin_from(Never)
        .spawn();
    running.await_stdout("ready");
    let processes = devbox.processes();
    assert!(processes.len() >= 3, "{processes:?}");
    for process in &processes {
        assert!(!process.mentions(SECRET), "{}", process.line());
    }
    // Something did come that way, and the agent's socket did not.
    let sent = |name: &str| processes.iter().any(|process| process.mentions(name));
    assert!(sent("PLANTED_HARMLESS=1"), "{processes:?}");
    let sockets = std::fs::read_dir(devbox.path("tmp")).unwrap().flatten();
    let agents: Vec<_> = sockets
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("ssh-"))
        .collect();
    assert!(agents.is_empty(), "{agents:?}");
    let everywhere = || {
        let mut seen = 0;
        for place in ["home", "tmp", "vartmp", "shm", "run"] {
            search(&devbox.path(place), SECRET, &mut seen);
        }
        assert!(seen > 3, "{seen} files were searched");
    };
    // While the call runs, and after it.
    everywhere();
    running.ctrl_c();
    let _ = running.finish();
    everywhere();
}

/// A standard input that gives nothing and does not end.
struct Never;

impl std::io::Read for Never {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        loop {
            std::thread::park();
        }
    }
}

fn search(directory: &Path, secret: &str, seen: &mut usize) {
    let entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for path in entries {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            search(&path, secret, seen);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!found, "{}", path.display());
            *seen += 1;
        }
    }
}
