//! Nothing runs before it is decided what becomes of a project's policy file.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not known as tests to clippy"
)]

use std::time::Duration;

use ninep_rs::ClientConfig;
use ollie_client::{CallEvent, Error, ToolsrvConn};
use ollie_deploy::{Plan, Process};
use ollie_protocol::auth::OWNER;
use ollie_protocol::{CallId, ProjectStanding, ToolCall, ToolResult};
use ollie_sandbox::{Layer, Ruling, Source, Trust, layer, parse};
use ollie_tests::{Toolsrv, World};

const TEXT: &str = "filesystem: { ro: [/var/lib] }\nlimits: { open_files: 99 }\n";

async fn session(world: &World) -> (Process, ToolsrvConn) {
    let policy = layer("default", &[]).unwrap().to_json().unwrap();
    let plan = Plan {
        bundle: world.dist().bundle(),
        policy: String::from_utf8(policy).unwrap(),
        cwd: Some(world.project().into_os_string().into()),
        yolo: false,
        project: true,
        lease: None,
        session: "project".to_owned(),
        withheld: Vec::new(),
    };
    let installed = ollie_deploy::install(&plan.bundle, &world.home().join("cache")).unwrap();
    let (mut process, channel) = ollie_deploy::spawn_local(&installed, &plan).await.unwrap();
    let conn = process.connect(channel, "test", ClientConfig::default());
    let conn = conn.await.unwrap();
    (process, conn)
}

fn ruling(text: &str) -> Ruling {
    Ruling {
        document: parse(text, &Source::new(Layer::Project, "project")).unwrap(),
        trust: Trust::Resolved(Vec::new()),
        otherwise: "not trusted".to_owned(),
    }
}

async fn open_files(conn: &ToolsrvConn, id: &str) -> Result<ToolResult, Error> {
    let mut call = ToolCall::new(CallId::new(id).unwrap(), "shell");
    call.args.insert("code".to_owned(), "ulimit -n".into());
    let mut running = conn.call(&call)?;
    while let Some(event) = running.next().await? {
        if let CallEvent::Result(result) = event {
            return Ok(*result);
        }
    }
    panic!("no result")
}

#[tokio::test]
async fn nothing_runs_before_it_is_decided_and_it_is_decided_once() {
    let world = World::new(ollie_tests::User::Ordinary(
        rustix::process::getuid().as_raw(),
    ));
    world.write("home/project/.ollie-sandbox.yaml", TEXT);
    let (process, conn) = session(&world).await;
    let found = process.project.clone().unwrap();
    assert_eq!(found.text, TEXT.as_bytes());
    let mut early = Box::pin(open_files(&conn, "early"));
    let moment = Duration::from_millis(300);
    let waits = tokio::time::timeout(moment, &mut early).await;
    assert!(waits.is_err(), "{waits:?}");
    let policy: serde_json::Value = conn.policy().await.unwrap();
    assert_eq!(policy["project"]["standing"], "awaited");
    assert_eq!(policy["policy"], serde_json::Value::Null);

    // What cannot be carried out leaves it undecided.
    let error = conn.decide(&ruling("filesystem: { rw: [/boot] }")).await;
    assert!(matches!(error, Err(Error::Refused(_))), "{error:?}");
    let waits = tokio::time::timeout(moment, &mut early).await;
    assert!(waits.is_err(), "{waits:?}");

    let record = conn.decide(&ruling(TEXT)).await.unwrap();
    assert_eq!(record.standing, ProjectStanding::Untrusted);
    let result = early.await.unwrap();
    assert_eq!(result.content, "99\n");
    assert!(result.sandbox.notes.contains(&"not trusted".to_owned()));
    // Whoever else writes comes too late.
    let mut whole = ruling(TEXT);
    whole.trust = Trust::Whole;
    let error = conn.decide(&whole).await;
    assert!(matches!(error, Err(Error::Refused(_))), "{error:?}");
    drop(conn);
    assert!(process.ended().await);
}

/// An agent that could trust the file could widen its own sandbox.
#[tokio::test]
async fn only_the_persons_side_decides() {
    let refused = |answer: Result<_, Error>| match answer {
        Err(Error::Refused(reason)) => {
            assert!(reason.contains("only the person's side"), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    for person in ["who has started it", OWNER] {
        let world = Toolsrv::world();
        world.write("home/project/.ollie-sandbox.yaml", TEXT);
        let mut toolsrv = Toolsrv::start_in_project(&world);
        let first = toolsrv.first().await;
        let agent = toolsrv.dial("a").await.unwrap();
        let mut whole = ruling(TEXT);
        whole.trust = Trust::Whole;
        refused(agent.decide(&whole).await);
        // Reading it is for everybody.
        let record = agent.read_file("project").await.unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["standing"], "awaited");
        let owner = toolsrv.dial(OWNER).await.unwrap();
        let decides = if person == OWNER { &owner } else { &first };
        let record = decides.decide(&whole).await.unwrap();
        assert_eq!(record.standing, ProjectStanding::Trusted);
        assert_eq!(open_files(&agent, "after").await.unwrap().content, "99\n");
    }
}
