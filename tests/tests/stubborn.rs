//! Commands that do not want to end.

use std::time::{Duration, Instant};

use ollie_protocol::CallId;
use ollie_tests::{Toolsrv, User, World, await_that, gap, shell_call};

/// Ctrl-C, then SIGTERM for whatever is left, then SIGKILL: two seconds each,
/// and the rest for a busy machine.
const BOUND: Duration = Duration::from_secs(20);

#[test]
fn a_command_that_ignores_every_signal_it_can_is_ended() {
    let world = World::ordinary();
    let running = world
        .shell("trap '' INT TERM HUP QUIT PIPE; echo ready; while :; do sleep 4242; done")
        .spawn();
    running.await_stdout("ready");
    let started = Instant::now();
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    assert!(started.elapsed() < BOUND);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let world = World::ordinary();
    let running = world
        .shell("trap 'echo heard' INT; trap '' TERM; echo ready; while :; do sleep 0.05; done")
        .spawn();
    running.await_stdout("ready");
    running.ctrl_c();
    running.await_stdout("heard");
    let started = Instant::now();
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    // The first one alone would have taken two seconds and the grace.
    assert!(
        started.elapsed() < Duration::from_millis(1900),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_command_that_handles_ctrl_c_may_say_its_last_words() {
    let world = World::ordinary();
    let running = world
        .shell("trap 'echo cleaned up; exit 5' INT; echo ready; while :; do sleep 0.05; done")
        .spawn();
    running.await_stdout("ready");
    running.ctrl_c();
    let end = running.finish().has_status(130);
    assert_eq!(end.out(), "ready\ncleaned up\n");
}

#[test]
fn a_stopped_command_is_ended() {
    let world = World::ordinary();
    let running = world.shell("echo ready; kill -STOP $$; echo never").spawn();
    running.await_stdout("ready");
    running.ctrl_c();
    let end = running.finish().has_status(130);
    assert!(!end.out().contains("never"));
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// Each link of a chain starts the next one and ends: there is never a moment
/// at which a list of processes holds them all.
#[test]
fn chains_of_processes_that_fork_and_end_are_ended() {
    for user in User::each("fork chains, as root") {
        let world = World::new(user);
        world.write_program(
            "home/project/link",
            "#!/bin/sh\nprintf . >> beat\n\"$0\" &\n",
        );
        let end = world
            .ollie(["exec", "--json", "--timeout", "1", "--", "sh", "-c"])
            .arg("for i in 1 2 3 4; do setsid ./link & done; sleep 4242")
            .run()
            .has_status(204);
        let beat = || {
            std::fs::metadata(world.project().join("beat"))
                .unwrap()
                .len()
        };
        let result = end.json_lines().pop().unwrap();
        assert_eq!(result["tree_ended"], true, "{result}");
        let (before, links) = (beat(), 20);
        assert!(before > links, "the chains had grown");
        for _ in 0..20 {
            assert_eq!(world.leftovers(), Vec::<String>::new());
        }
        assert_eq!(beat(), before, "a chain still grows");
    }
}

#[test]
fn a_hundred_and_twenty_seven_processes_that_ignore_signals_are_ended() {
    let world = World::ordinary();
    let code = "trap '' INT TERM
        f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; sleep 4242; }
        f 5 & echo ready; wait";
    let running = world.shell(code).spawn();
    running.await_stdout("ready");
    let sleeps = || {
        let all = world.processes();
        all.iter()
            .filter(|process| process.has_args(&["sleep", "4242"]))
            .count()
    };
    assert!(ollie_tests::await_that(Duration::from_secs(20), || sleeps() == 63));
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// What ending one tree costs must not grow with what else runs: when each of
/// these looked through all processes of the machine again and again, that took
/// half a minute, and for most the end was not confirmed in its time.
#[tokio::test]
async fn two_hundred_trees_that_ignore_signals_are_ended_at_once() {
    const TREES: usize = 200;
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let session = toolsrv.first().await;
    let ids: Vec<_> = (0..TREES).map(|n| format!("tree{n}")).collect();
    for id in &ids {
        let code = format!("trap '' TERM; : > {id}; while :; do sleep 4242; done");
        let mut call = shell_call(id, &code);
        call.grace_ms = Some(100);
        session.start(&call).await.unwrap();
    }
    let ready = || ids.iter().all(|id| world.project().join(id).exists());
    assert!(await_that(Duration::from_secs(60), ready));
    let started = Instant::now();
    let orders: Vec<_> = ids.iter().map(|id| session.control(id, "end")).collect();
    for order in orders {
        order.await.unwrap();
    }
    let mut confirmed = 0;
    for id in &ids {
        let result = session
            .wait(&CallId::new(id.as_str()).unwrap())
            .await
            .unwrap();
        confirmed += usize::from(result.tree_ended);
    }
    let took = started.elapsed();
    assert_eq!(confirmed, TREES);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// Such a process is shown as a zombie and is none.
#[test]
fn a_process_whose_first_thread_has_ended_is_ended() {
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
    else {
        return gap("a process whose first thread has ended", "needs python3");
    };
    let world = World::ordinary();
    let code = "
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    t = threading.Thread(target=time.sleep, args=(4242,))
    t.start()
    os.write(1, b'ready\\n')
    ctypes.CDLL(None).pthread_exit(None)
time.sleep(4242)
";
    let running = world.ollie(["exec", "--", python, "-c", code]).spawn();
    running.await_stdout("ready");
    let headless = || world.processes().iter().any(|process| process.state == 'Z');
    assert!(ollie_tests::await_that(Duration::from_secs(5), headless));
    running.ctrl_c();
    let _ = running.finish().has_status(130);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
