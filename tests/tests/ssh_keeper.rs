//! A session that outlives its toolsrv.
#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ninep_rs::ClientConfig;
use ollie_client::{CallEvent, ToolsrvConn};
use ollie_deploy::{Error, Kept, Place, Plan, ProcessKeeper, Remote};
use ollie_protocol::{CallId, ToolCall};
use ollie_tests::{Devbox, Relay, Tree, World};

const PROJECT: &str = "mkdir /home/dev/project; chown dev /home/dev/project";

fn keeper(devbox: &Devbox<'_>, world: &World, target: &str) -> ProcessKeeper {
    let mut remote = Remote::new(target.parse().unwrap());
    remote.ssh = devbox.ssh();
    remote.packed = Some(world.home().join(".cache/ollie/packed"));
    let policy = ollie_sandbox::layer("default", &[])
        .unwrap()
        .to_json()
        .unwrap();
    let plan = Plan {
        bundle: world.dist().bundle(),
        policy: String::from_utf8(policy).unwrap(),
        cwd: Some("project".into()),
        yolo: false,
        project: false,
        session: "kept".to_owned(),
        lease: None,
        withheld: Vec::new(),
    };
    let place = Place::There(Box::new(remote));
    ProcessKeeper::new(place, plan, "test", ClientConfig::default())
}

async fn get(keeper: &ProcessKeeper) -> Result<Kept, Error> {
    keeper.get(&|_| ()).await
}

fn call(id: &str, code: &str) -> ToolCall {
    let mut call = ToolCall::new(CallId::new(id).unwrap(), "shell");
    call.args.insert("code".to_owned(), code.into());
    call
}

async fn content(conn: &ToolsrvConn, id: &str, code: &str) -> Result<String, ollie_client::Error> {
    let mut running = conn.call(&call(id, code))?;
    while let Some(event) = running.next().await? {
        if let CallEvent::Result(result) = event {
            return Ok(result.content);
        }
    }
    Ok(String::new())
}

/// Everything a test of the keeper does, on a runtime of its own.
fn on_a_runtime<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

#[test]
fn however_many_ask_one_is_started_and_after_a_drop_one_more() {
    let Some(world) = World::with_ssh("keeper") else {
        return;
    };
    let devbox = world.devbox().hook(PROJECT).start();
    on_a_runtime(async {
        let keeper = Arc::new(keeper(&devbox, &world, &devbox.target()));
        let asking: Vec<_> = (0..10)
            .map(|_| {
                let keeper = Arc::clone(&keeper);
                tokio::spawn(async move { keeper.get(&|_| ()).await.unwrap().generation })
            })
            .collect();
        for asker in asking {
            assert_eq!(asker.await.unwrap(), 1);
        }
        assert_eq!(devbox.logged("Accepted publickey"), 1);

        // In flight when everything there is killed: an error, and no replay.
        let kept = get(&keeper).await.unwrap();
        let started = "echo x >>count; echo counted; sleep 4242";
        let mut running = kept.conn().call(&call("c-1", started)).unwrap();
        while !matches!(
            running.next().await.unwrap(),
            Some(CallEvent::Output { .. })
        ) {}
        let server = kept.process().server().unwrap();
        Tree::kill(server);
        let lost = loop {
            match running.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the call ended without a result"),
                Err(error) => break error,
            }
        };
        assert!(matches!(lost, ollie_client::Error::Lost(_)), "{lost:?}");
        drop((running, kept));

        let again = get(&keeper).await.unwrap();
        assert_eq!(again.generation, 2);
        assert_eq!(
            content(again.conn(), "c-2", "echo on").await.unwrap(),
            "on\n"
        );
        assert_eq!(devbox.logged("Accepted publickey"), 2);
        let count = std::fs::read_to_string(devbox.home().join("project/count"));
        assert_eq!(count.unwrap(), "x\n", "the call ran once");
        drop(again);
        assert!(Arc::into_inner(keeper).unwrap().end().await);
    });
    devbox.nothing_left();
}

#[test]
fn a_refused_authentication_is_final() {
    let Some(world) = World::with_ssh("keeper and keys") else {
        return;
    };
    let devbox = world.devbox().hook(PROJECT).start();
    std::fs::write(devbox.path("run/devbox/authorized_keys"), "").unwrap();
    on_a_runtime(async {
        let keeper = keeper(&devbox, &world, &devbox.target());
        for _ in 0..3 {
            let error = get(&keeper).await.unwrap_err();
            assert!(matches!(error, Error::Final(_)), "{error:?}");
        }
    });
    assert_eq!(devbox.logged("Failed publickey"), 1);
}

#[test]
fn a_host_that_is_away_is_tried_again_with_longer_pauses() {
    let Some(world) = World::with_ssh("keeper and patience") else {
        return;
    };
    let devbox = world.devbox().hook(PROJECT).start();
    let relay = Relay::to(devbox.port());
    let target = devbox.through(&relay);
    on_a_runtime(async {
        let keeper = keeper(&devbox, &world, &target);
        relay.cut_after(0);
        let mut took = Vec::new();
        for _ in 0..2 {
            let began = Instant::now();
            let error = get(&keeper).await.unwrap_err();
            assert!(matches!(error, Error::Ssh { .. }), "{error:?}");
            took.push(began.elapsed());
        }
        relay.cut_after(u64::MAX);
        let began = Instant::now();
        assert_eq!(get(&keeper).await.unwrap().generation, 1);
        // The pause after the second failure: twice 250 ms.
        assert!(began.elapsed() > Duration::from_millis(450));
        assert!(keeper.end().await);
    });
    devbox.nothing_left();
}

#[test]
fn a_silent_host_is_given_up_and_the_session_goes_on() {
    let Some(world) = World::with_ssh("keeper and silence") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook(PROJECT)
        .config("ClientAliveInterval 5\nClientAliveCountMax 1")
        .start();
    let relay = Relay::to(devbox.port());
    let target = devbox.through(&relay);
    on_a_runtime(async {
        let keeper = keeper(&devbox, &world, &target);
        let kept = get(&keeper).await.unwrap();
        let _running = kept.conn().call(&call("c-1", "sleep 4242")).unwrap();
        relay.lose_everything(true);
        let began = Instant::now();
        let quiet = kept.silence().await;
        assert!(quiet >= Duration::from_secs(12), "{quiet:?}");
        assert!(began.elapsed() < Duration::from_secs(16));
        relay.lose_everything(false);
        keeper.abandon(&kept).await;
        let again = get(&keeper).await.unwrap();
        assert_eq!(again.generation, 2);
        assert_eq!(
            content(again.conn(), "c-2", "echo on").await.unwrap(),
            "on\n"
        );
    });
    devbox.nothing_left();
}

/// No call is in flight, so nobody in ollie asks for a sign of life: ssh does,
/// whatever its configuration says.
#[test]
fn a_connection_that_is_lost_while_nothing_runs_is_noticed_too() {
    let Some(world) = World::with_ssh("keeper and idleness") else {
        return;
    };
    let devbox = world
        .devbox()
        .hook(PROJECT)
        .config("ClientAliveInterval 5\nClientAliveCountMax 1")
        .start();
    devbox.ssh_config("Host *\n ServerAliveInterval 0\n ServerAliveCountMax 1000\n");
    let relay = Relay::to(devbox.port());
    let target = devbox.through(&relay);
    on_a_runtime(async {
        let keeper = keeper(&devbox, &world, &target);
        let kept = get(&keeper).await.unwrap();
        relay.lose_everything(true);
        // Three questions, 5 s each; the rest is for a busy machine.
        let noticed = tokio::time::timeout(Duration::from_secs(30), kept.conn().closed()).await;
        assert!(noticed.is_ok(), "it is still believed to be there");
        drop(kept);
        relay.lose_everything(false);
        assert_eq!(get(&keeper).await.unwrap().generation, 2);
        assert!(keeper.end().await);
    });
    devbox.nothing_left();
}
