//! What a reviewer once broke, each as the attempt that did it.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::time::{Duration, Instant};

use ollie_tests::{Tree, User, World, await_that};
use rustix::process::Signal;

/// Profiles grant /dev/shm, and a tool that reaches another session's socket
/// can put its own in the place.
#[test]
fn no_socket_of_a_session_lies_where_tools_may_write() {
    let world = World::ordinary();
    // Neither this variable nor /run/user/UID names a place, as in a container.
    let running = world
        .shell("exec sleep 60")
        .env("XDG_RUNTIME_DIR", "")
        .spawn();
    let tree = running.await_tree();
    let socket = listening(tree.server);
    assert!(socket.ends_with("/socket"), "{socket}");
    assert!(!socket.starts_with("/dev/shm"), "{socket}");
}

/// The path of the socket that a process listens on, from the kernel's table
/// (proc(5), /proc/net/unix).
fn listening(pid: u32) -> String {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .map(|at| at.display().to_string())
        .collect();
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    table
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .find(|(fields, path)| {
            let inode = fields.split_whitespace().last().unwrap_or_default();
            path.starts_with('/') && sockets.contains(&format!("socket:[{inode}]"))
        })
        .map(|(_, path)| path.to_owned())
        .unwrap_or_default()
}

#[test]
fn a_policy_that_gives_ollies_own_files_is_an_error() {
    let world = World::ordinary();
    world.write(
        "home/.config/ollie/sandbox.yaml",
        "filesystem: { rw: [\"{HOME}/.config\"] }\n",
    );
    let _ = world
        .shell("true")
        .run()
        .has_status(206)
        .says(&["which is ollie's own"]);
}

#[test]
fn a_tool_cannot_end_another_process_by_a_limit() {
    for user in User::each("limits of others, as root") {
        let world = World::new(user);
        // The victim belongs to the same user and is outside of every call.
        let victim = world.command("sleep").arg("60").spawn();
        let code = format!("prlimit --pid {} --cpu=1:1", victim.pid());
        let _ = world.shell(&code).run().failed();
        // Without the sandbox it works: the attempt is a real one.
        let _ = world
            .ollie(["exec", "--yolo", "--", "sh", "-c", &code])
            .run()
            .has_status(0);
        let _ = world.shell("ulimit -n 100 && ulimit -n").run().ok();
    }
}

#[test]
fn a_command_that_ended_in_time_keeps_its_status() {
    let world = World::ordinary();
    // What it leaves ignores SIGTERM, so the tree outlives the limit.
    let code = "(trap '' TERM; sleep 50 >/dev/null 2>&1 </dev/null) & exit 3";
    let end = world
        .ollie(["exec", "--json", "--timeout", "1", "--", "sh", "-c", code])
        .run()
        .has_status(3);
    let result = end.json_lines().pop().unwrap();
    assert_eq!(result["timed_out"], false, "{result}");
    assert_eq!(result["tree_ended"], true, "{result}");
    assert!(result.get("failure").is_none(), "{result}");
}

#[test]
fn a_policy_file_that_is_no_file_is_refused_at_once() {
    let world = World::ordinary();
    let file = world.write("home/.config/ollie/sandbox.yaml", "");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    let start = Instant::now();
    let _ = world.shell("true").run().has_status(206);
    std::fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    let _ = world.shell("true").run().has_status(206);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_input_that_cannot_be_read_is_not_taken_for_its_end() {
    let world = World::ordinary();
    let code = format!("{} exec -- cat < /", world.dist().olliesrv().display());
    let _ = world
        .command("sh")
        .args(["-c", &code])
        .run()
        .has_status(209)
        .says(&["read standard input"]);
}

#[test]
fn a_server_that_is_stopped_keeps_nobody_from_leaving() {
    let world = World::ordinary();
    let mut running = world
        .shell("trap '' TERM INT; echo started; while :; do sleep 1; done")
        .untapped()
        .limit(Duration::from_secs(40))
        .spawn();
    let stdout = running.take_stdout();
    let tree = running.await_tree();
    let server = rustix::process::Pid::from_raw(i32::try_from(tree.server).unwrap()).unwrap();
    rustix::process::kill_process(server, Signal::STOP).unwrap();
    running.signal(Signal::TERM);
    let _ = running.finish().has_status(143);
    rustix::process::kill_process(server, Signal::CONT).unwrap();
    drop(stdout);
    await_that(Duration::from_secs(20), || world.processes().is_empty());
}

#[test]
fn killing_toolsrv_by_its_name_leaves_somebody_who_cleans_up() {
    let world = World::ordinary();
    let running = world.shell("sleep 60 & sleep 60").spawn();
    let tree = running.await_tree();
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!(name(tree.server), "toolsrv\n");
    for other in [tree.companion, tree.supervisor] {
        assert!(!name(other).contains("toolsrv"), "{}", name(other));
    }
    Tree::kill(tree.server);
    let _ = running.finish().failed();
    world.nothing_left();
}

#[test]
fn a_call_of_more_than_one_message_arrives() {
    let world = World::ordinary();
    // 15 arguments of 120 kB: more than the 1 MiB of one 9P message.
    let argument = "a".repeat(120_000);
    let end = world
        .ollie(["exec", "--", "sh", "-c", "echo $# ${#15}", "sh"])
        .args(std::iter::repeat_n(&argument, 15))
        .run();
    assert_eq!(end.ok(), "15 120000\n");
}
