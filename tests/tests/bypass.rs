//! A call leaves the sandbox if the person approves of exactly this one, and
//! is not started otherwise.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not known as tests to clippy"
)]

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ollie_client::{Call, CallEvent, Error, ToolsrvConn};
use ollie_protocol::auth::OWNER;
use ollie_protocol::{
    Ask, CallId, CallState, Enforced, FailureKind, Octets, Ruling, ToolCall, ToolResult,
};
use ollie_tests::{Toolsrv, World, shell_call};

/// Longer than anything here takes that is not a mistake.
const LIMIT: Duration = Duration::from_secs(30);

/// A shell line that asks.
fn asking(id: &str, code: &str) -> ToolCall {
    let mut call = shell_call(id, code);
    call.bypass = Some("the test wants it".to_owned());
    call
}

/// The question of a call.
async fn question(running: &mut Call) -> Ask {
    match running.next().await.unwrap() {
        Some(CallEvent::Ask(ask)) => *ask,
        other => panic!("no question: {other:?}"),
    }
}

async fn result(mut running: Call) -> ToolResult {
    while let Some(event) = running.next().await.unwrap() {
        if let CallEvent::Result(result) = event {
            return *result;
        }
    }
    panic!("no result")
}

fn ruling(ask: &Ask, approve: bool) -> Ruling {
    Ruling {
        id: ask.call.id.clone(),
        digest: ask.digest.clone(),
        approve,
    }
}

/// A line that asks, for another directory than the session's.
fn asking_in(id: &str, cwd: &str, code: &str) -> ToolCall {
    let mut call = asking(id, code);
    call.args.insert("cwd".to_owned(), cwd.into());
    call
}

fn octets(path: &Path) -> Octets {
    path.as_os_str().as_bytes().to_vec().into()
}

/// `build` in the project and a directory outside of it, with a file in each.
fn two_directories(world: &World) -> [PathBuf; 2] {
    [
        world.project().join("build"),
        world.outside().join("precious"),
    ]
    .map(|directory| {
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), "").unwrap();
        directory.canonicalize().unwrap()
    })
}

#[track_caller]
fn another_directory(result: &ToolResult) {
    let failure = result.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::WorkingDirectory, "{failure:?}");
    assert!(failure.message.contains("another one"), "{failure:?}");
    assert!(result.exit.is_none() && result.tree_ended, "{result:?}");
}

#[track_caller]
fn refused(answer: Result<(), Error>, says: &str) {
    match answer {
        Err(Error::Refused(reason)) => assert!(reason.contains(says), "{reason}"),
        other => panic!("{other:?}"),
    }
}

async fn state(conn: &ToolsrvConn, id: &str) -> CallState {
    conn.status(&CallId::new(id).unwrap()).await.unwrap().state
}

#[tokio::test]
async fn an_approved_call_runs_outside_and_the_next_one_inside_again() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let file = world.outside().join("made");
    let code = format!("echo made > '{}'", file.display());
    // The kernel's own word.
    let confined = result(conn.call(&shell_call("in", &code)).unwrap()).await;
    assert!(!confined.ok && !file.exists(), "{confined:?}");
    assert_ne!(confined.sandbox.enforced, Enforced::None);

    let mut running = conn.call(&asking("out", &code)).unwrap();
    let ask = question(&mut running).await;
    assert_eq!(state(&conn, "out").await, CallState::Asking);
    assert!(!file.exists());
    conn.rule(&ruling(&ask, true)).await.unwrap();
    let made = result(running).await;
    assert!(made.ok && made.tree_ended, "{made:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "made\n");
    assert!(made.sandbox.approved);
    assert_eq!(made.sandbox.enforced, Enforced::None);
    assert_eq!(conn.asked(&ask.call.id).await.unwrap().left_ms, 0);

    std::fs::remove_file(&file).unwrap();
    let again = result(conn.call(&shell_call("in2", &code)).unwrap()).await;
    assert!(!again.ok && !file.exists(), "{again:?}");
    assert!(!again.sandbox.approved);
    assert_ne!(again.sandbox.enforced, Enforced::None);

    // Time and tree are watched over as those of any other call.
    let mut long = asking("long", "sleep 1000 & setsid sleep 1000 & wait");
    long.timeout_ms = Some(300);
    let mut running = conn.call(&long).unwrap();
    let ask = question(&mut running).await;
    conn.rule(&ruling(&ask, true)).await.unwrap();
    let ended = tokio::time::timeout(LIMIT, result(running)).await.unwrap();
    assert!(ended.timed_out && ended.tree_ended, "{ended:?}");
}

#[tokio::test]
async fn what_is_shown_is_whole_and_has_names_of_variables_but_no_values() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let below = world.project().join("below");
    std::fs::create_dir(&below).unwrap();
    let mut call = asking("c", "cat");
    call.args.insert("stdin".to_owned(), "read me".into());
    call.args.insert("cwd".to_owned(), "below".into());
    call.env.insert("TOKEN".to_owned(), "hunter2".into());
    let mut running = conn.call(&call).unwrap();
    let ask = question(&mut running).await;
    assert_eq!(ask.call.reason, "the test wants it");
    assert_eq!(ask.call.argv, ["sh", "-c", "cat"].map(Octets::from));
    assert_eq!(ask.call.cwd, octets(&below));
    assert_eq!(ask.call.stdin.as_deref(), Some("read me"));
    assert_eq!(ask.call.set, ["TOKEN"]);
    for name in ["TOKEN", "PATH", "PWD"] {
        assert!(ask.call.env.contains(&name.into()), "{name}: {ask:?}");
    }
    assert!((1..=60_000).contains(&ask.left_ms), "{ask:?}");
    // Another implementation of SHA-256, over the bytes as they are in the file.
    let file = conn.read_file("proc/c/ask").await.unwrap();
    let text = String::from_utf8(file.to_vec()).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let at = text.find("\"call\":").unwrap() + "\"call\":".len();
    let shown = text[at..].trim_end().strip_suffix('}').unwrap();
    let sum = world
        .command("sh")
        .args(["-c", "printf %s \"$SHOWN\" | sha256sum"])
        .env("SHOWN", shown)
        .run()
        .ok();
    assert_eq!(sum.split(' ').next(), Some(ask.digest.as_str()));
}

/// An agent's token is what a tool could get hold of at most.
#[tokio::test]
async fn only_the_persons_side_rules_and_only_about_what_was_shown() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let _first = toolsrv.first().await;
    let agent = toolsrv.dial("a").await.unwrap();
    let owner = toolsrv.dial(OWNER).await.unwrap();
    let file = world.outside().join("made");
    let code = format!("touch '{}'", file.display());
    let mut running = agent.call(&asking("c", &code)).unwrap();
    let ask = question(&mut running).await;
    // Reading is for everybody.
    assert_eq!(agent.asked(&ask.call.id).await.unwrap().call, ask.call);
    refused(agent.rule(&ruling(&ask, true)).await, "person's side");

    let other = agent.call(&asking("d", "true")).unwrap();
    while owner.asked(&CallId::new("d").unwrap()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let theirs = owner.asked(&CallId::new("d").unwrap()).await.unwrap();
    for (wrong, why) in [
        (
            Ruling {
                digest: theirs.digest.clone(),
                ..ruling(&ask, true)
            },
            "another's digest",
        ),
        (
            Ruling {
                digest: String::new(),
                ..ruling(&ask, true)
            },
            "no digest",
        ),
        (
            Ruling {
                digest: ask.digest.to_uppercase(),
                ..ruling(&ask, true)
            },
            "another digest",
        ),
    ] {
        let answer = owner.rule(&wrong).await;
        assert!(
            matches!(answer, Err(Error::Refused(_))),
            "{why}: {answer:?}"
        );
    }
    // The client writes to the file of the call it names; here it does not.
    let (handle, walking) = owner.walk(&["proc", "c", "ask"]);
    walking.await.unwrap();
    handle.open(ninep_rs::OpenMode::WRITE).await.unwrap();
    let wrong = handle
        .write(0, ruling(&theirs, true).to_string())
        .await
        .unwrap_err()
        .to_string();
    assert!(wrong.contains("approve ID DIGEST"), "{wrong}");
    for junk in [&b"approve"[..], b"approve c", b"yes", b""] {
        assert!(handle.write(0, junk.to_vec()).await.is_err());
    }
    assert_eq!(state(&owner, "c").await, CallState::Asking);

    owner.rule(&ruling(&ask, false)).await.unwrap();
    let denied = result(running).await;
    assert_eq!(denied.failure.unwrap().kind, FailureKind::Denied);
    assert!(!denied.ok && denied.tree_ended && denied.exit.is_none());
    assert!(!denied.sandbox.approved);
    refused(owner.rule(&ruling(&ask, true)).await, "decided already");
    // The other one was not touched.
    assert_eq!(state(&owner, "d").await, CallState::Asking);
    drop(other);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_question_ends_with_its_call_and_leaves_the_others() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let touch = |name: &str| format!("touch '{}'", world.outside().join(name).display());
    let mut running = Vec::new();
    let mut asks = Vec::new();
    for id in ["ended", "killed", "clunked", "approved"] {
        let mut call = conn.call(&asking(id, &touch(id))).unwrap();
        asks.push(question(&mut call).await);
        running.push(call);
    }
    let (approved, clunked) = (running.pop().unwrap(), running.pop().unwrap());
    for (id, word) in [("killed", "kill"), ("ended", "end")] {
        conn.control(id, word).await.unwrap();
        let ended = result(running.pop().unwrap()).await;
        assert!(ended.cancelled && ended.exit.is_none(), "{ended:?}");
    }
    drop(clunked);
    let id = CallId::new("clunked").unwrap();
    let ended = tokio::time::timeout(LIMIT, conn.wait(&id)).await.unwrap();
    assert!(ended.unwrap().cancelled);
    for ask in asks.iter().take(3) {
        refused(conn.rule(&ruling(ask, true)).await, "decided already");
    }
    conn.rule(&ruling(&asks[3], true)).await.unwrap();
    assert!(result(approved).await.ok);
    let made: Vec<_> = std::fs::read_dir(world.outside())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(made, ["approved"]);
    // The end of the session ends questions, too.
    let mut last = conn.call(&asking("last", &touch("last"))).unwrap();
    question(&mut last).await;
    conn.shut_down().await.unwrap();
    drop((last, conn));
    toolsrv.ended();
    assert!(!world.outside().join("last").exists());
}

#[tokio::test]
async fn without_an_answer_it_is_denied_after_a_minute_and_holds_nobody_up() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let file = world.outside().join("made");
    let mut call = asking("c", &format!("touch '{}'", file.display()));
    call.queue = true;
    let began = Instant::now();
    let mut running = conn.call(&call).unwrap();
    let ask = question(&mut running).await;
    // One that writes, and would wait for its turn.
    let mut beside = shell_call("beside", "echo here");
    beside.queue = true;
    let beside = result(conn.call(&beside).unwrap());
    let beside = tokio::time::timeout(LIMIT, beside).await.unwrap();
    assert_eq!(beside.content, "here\n");
    let denied = result(running).await;
    let waited = began.elapsed();
    assert_eq!(denied.failure.unwrap().kind, FailureKind::Denied);
    let minute = Duration::from_secs(60);
    assert!((minute..minute + LIMIT).contains(&waited), "{waited:?}");
    refused(conn.rule(&ruling(&ask, true)).await, "time is up");
    assert!(!file.exists());
}

#[tokio::test]
async fn what_a_person_could_not_judge_is_not_asked() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let mut input = asking("input", "sh");
    input.stdin = true;
    let long = asking("long", &format!("true {}", "x".repeat(40_000)));
    let mut pwd = asking("pwd", "true");
    pwd.env.insert("PWD".to_owned(), "/".into());
    let mut read = asking("read", "");
    read.tool = "file_read".to_owned();
    read.args = serde_json::from_str(r#"{"path":"/etc/passwd"}"#).unwrap();
    let mut start = asking("start", "true");
    start.tool = "proc_start".to_owned();
    let reason = |id, reason: &str| ToolCall {
        bypass: Some(reason.to_owned()),
        ..shell_call(id, "true")
    };
    for (call, says) in [
        (input, "argument stdin"),
        (long, "32 KiB"),
        (pwd, "PWD"),
        (read, "shell alone"),
        (start, "shell alone"),
        (reason("empty", ""), "bypass"),
        (reason("control", "a\u{1b}[2Jb"), "bypass"),
        (reason("lines", "a\nb"), "bypass"),
        (reason("much", &"x".repeat(1025)), "bypass"),
    ] {
        let answer = conn.call(&call).unwrap().next().await;
        let Err(Error::Refused(reason)) = answer else {
            panic!("{}: {answer:?}", call.id);
        };
        assert!(reason.contains(says), "{}: {reason}", call.id);
    }
}

#[tokio::test]
async fn without_a_sandbox_there_is_nothing_to_ask_for() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start_unconfined(&world);
    let conn = toolsrv.first().await;
    let ran = result(conn.call(&asking("c", "echo here")).unwrap()).await;
    assert_eq!(ran.content, "here\n");
    assert!(!ran.sandbox.approved);
    assert_eq!(ran.sandbox.enforced, Enforced::None);
    assert!(conn.asked(&CallId::new("c").unwrap()).await.is_err());
}

/// Connects to the socket, and says whether anything comes back.
const KNOCK: &str = r#"
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
try:
    s.connect(sys.argv[1])
    s.send(struct.pack('<IBHIH', 19, 100, 0xffff, 8192, 6) + b'9P2000')
    print('answered' if s.recv(64) else 'closed')
except OSError as error:
    print('refused', error.errno)
"#;

#[tokio::test]
async fn a_tool_cannot_answer_its_own_question() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let mut waits = conn.call(&asking("waits", "true")).unwrap();
    question(&mut waits).await;
    let socket = toolsrv.socket.display().to_string();
    let knock = |call: &mut ToolCall| {
        call.args.remove("code");
        let argv = ["python3", "-c", KNOCK, &socket].map(serde_json::Value::from);
        call.args.insert("argv".to_owned(), argv.to_vec().into());
    };
    // It is there, and answers who may come.
    let who = world.command("python3").args(["-c", KNOCK, &socket]).run();
    assert_eq!(who.ok(), "answered\n");
    let mut inside = shell_call("inside", "");
    knock(&mut inside);
    let inside = result(conn.call(&inside).unwrap()).await;
    assert!(!inside.content.contains("answered"), "{inside:?}");
    assert!(inside.content.starts_with("refused"), "{inside:?}");
    // Nor can one that was let out, as long as it is known where it comes from.
    let mut outside = asking("outside", "");
    knock(&mut outside);
    let mut running = conn.call(&outside).unwrap();
    let ask = question(&mut running).await;
    conn.rule(&ruling(&ask, true)).await.unwrap();
    let outside = result(running).await;
    assert!(!outside.content.contains("answered"), "{outside:?}");
    let door = conn.read_file("door").await.unwrap();
    let door = String::from_utf8_lossy(&door).into_owned();
    assert!(door.contains("own-tool"), "{door}");
    assert_eq!(state(&conn, "waits").await, CallState::Asking);
}

#[tokio::test]
async fn the_directory_is_shown_by_its_own_name_and_that_one_is_entered() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let [build, precious] = two_directories(&world);
    let link = world.project().join("link");
    symlink(&build, &link).unwrap();
    symlink(&precious, world.project().join("away")).unwrap();

    // A link that is swapped while the person reads. The command is too long
    // for one message to the companion.
    let code = format!(
        "rm -rf ./*; printf '%s ' \"$PWD\"; pwd -P #{}",
        "x".repeat(20_000)
    );
    let mut running = conn.call(&asking_in("link", "link", &code)).unwrap();
    let ask = question(&mut running).await;
    assert_eq!(ask.call.cwd, octets(&build));
    let swap = format!("ln -sfn '{}' link", precious.display());
    assert!(
        result(conn.call(&shell_call("swap", &swap)).unwrap())
            .await
            .ok
    );
    assert_eq!(link.canonicalize().unwrap(), precious);
    conn.rule(&ruling(&ask, true)).await.unwrap();
    let ran = result(running).await;
    let build_shown = build.display();
    assert_eq!(ran.content, format!("{build_shown} {build_shown}\n"));
    assert!(precious.join("file").exists() && !build.join("file").exists());

    // Up from where a link leads to is not back to where it lies.
    let mut running = conn.call(&asking_in("up", "away/..", "pwd -P")).unwrap();
    let ask = question(&mut running).await;
    let up = precious.parent().unwrap();
    assert_eq!(ask.call.cwd, octets(up));
    assert!(ask.call.env.contains(&"PWD".into()));
    conn.rule(&ruling(&ask, true)).await.unwrap();
    assert_eq!(result(running).await.content, format!("{}\n", up.display()));
}

#[tokio::test]
async fn a_directory_that_was_replaced_is_not_entered() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let [build, precious] = two_directories(&world);
    let old = world.project().join("old");
    let link = format!("mv build old && ln -s '{}' build", precious.display());
    let back = || {
        let _ = std::fs::remove_file(&build).or_else(|_| std::fs::remove_dir(&build));
        std::fs::rename(&old, &build).unwrap();
    };
    // Through a link that leads to the same directory it is not the name that
    // was shown either: what is beside it is not the same.
    for (id, swap) in [
        ("link", link.as_str()),
        ("fresh", "mv build old && mkdir build"),
        ("moved", "mv build old && ln -s old build"),
    ] {
        let mut running = conn.call(&asking_in(id, "build", "rm -rf ./*")).unwrap();
        let ask = question(&mut running).await;
        let by = shell_call(&format!("{id}-by"), swap);
        assert!(result(conn.call(&by).unwrap()).await.ok);
        conn.rule(&ruling(&ask, true)).await.unwrap();
        another_directory(&result(running).await);
        assert!(precious.join("file").exists() && old.join("file").exists());
        back();
    }

    // After the answer, as long as it waits for its turn.
    let mut holder = shell_call("holder", "while [ ! -e go ]; do sleep 0.02; done");
    holder.queue = true;
    let holder = conn.call(&holder).unwrap();
    let id = CallId::new("holder").unwrap();
    let runs = async || {
        conn.status(&id)
            .await
            .is_ok_and(|it| it.state == CallState::Running)
    };
    while !runs().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut late = asking_in("late", "build", "rm -rf ./*");
    late.queue = true;
    let mut running = conn.call(&late).unwrap();
    let ask = question(&mut running).await;
    conn.rule(&ruling(&ask, true)).await.unwrap();
    assert_eq!(state(&conn, "late").await, CallState::Queued);
    std::fs::rename(&build, &old).unwrap();
    symlink(&precious, &build).unwrap();
    std::fs::write(world.project().join("go"), "").unwrap();
    assert!(result(holder).await.ok);
    another_directory(&result(running).await);
    assert!(precious.join("file").exists() && old.join("file").exists());
    back();

    // Removed.
    let mut running = conn.call(&asking_in("gone", "build", "true")).unwrap();
    let ask = question(&mut running).await;
    std::fs::remove_dir_all(&build).unwrap();
    conn.rule(&ruling(&ask, true)).await.unwrap();
    another_directory(&result(running).await);
}

/// At any moment, those between the answer and the start among them.
#[tokio::test]
async fn however_it_is_swapped_no_other_directory_than_the_one_shown_is_written_to() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let [build, precious] = two_directories(&world);
    let old = world.project().join("old");
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (build, precious, stop) = (build.clone(), precious.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&build, &old).unwrap();
                symlink(&precious, &build).unwrap();
                std::thread::sleep(Duration::from_micros(200));
                std::fs::remove_file(&build).unwrap();
                std::fs::rename(&old, &build).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        })
    };
    let (mut ran, mut not) = (0, 0);
    for number in 0..200 {
        let call = asking_in(&format!("c{number}"), "build", "touch ./made");
        let mut running = conn.call(&call).unwrap();
        // There is a moment without any.
        let Some(CallEvent::Ask(ask)) = running.next().await.unwrap() else {
            continue;
        };
        let approve = ask.call.cwd == octets(&build);
        conn.rule(&ruling(&ask, approve)).await.unwrap();
        match result(running).await.ok {
            true => ran += 1,
            false if approve => not += 1,
            false => {}
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(!precious.join("made").exists());
    assert!(build.join("made").exists());
    // Both were met.
    assert!(ran > 0 && not > 0, "{ran} ran, {not} did not");
}

#[tokio::test]
async fn nobody_is_asked_about_a_directory_that_cannot_be_entered() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let project = world.project();
    std::fs::write(project.join("file"), "").unwrap();
    symlink("loop", project.join("loop")).unwrap();
    let locked = project.join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o600)).unwrap();
    // Root enters everything.
    let closed = std::fs::metadata(locked.join(".")).is_err();
    let made = world.outside().join("made");
    let code = format!("touch '{}'", made.display());
    for name in ["none", "file", "loop", "locked"] {
        if name == "locked" && !closed {
            continue;
        }
        let mut running = conn.call(&asking_in(name, name, &code)).unwrap();
        let Some(CallEvent::Result(ended)) = running.next().await.unwrap() else {
            panic!("{name}: the first event is no result");
        };
        let failure = ended.failure.unwrap();
        assert_eq!(failure.kind, FailureKind::WorkingDirectory, "{failure:?}");
        assert!(failure.message.contains(name), "{failure:?}");
        assert!(ended.tree_ended && ended.exit.is_none());
        assert!(conn.asked(&CallId::new(name).unwrap()).await.is_err());
    }
    assert!(!made.exists());
}
