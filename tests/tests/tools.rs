//! Tools: which there are, what is checked before anything is started, how a
//! script gets its arguments, whose turn it is, and work in the background.

#![expect(clippy::unwrap_used, reason = "what a test cannot do is its failure")]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use ollie_client::{Error, Offer, Toolset};
use ollie_protocol::{CallId, CallState, Exit, ToolCall};
use ollie_tests::{Toolsrv, World, await_that, shell_call};
use serde_json::{Value, json};

const ECHO: &str = "#!/bin/sh\n\
    # description: Says what it was given.\n\
    # args: TEXT [WAIT]\n\
    # ollie:parallel read\n\
    cat; echo; echo \"env $OLLIE_ARG_TEXT\"\n\
    if [ -n \"$OLLIE_ARG_WAIT\" ]; then echo waiting; while [ ! -e \"$OLLIE_ARG_WAIT\" ]; do sleep 0.01; done; fi\n";

fn id(name: &str) -> CallId {
    CallId::new(name).unwrap()
}

fn call(name: &str, tool: &str, args: Value) -> ToolCall {
    let mut call = ToolCall::new(id(name), tool);
    let Value::Object(args) = args else {
        panic!("arguments are an object");
    };
    call.args = args;
    call
}

fn echo(world: &World) -> Toolset {
    world.write_program("home/.config/ollie/tools/echo.sh", ECHO);
    let directory = world.base().join("home/.config/ollie/tools");
    let found = ollie_catalogue::read(&directory, ollie_protocol::ToolOrigin::User).unwrap();
    let mut toolset = Toolset::default();
    for tool in found.tools {
        toolset.offer(Offer {
            spec: tool.spec,
            scripts: tool.scripts,
            problem: None,
        });
    }
    toolset
}

async fn text(conn: &ollie_client::ToolsrvConn, call: &ToolCall) -> (String, Option<Exit>) {
    let mut running = conn.call(call).unwrap();
    loop {
        if let Some(ollie_client::CallEvent::Result(result)) = running.next().await.unwrap() {
            return (result.content, result.exit);
        }
    }
}

#[test]
fn each_tool_is_listed_with_its_variant_and_why_and_a_model_is_told_of_those_that_run() {
    let world = World::ordinary();
    world.write(
        "home/.config/ollie/tools/never/tool.yaml",
        "name: never\ndescription: Cannot run.\nvariants:\n  - when: { command: no-such-program }\n    run: [no-such-program]\n",
    );
    world.write(
        "home/.config/ollie/tools/sometimes/tool.yaml",
        "name: sometimes\ndescription: Can run.\nvariants:\n  - when: { command: sh, min_version: \"999\" }\n    run: [sh]\n  - when: { os: linux, file: /bin/sh }\n    run: [sh]\n",
    );
    world.write(
        "home/.config/ollie/tools/broken/tool.yaml",
        "name: broken\nnane: x\n",
    );
    let end = world.ollie(["tools"]).run().has_status(0);
    let out = end.out();
    let line = |name: &str| {
        let found = out
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        found
            .unwrap_or_else(|| panic!("no {name} in {out}"))
            .to_owned()
    };
    assert!(line("shell").contains("standard"), "{out}");
    assert!(line("file_read").contains("built into toolsrv"), "{out}");
    assert!(
        line("never")
            .contains("not available: not no-such-program, no-such-program is not on PATH"),
        "{out}"
    );
    assert!(
        line("sometimes").contains("os is linux, /bin/sh is there"),
        "{out}"
    );
    let _ = end.says(&["broken", "tool.yaml:2:1: unknown key `nane`"]);

    let openai = world.ollie(["tools", "--openai"]).run().ok();
    let openai: Value = serde_json::from_str(&openai).unwrap();
    let names: Vec<_> = openai
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["function"]["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"sometimes") && !names.contains(&"never"),
        "{names:?}"
    );
}

#[test]
fn another_host_has_the_same_tools_and_runs_the_users_own() {
    let Some(world) = World::with_ssh("tools") else {
        return;
    };
    let devbox = world.devbox().start();
    let program = world.write("home/.config/ollie/tools/echo.sh", ECHO);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let names = |out: String| -> Vec<String> {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        out.lines().filter_map(first).collect()
    };
    let there = names(devbox.ollie(["tools", &devbox.target()]).run().ok());
    assert!(there.contains(&"echo".to_owned()), "{there:?}");
    assert_eq!(there, names(world.ollie(["tools"]).run().ok()));
    let said = devbox
        .ollie(["call", "--on", &devbox.target(), "echo", "text=there"])
        .run()
        .ok();
    assert!(said.ends_with("env there\n"), "{said}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_name_the_field_and_start_no_process() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    for (args, says) in [
        (json!({}), "shell: argument code: is missing"),
        (
            json!({"code": 5}),
            "shell: argument code: expected a string, found a number",
        ),
        (
            json!({"code": "touch made", "languag": "sh"}),
            "shell: argument languag: is not known",
        ),
        (
            json!({"code": "touch made", "language": "cobol"}),
            "shell: argument language: expected one of",
        ),
        (
            json!({"argv": ["touch", 5]}),
            "shell: argument argv[1]: expected a string",
        ),
    ] {
        let mut running = conn.call(&call("c1", "shell", args.clone())).unwrap();
        let error = running.next().await.unwrap_err();
        assert!(
            matches!(&error, Error::Refused(text) if text.contains(says)),
            "{args}: {error}"
        );
    }
    assert!(conn.calls().await.unwrap().is_empty());
    assert!(!world.project().join("made").exists());
    // Nothing was started, so the id is as good as new.
    let (said, _) = text(&conn, &call("c1", "shell", json!({"code": "echo ran"}))).await;
    assert_eq!(said, "ran\n");
}

#[tokio::test]
async fn a_script_gets_its_arguments_everywhere_but_on_its_command_line() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    assert!(echo(&world).apply(&conn).await.unwrap().is_empty());
    let secret = "se$(touch made)cret \"'";
    let args = json!({"text": secret, "wait": "go"});
    let mut running = conn.call(&call("c1", "echo", args.clone())).unwrap();
    let Some(ollie_client::CallEvent::Started { pid }) = running.next().await.unwrap() else {
        panic!("it is started");
    };
    let mut said = String::new();
    while !said.contains("waiting") {
        if let Some(ollie_client::CallEvent::Output { data, .. }) = running.next().await.unwrap() {
            said.push_str(&String::from_utf8_lossy(&data));
        }
    }
    let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let cmdline = String::from_utf8_lossy(&cmdline).into_owned();
    assert!(
        !cmdline.contains("cret") && !cmdline.contains("go"),
        "{cmdline:?}"
    );
    assert!(cmdline.contains("scripts/"), "{cmdline:?}");
    world.write("home/project/go", "");
    let (json, rest) = said.split_once('\n').unwrap();
    assert_eq!(serde_json::from_str::<Value>(json).unwrap(), args);
    assert!(rest.contains(&format!("env {secret}\n")), "{rest}");
    assert!(!world.project().join("made").exists());
}

/// A toolsrv that is started again knows nothing of what the last one was
/// told, except for the scripts, which it has kept.
#[tokio::test]
async fn what_a_session_wants_is_applied_to_the_next_toolsrv_as_well() {
    let world = Toolsrv::world();
    let mut toolset = echo(&world);
    toolset.set_loaded("file_write", false);
    for round in 0..2 {
        let mut toolsrv = Toolsrv::start(&world);
        let conn = toolsrv.first().await;
        if round == 1 {
            let known = conn.tools().await.unwrap();
            assert!(
                known
                    .iter()
                    .all(|tool| tool.spec.name != "echo" && tool.loaded)
            );
        }
        assert!(toolset.apply(&conn).await.unwrap().is_empty());
        let (said, _) = text(&conn, &call("c1", "echo", json!({"text": "a"}))).await;
        assert!(said.ends_with("env a\n"), "{said}");
        let write = json!({"path": "x", "content": ""});
        let refused = conn
            .call(&call("c2", "file_write", write))
            .unwrap()
            .next()
            .await;
        assert!(matches!(refused, Err(Error::Refused(text)) if text.contains("unloaded")));
        let other = toolsrv.dial("other").await.unwrap();
        let loaded =
            |tool: &ollie_protocol::ToolInfo| tool.spec.name == "file_write" && tool.loaded;
        assert!(other.tools().await.unwrap().iter().any(loaded));
    }
}

#[tokio::test]
async fn a_tool_can_change_neither_a_script_nor_toolsrv() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    assert!(echo(&world).apply(&conn).await.unwrap().is_empty());
    let (said, _) = text(&conn, &call("c1", "echo", json!({"text": "a"}))).await;
    assert!(said.ends_with("env a\n"));
    let scripts = world.base().join("home/.cache/ollie/scripts");
    let script = std::fs::read_dir(&scripts)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let before = std::fs::read(&script).unwrap();
    let code = format!(
        "echo x >> '{script}'; rm -f '{script}'; echo x > '{scripts}/new'; \
         rm -f '{program}'; exec '{program}' --version",
        script = script.display(),
        scripts = scripts.display(),
        program = Toolsrv::program(&world).display(),
    );
    let (said, _) = text(&conn, &call("c2", "shell", json!({ "code": code }))).await;
    assert!(said.contains("toolsrv 0."), "{said}");
    assert_eq!(said.matches("ermission denied").count(), 4, "{said}");
    assert_eq!(std::fs::read(&script).unwrap(), before);
    assert_eq!(std::fs::read_dir(&scripts).unwrap().count(), 1);
    // Whoever is not confined can, and then it is not run.
    std::fs::write(&script, "#!/bin/sh\necho evil\n").unwrap();
    let refused = conn
        .call(&call("c3", "echo", json!({"text": "a"})))
        .unwrap()
        .next()
        .await;
    assert!(matches!(refused, Err(Error::Refused(text)) if text.contains("was changed")));
}

#[tokio::test]
async fn reads_run_beside_each_other_and_a_write_alone_and_a_queue_can_be_left() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    assert!(echo(&world).apply(&conn).await.unwrap().is_empty());
    let wait = |name: &str| call(name, "echo", json!({"text": "a", "wait": "go"}));
    let mut one = conn.call(&wait("one")).unwrap();
    let mut two = conn.call(&wait("two")).unwrap();
    // Both run at the same time.
    one.next().await.unwrap();
    two.next().await.unwrap();
    let write = conn
        .call(&call("write", "shell", json!({"code": "echo wrote"})))
        .unwrap();
    let mut gone = conn
        .call(&call("gone", "shell", json!({"code": "touch made"})))
        .unwrap();
    let mut later = conn
        .call(&call("later", "echo", json!({"text": "b"})))
        .unwrap();
    // A person's own command waits for nobody.
    let (said, _) = text(&conn, &shell_call("own", "echo own")).await;
    assert_eq!(said, "own\n");
    for name in ["write", "gone", "later"] {
        assert_eq!(
            conn.status(&id(name)).await.unwrap().state,
            CallState::Queued,
            "{name}"
        );
    }
    conn.control("gone", "end").await.unwrap();
    while let Some(event) = gone.next().await.unwrap() {
        if let ollie_client::CallEvent::Result(result) = event {
            assert!(result.cancelled && result.exit.is_none() && result.tree_ended);
        }
    }
    drop(write);
    // Nobody is before it any more but other reads.
    while later.next().await.unwrap().is_some() {}
    world.write("home/project/go", "");
    while one.next().await.unwrap().is_some() {}
    while two.next().await.unwrap().is_some() {}
    assert!(!world.project().join("made").exists());
}

#[tokio::test]
async fn a_process_in_the_background_is_followed_fed_signalled_and_waited_for() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    let code =
        "trap 'echo hup' HUP; echo ready; while read -r line; do echo got $line; done; exit 3";
    let start = json!({"code": code, "stdin": true, "wait_s": 0});
    let (said, exit) = text(&conn, &call("a", "proc_start", start)).await;
    assert_eq!(exit, Some(Exit::Code(0)), "{said}");
    assert!(said.starts_with("p1: running as process "), "{said}");
    let output = |name: &str, offset: u64| {
        call(
            name,
            "proc_output",
            json!({"id": "p1", "offset": offset, "wait_s": 30}),
        )
    };
    let (said, _) = text(&conn, &output("b", 0)).await;
    assert!(
        said.contains("bytes 0 to 6 of 6; go on with offset 6]\nready\n"),
        "{said}"
    );
    text(
        &conn,
        &call("c", "proc_write", json!({"id": "p1", "text": "one\n"})),
    )
    .await;
    let (said, _) = text(&conn, &output("d", 6)).await;
    assert!(said.ends_with("got one\n"), "{said}");
    let (said, _) = text(&conn, &call("e", "proc_list", json!({}))).await;
    assert!(said.starts_with("p1: running"), "{said}");
    text(
        &conn,
        &call("f", "proc_write", json!({"id": "p1", "eof": true})),
    )
    .await;
    let (said, _) = text(
        &conn,
        &call("g", "proc_wait", json!({"id": "p1", "timeout_s": 30})),
    )
    .await;
    assert!(
        said.starts_with("p1: ended with status 3, after "),
        "{said}"
    );
    let (said, exit) = text(&conn, &call("h", "proc_wait", json!({"id": "p9"}))).await;
    assert_eq!(exit, Some(Exit::Code(1)));
    assert!(said.contains("no process \"p9\""), "{said}");

    let start = json!({"argv": ["sleep", "4242"], "wait_s": 0});
    text(&conn, &call("i", "proc_start", start)).await;
    let (said, _) = text(&conn, &call("j", "proc_signal", json!({"id": "p2"}))).await;
    assert!(
        said.starts_with("p2: ended by signal 15, because it was asked to"),
        "{said}"
    );
    let start = json!({"argv": ["no-such-program"]});
    let (said, exit) = text(&conn, &call("k", "proc_start", start)).await;
    assert_eq!(exit, Some(Exit::Code(1)));
    assert!(said.contains("no such program"), "{said}");
}

/// It ends with its session, unless that has a lease.
#[tokio::test]
async fn a_background_build_goes_on_under_a_lease_and_is_dead_without_one() {
    for lease in [true, false] {
        let world = Toolsrv::world();
        let mut toolsrv = Toolsrv::start_lasting(&world);
        let first = toolsrv.first().await;
        if lease {
            first.lease(Duration::from_secs(60)).await.unwrap();
        }
        let code = "for i in 0 1 2 3 4 5; do echo line $i; while [ ! -e go-$i ]; do sleep 0.01; done; done";
        text(&first, &call("a", "proc_start", json!({"code": code}))).await;
        drop(first);
        if !lease {
            tokio::task::spawn_blocking(move || toolsrv.ended())
                .await
                .unwrap();
            assert!(await_that(Duration::from_secs(10), || world
                .leftovers()
                .is_empty()));
            continue;
        }
        let (_relay, conn) = toolsrv.attach(&world, "again").await;
        for step in 0..6 {
            world.write(format!("home/project/go-{step}"), "");
        }
        conn.wait(&id("p1")).await.unwrap();
        let mut log = String::new();
        loop {
            let args = json!({"id": "p1", "offset": log.len(), "max_bytes": 256});
            let (said, _) = text(
                &conn,
                &call(&format!("o{}", log.len()), "proc_output", args),
            )
            .await;
            let (head, piece) = said.split_once("]\n").unwrap();
            log.push_str(piece);
            if head.contains("this is the end") {
                break;
            }
        }
        let expected: String = (0..6).map(|i| format!("line {i}\n")).collect();
        assert_eq!(log, expected);
        conn.shut_down().await.unwrap();
        drop(conn);
        tokio::task::spawn_blocking(move || toolsrv.ended())
            .await
            .unwrap();
    }
}
