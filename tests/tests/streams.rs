//! Data goes through unchanged, both ways, at the speed of the slower side.

use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use ollie_tests::{Process, Tree, User, World, await_that};

/// No process of ollie may hold more than this in memory.
const RESIDENT_MAX: u64 = 64 * 1024 * 1024;

#[test]
fn both_streams_and_the_status_arrive_where_they_belong() {
    for user in User::each("exec as root") {
        let world = World::new(user);
        let end = world
            .shell("echo out; echo err >&2; exit 7")
            .run()
            .has_status(7);
        assert_eq!(end.out(), "out\n");
        assert_eq!(end.err(), "err\n");
    }
}

#[test]
fn a_signal_is_shown_as_a_shell_shows_it() {
    let world = World::ordinary();
    // sh(1): 128 and the number of the signal; SIGKILL is 9.
    let _ = world.shell("kill -KILL $$").run().has_status(137);
}

#[test]
fn a_hundred_megabytes_come_back_as_they_went() {
    let world = World::ordinary();
    let mut random = vec![0; 100_000_000];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .unwrap();
    let end = world
        .ollie(["exec", "--", "cat"])
        .stdin(random.clone())
        .run()
        .has_status(0);
    assert_eq!(end.stdout.len(), random.len());
    assert!(end.stdout == random, "some byte is another one");
}

/// Without back-pressure the producer would fill somebody's memory: it is as
/// fast as memory is, and there is no end to what it writes.
#[test]
fn a_slow_reader_slows_the_command_down_and_fills_no_memory() {
    let world = World::ordinary();
    let mut running = world
        .ollie(["exec", "--", "cat", "/dev/zero"])
        .untapped()
        .spawn();
    let mut stdout = running.take_stdout();
    let tree = running.await_tree();
    let started = Instant::now();
    let mut chunk = vec![0; 200_000];
    for number in 1..=80 {
        stdout.read_exact(&mut chunk).unwrap();
        // 16 MB at 2 MB/s.
        let due = started + Duration::from_millis(100) * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    assert_lean(&running_processes(running.pid(), &tree));
    drop(stdout);
    let _ = running.finish().has_status(141);
    world.nothing_left();
}

#[test]
fn a_command_that_does_not_read_slows_its_writer_down_and_fills_no_memory() {
    let world = World::ordinary();
    let running = world
        .shell("echo ready; sleep 3; exit 3")
        .stdin_from(std::io::repeat(7))
        .spawn();
    running.await_stdout("ready");
    let processes = running_processes(running.pid(), &running.await_tree());
    // The writer is blocked once everything between is full; it has all of
    // the command's time to fill more.
    let full = || {
        processes
            .iter()
            .any(|process| process.peak() > Some(RESIDENT_MAX))
    };
    assert!(!await_that(Duration::from_secs(2), full));
    assert_lean(&processes);
    let _ = running.finish().has_status(3);
}

fn running_processes(olliesrv: u32, tree: &Tree) -> Vec<Process> {
    let mut pids = tree.all();
    pids.push(olliesrv);
    pids.into_iter().filter_map(Process::read).collect()
}

#[track_caller]
fn assert_lean(processes: &[Process]) {
    assert!(
        processes.len() >= 4,
        "olliesrv, server, companion, supervisor"
    );
    for process in processes {
        let peak = process.peak().expect("it runs");
        assert!(peak < RESIDENT_MAX, "{peak} bytes: {}", process.line());
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let world = World::ordinary();
    let mut running = world.ollie(["exec", "--", "yes"]).untapped().spawn();
    let mut line = [0; 2];
    running.take_stdout().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"y\n");
    // 128 and SIGPIPE (13), as of `yes | head -1`.
    let _ = running.finish().has_status(141);
    world.nothing_left();
}

#[test]
fn arguments_are_bytes() {
    let world = World::ordinary();
    let strange = b"\xff\xfe caf\xc3 \n'\"$(x)".to_vec();
    let end = world
        .ollie(["exec", "--", "printf", "%s"])
        .arg(std::ffi::OsString::from_vec(strange.clone()))
        .run()
        .has_status(0);
    assert_eq!(end.stdout, strange);
}

#[test]
fn a_megabyte_of_arguments_arrives() {
    let world = World::ordinary();
    let argument = "a".repeat(100);
    let end = world
        .ollie(["exec", "--", "sh", "-c", "echo $# ${#1} ${9999}", "sh"])
        .args(std::iter::repeat_n(&argument, 9_999))
        .run();
    assert_eq!(end.ok(), format!("9999 100 {argument}\n"));
}

#[test]
fn with_n_the_command_gets_no_input() {
    let world = World::ordinary();
    let exec = |option: &[&str]| {
        world
            .ollie(["exec"])
            .args(option)
            .args(["--", "cat"])
            .stdin("typed")
            .run()
            .ok()
    };
    assert_eq!(exec(&["-n"]), "");
    assert_eq!(exec(&[]), "typed");
}

#[test]
fn a_command_that_ends_before_its_input_does_is_no_error() {
    let world = World::ordinary();
    let end = world
        .ollie(["exec", "--", "head", "-c", "5"])
        .stdin_from(std::io::repeat(b'x'))
        .run();
    assert_eq!(end.ok(), "xxxxx");
}

/// A terminal is such an input: it stays open while the command is long gone.
#[test]
fn an_input_that_stays_open_keeps_nobody_waiting() {
    let world = World::ordinary();
    for options in [&[][..], &["--json"]] {
        let (input, open) = std::io::pipe().unwrap();
        let end = world
            .ollie(["exec"])
            .args(options)
            .args(["--", "echo", "done"])
            .stdin_from(input)
            // toolsrv is waited for 20 s when its connection stays open.
            .limit(Duration::from_secs(15))
            .run();
        assert!(end.ok().contains("done"), "{options:?}");
        drop(open);
    }
}

#[test]
fn ctrl_c_is_heard_while_nobody_reads_the_output() {
    let world = World::ordinary();
    let mut running = world
        .ollie(["exec", "--", "yes"])
        .untapped()
        .limit(Duration::from_secs(30))
        .spawn();
    let stdout = running.take_stdout();
    // Held and not read: a pipe holds 64 KiB (pipe(7)).
    await_that(Duration::from_secs(20), || {
        rustix::io::ioctl_fionread(&stdout).is_ok_and(|waiting| waiting >= 65_536)
    });
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    drop(stdout);
}
