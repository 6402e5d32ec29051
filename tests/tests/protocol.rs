//! Calls that do not need their reader: in the background, after a dropped
//! connection, and their logs.

use std::time::{Duration, Instant};

use ninep_rs::{Fid, Rmessage, Tmessage};
use ollie_client::{Error, Fate, ToolsrvConn};
use ollie_protocol::{CallId, CallState, Exit};
use ollie_tests::{Peer, Toolsrv, World, shell_call, write};

fn id(name: &str) -> CallId {
    CallId::new(name).expect("it is a call id")
}

/// A toolsrv whose exec channel stays open, and a connection to its socket.
async fn session(world: &World) -> (Toolsrv, ToolsrvConn, ToolsrvConn) {
    let mut toolsrv = Toolsrv::start(world);
    let first = toolsrv.first().await;
    let other = toolsrv.dial("other").await.expect("a second connection");
    (toolsrv, first, other)
}

#[tokio::test]
async fn a_background_call_goes_on_when_its_connection_is_gone() {
    let world = Toolsrv::world();
    let (toolsrv, first, other) = session(&world).await;
    // More than any pipe or log holds: it would stop if nobody read it.
    let code = "echo begun; while [ ! -e go ]; do sleep 0.01; done; \
                head -c 3000000 /dev/zero; echo end >&2; exit 3";
    other.start(&shell_call("bg", code)).await.unwrap();
    let listed = first.calls().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].background && listed[0].exit.is_none());
    assert_ne!(listed[0].state, CallState::Finished);
    drop(other);

    // Its end is not awaited before the connection is known to be gone.
    let again = toolsrv.dial("again").await.unwrap();
    world.write("home/project/go", "");
    let result = again.wait(&id("bg")).await.unwrap();
    assert_eq!(result.exit, Some(Exit::Code(3)));
    assert!(!result.cancelled && result.tree_ended);
    assert_eq!(result.truncation.unwrap().total, 3_000_010);
    let line = &again.calls().await.unwrap()[0];
    assert_eq!(line.state, CallState::Finished);
    assert_eq!(line.exit, Some(Exit::Code(3)));
    assert_eq!(line.pid, None);
    let stderr = again.log(&id("bg"), "stderr", 0).await.unwrap();
    assert_eq!(stderr, "end\n");
}

#[tokio::test]
async fn a_background_call_is_fed_and_ended_through_its_files() {
    let world = Toolsrv::world();
    let (_toolsrv, first, _other) = session(&world).await;
    let mut call = shell_call("fed", "read line; echo got $line; exec sleep 4242");
    call.stdin = true;
    first.start(&call).await.unwrap();
    let stdin = first.read_file("proc/fed/stdin").await;
    assert!(matches!(stdin, Err(Error::Refused(_))), "it is write-only");
    first.feed(&id("fed"), "hello\n").await.unwrap();
    let log = first.log_piece(&id("fed"), "stdout", 0).await.unwrap();
    assert_eq!(log, "got hello\n");
    first.control("fed", "term").await.unwrap();
    let result = first.wait(&id("fed")).await.unwrap();
    assert_eq!(result.exit, Some(Exit::Signal(15)));
    // Words to a call that has ended change nothing.
    for word in ["int", "term", "end", "kill", "eof"] {
        first.control("fed", word).await.unwrap();
    }
    assert_eq!(first.wait(&id("fed")).await.unwrap(), result);
    let refused = first.control("fed", "hup").await;
    assert!(matches!(refused, Err(Error::Refused(text)) if text.contains("int, term, end")));
}

#[tokio::test]
async fn after_a_dropped_connection_another_learns_what_became_of_a_call() {
    let world = Toolsrv::world();
    let (toolsrv, first, other) = session(&world).await;
    // Ended before the drop, by itself.
    let mut call = other.call(&shell_call("done", "echo yes")).unwrap();
    while call.next().await.unwrap().is_some() {}
    // Running at the drop: it is cancelled.
    let mut running = other
        .call(&shell_call("cut", "echo begun; exec sleep 4242"))
        .unwrap();
    running.next().await.unwrap();
    let Fate::Running(status) = first.fate(&id("cut")).await.unwrap() else {
        panic!("it runs");
    };
    assert_eq!(status.state, CallState::Running);
    drop((running, call, other));

    let again = toolsrv.dial("again").await.unwrap();
    let Fate::Finished(result) = again.fate(&id("done")).await.unwrap() else {
        panic!("it has finished");
    };
    assert_eq!((result.content.as_str(), result.ok), ("yes\n", true));
    let result = again.wait(&id("cut")).await.unwrap();
    assert!(result.cancelled && result.tree_ended);
    let fate = again.fate(&id("cut")).await.unwrap();
    assert!(matches!(fate, Fate::Finished(same) if *same == result));

    // Never started, and after this answer it never will be.
    assert_eq!(again.fate(&id("late")).await.unwrap(), Fate::NeverStarted);
    let refused = again.start(&shell_call("late", "touch started")).await;
    assert!(matches!(refused, Err(Error::Refused(_))));
    assert!(!world.project().join("started").exists());
}

#[tokio::test]
async fn an_id_is_never_started_twice_not_even_when_it_is_forgotten() {
    let world = Toolsrv::world();
    let (_toolsrv, first, _other) = session(&world).await;
    let once = shell_call("once", "echo x >>count");
    first.start(&once).await.unwrap();
    first.wait(&id("once")).await.unwrap();
    for number in 0..70 {
        let name = format!("c{number}");
        first.start(&shell_call(&name, "true")).await.unwrap();
        first.wait(&id(&name)).await.unwrap();
    }
    // 64 finished calls are kept, the first is not among them.
    assert!(first.status(&id("once")).await.is_err());
    assert_eq!(first.fate(&id("once")).await.unwrap(), Fate::Forgotten);
    assert!(first.start(&once).await.is_err());
    let mut events = first.call(&once).unwrap();
    assert!(
        matches!(events.next().await, Err(Error::Refused(text)) if text.contains("used before"))
    );
    let count = std::fs::read_to_string(world.project().join("count")).unwrap();
    assert_eq!(count, "x\n");
}

#[tokio::test]
async fn a_log_has_an_honest_length_and_says_what_it_dropped() {
    let world = Toolsrv::world();
    let (_toolsrv, first, _other) = session(&world).await;
    // 8 bytes a line; 1,600,000 in all.
    let code = "i=1000000; while [ $i -lt 1200000 ]; do echo $i; i=$((i+1)); done";
    first.start(&shell_call("long", code)).await.unwrap();
    first.wait(&id("long")).await.unwrap();
    let status = first.status(&id("long")).await.unwrap();
    let log = status.logs.unwrap().stdout;
    assert_eq!(log.total, 1_600_000);
    let [from, to] = log.dropped.unwrap();
    assert_eq!(
        first.log_length(&id("long"), "stdout").await.unwrap(),
        log.total
    );

    let text = first.log(&id("long"), "stdout", 0).await.unwrap();
    let expected: String = (1_000_000..1_200_000).map(|i| format!("{i}\n")).collect();
    let marker = format!("\n[... {} bytes are not kept ...]\n", to - from);
    let (from, to) = (from as usize, to as usize);
    let shown = [&expected[..from], &marker, &expected[to..]].concat();
    assert!(text == shown.as_bytes());
    // Behind the gap the stream's own offsets hold.
    let end = first.log(&id("long"), "stdout", 1_599_992).await.unwrap();
    assert_eq!(end, "1199999\n");
    let past = first.log(&id("long"), "stdout", 9_000_000).await.unwrap();
    assert!(past.is_empty());
}

#[tokio::test]
async fn a_session_ends_within_a_second_of_its_channel() {
    let world = Toolsrv::world();
    let (mut toolsrv, first, other) = session(&world).await;
    first
        .start(&shell_call("bg", "setsid sleep 4242 & exec sleep 4242"))
        .await
        .unwrap();
    let mut running = other.call(&shell_call("fg", "exec sleep 4242")).unwrap();
    running.next().await.unwrap();
    assert!(!world.leftovers().is_empty());
    let closed = Instant::now();
    drop(first);
    tokio::task::spawn_blocking(move || toolsrv.ended())
        .await
        .unwrap();
    let took = closed.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// A limit that is passed over because it is misspelt, or is another client's,
/// would be none.
#[tokio::test]
async fn a_field_that_a_call_does_not_have_is_refused_and_nothing_starts() {
    let world = Toolsrv::world();
    let (toolsrv, first, _other) = session(&world).await;
    let mut peer = Peer::attached(&toolsrv).await;
    for (fid, field) in (1..).zip(["size", "bypas", "timeoutms"]) {
        peer.open(fid, "proc/new", 2).await;
        let mut call = serde_json::to_value(shell_call("c1", "echo out")).unwrap();
        call[field] = 1.into();
        peer.send(&[(7, write(fid, call.to_string().as_bytes()))])
            .await;
        let (_, Rmessage::Error { ename }) = peer.next().await else {
            panic!("{field} is taken");
        };
        assert!(
            ename.contains(&format!("unknown field `{field}`")),
            "{ename}"
        );
    }
    assert_eq!(first.calls().await.unwrap(), []);
    // Its id is as good as before.
    let mut running = first.call(&shell_call("c1", "exit 3")).unwrap();
    while running.next().await.unwrap().is_some() {}
    assert_eq!(
        first.wait(&id("c1")).await.unwrap().exit,
        Some(Exit::Code(3))
    );
}

/// "Two files on the same server hierarchy are the same if and only if their
/// qids are the same" (intro(5)).
#[tokio::test]
async fn every_file_has_a_qid_of_its_own() {
    let world = Toolsrv::world();
    let (toolsrv, first, _other) = session(&world).await;
    first.start(&shell_call("c1", "exit")).await.unwrap();
    let mut peer = Peer::attached(&toolsrv).await;
    let mut seen = std::collections::HashMap::new();
    for (fid, path) in (1..).zip([
        "version",
        "host",
        "policy",
        "project",
        "why",
        "door",
        "status",
        "ctl",
        "tools",
        "tools/index",
        "tools/ctl",
        "tools/define",
        "tools/shell",
        "tools/shell/spec",
        "tools/shell/doc",
        "tools/shell/variant",
        "proc",
        "proc/new",
        "proc/new.bg",
        "proc/index",
        "proc/c1",
        "proc/c1/call",
        "proc/c1/status",
        "proc/c1/ctl",
        "proc/c1/stdin",
        "proc/c1/stdout",
        "proc/c1/stderr",
        "proc/c1/output",
        "proc/c1/wait",
    ]) {
        let names: Vec<_> = path.split('/').map(str::to_owned).collect();
        let count = names.len();
        let (fid, newfid) = (Fid(0), Fid(fid));
        let Rmessage::Walk { qids } = peer.ask(Tmessage::Walk { fid, newfid, names }).await else {
            panic!("no walk to {path}");
        };
        assert_eq!(qids.len(), count, "{path}");
        let other = seen.insert(qids[count - 1].path, path);
        assert_eq!(other, None, "{path}");
    }
}
