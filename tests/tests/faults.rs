//! Whoever is killed, whenever: nothing is left. However many calls there
//! were: nothing has grown.

use std::time::{Duration, Instant};

use ollie_client::ToolsrvConn;
use ollie_tests::{Dice, Process, Toolsrv, Tree, World, await_that, gap, shell_call};

/// Random moments in all.
const MOMENTS: u32 = 50;
/// Worlds beside each other.
const LANES: u32 = 5;

/// A call of about a quarter of a second that begins with processes which
/// leave their group, their session and their parent, then says something, and
/// ends by itself: so each of its states is met.
const COMMAND: &str = "setsid sleep 4242 & (sleep 4242 &) ; head -c 200000 /dev/zero; i=0; \
                       while [ $i -lt 10 ]; do echo $i; sleep 0.01; i=$((i+1)); done";

/// The processes of a session that are there now, from olliesrv downwards.
fn session(olliesrv: u32) -> Vec<u32> {
    let all = Process::all();
    let is_toolsrv = |process: &&Process| {
        let program = process.cmdline.split(|&byte| byte == 0).next();
        program.is_some_and(|program| program.ends_with(b"toolsrv"))
    };
    let mut found = vec![olliesrv];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let children = all.iter().filter(|process| process.parent == parent);
        found.extend(children.filter(is_toolsrv).map(|process| process.pid));
        at += 1;
    }
    found
}

fn lane(lane: u32, seed: u64) {
    let world = Toolsrv::world();
    // The first start installs toolsrv; the others are those that count.
    let _ = world.shell("true").run().ok();
    let mut dice = Dice::new(seed + (u64::from(lane) << 32));
    for _ in 0..MOMENTS / LANES {
        let moment = Duration::from_millis(dice.below(300) as u64);
        let running = world.shell(COMMAND).spawn();
        std::thread::sleep(moment);
        let processes = session(running.pid());
        let victim = processes[dice.below(5).min(processes.len() - 1)];
        Tree::kill(victim);
        let end = running.finish();
        let left_at = Instant::now();
        let gone = await_that(Duration::from_secs(10), || world.leftovers().is_empty());
        assert!(
            gone,
            "seed {seed}, lane {lane}: {victim} of {processes:?} was killed after {moment:?}, left \
             {:?} later: {:#?}\n{end}",
            left_at.elapsed(),
            world.leftovers()
        );
    }
}

#[test]
fn whoever_is_killed_at_whatever_moment_nothing_is_left() {
    let seed = std::env::var("OLLIE_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_261_201);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|number| scope.spawn(move || lane(number, seed)))
            .collect();
        for lane in lanes {
            if let Err(panic) = lane.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// What may grow.
#[derive(Debug)]
struct Size {
    processes: usize,
    /// Descriptors of server and companion.
    fds: [Option<usize>; 2],
    /// Resident bytes of server and companion.
    memory: [u64; 2],
}

impl Size {
    fn of(world: &World, toolsrv: &Toolsrv) -> Self {
        let processes = world.processes();
        let companion = processes
            .iter()
            .find(|process| process.parent == toolsrv.pid)
            .expect("there is a companion")
            .pid;
        let pids = [toolsrv.pid, companion];
        Self {
            processes: processes.len(),
            fds: pids.map(|pid| Some(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())),
            memory: pids.map(resident),
        }
    }
}

/// The second field of /proc/PID/statm, in pages (proc(5)).
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("it lives");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|field| field.parse().ok())
        .expect("statm has a second field");
    pages * 4096
}

async fn calls(conn: &ToolsrvConn, name: &str, count: u32) {
    // Three at a time, as an agent makes them.
    for group in 0..count.div_ceil(3) {
        let mut running = Vec::new();
        for member in 0..3 {
            let id = format!("{name}-{group}-{member}");
            let code = [
                "echo out; echo err >&2",
                "exit 3",
                "sleep 0 & cat /dev/null",
            ][member];
            running.push(conn.call(&shell_call(&id, code)).expect("it is JSON"));
        }
        for mut call in running {
            while call.next().await.expect("it runs").is_some() {}
        }
    }
}

/// A thousand, or ten thousand with OLLIE_FULL=1.
#[tokio::test]
async fn after_many_calls_everything_is_as_large_as_before() {
    let full = std::env::var("OLLIE_FULL").is_ok_and(|value| value == "1");
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    // Until as many finished calls are remembered as ever will be.
    calls(&conn, "warm", 150).await;
    let settled = || {
        // A supervisor ends a moment after its last word.
        await_that(Duration::from_secs(5), || world.processes().len() == 4);
        Size::of(&world, &toolsrv)
    };
    let before = settled();
    let count = if full { 10_000 } else { 1_000 };
    let begun = Instant::now();
    calls(&conn, "many", count).await;
    let each = begun.elapsed() / count;
    let after = settled();
    println!("{count} calls, {each:?} each: {before:?}, {after:?}");
    assert_eq!(
        before.processes, 4,
        "server, companion, and a supervisor that waits, with its child"
    );
    assert_eq!(after.processes, before.processes);
    if before.fds.contains(&None) {
        gap(
            "descriptors after many calls",
            "they are shown to root only",
        );
    }
    assert_eq!(after.fds, before.fds);
    assert!(after.fds[0].is_none_or(|fds| fds < 40), "{after:?}");
    for (before, after) in before.memory.iter().zip(after.memory) {
        // The ids of the last 4096 calls are kept, and pages come in fours.
        assert!(after <= before + (2 << 20), "{before} bytes, then {after}");
    }
}
