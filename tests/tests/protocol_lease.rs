//! A session with a lease lives on without its client, for so long and no
//! longer.

use std::time::{Duration, Instant};

use ollie_client::{Error, Fate};
use ollie_protocol::{CallId, Exit};
use ollie_tests::{Toolsrv, await_that, shell_call};

fn id(name: &str) -> CallId {
    CallId::new(name).expect("it is a call id")
}

#[tokio::test]
async fn a_call_and_its_log_go_on_through_a_drop_and_an_attach() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start_lasting(&world);
    let first = toolsrv.first().await;
    first.lease(Duration::from_secs(60)).await.unwrap();
    let code = "for i in 0 1 2 3 4 5 6 7 8 9; do echo line $i; \
                while [ ! -e go-$i ]; do sleep 0.01; done; done; exit 5";
    first.start(&shell_call("bg", code)).await.unwrap();
    let mut foreground = first.call(&shell_call("fg", "exec sleep 4242")).unwrap();
    foreground.next().await.unwrap();
    let mut log = Vec::new();
    for step in 0..4 {
        while log.len() < 7 * (step + 1) {
            let piece = first.log_piece(&id("bg"), "stdout", log.len() as u64).await;
            log.extend_from_slice(&piece.unwrap());
        }
        world.write(format!("home/project/go-{step}"), "");
    }
    // Both ends of the channel are closed at once, as after a kill -9 of the
    // other side.
    drop((foreground, first));

    for step in 4..10 {
        // The way back each time, and another drop.
        let (mut relay, conn) = toolsrv.attach(&world, "again").await;
        while log.len() < 7 * (step + 1) {
            let piece = conn.log_piece(&id("bg"), "stdout", log.len() as u64).await;
            log.extend_from_slice(&piece.unwrap());
        }
        let fate = conn.fate(&id("bg")).await.unwrap();
        assert!(matches!(fate, Fate::Running(_)), "{fate:?}");
        world.write(format!("home/project/go-{step}"), "");
        drop(conn);
        assert!(
            tokio::task::spawn_blocking(move || relay.wait().success())
                .await
                .unwrap()
        );
    }
    let (_relay, conn) = toolsrv.attach(&world, "last").await;
    let result = conn.wait(&id("bg")).await.unwrap();
    assert_eq!(result.exit, Some(Exit::Code(5)));
    let expected: String = (0..10).map(|i| format!("line {i}\n")).collect();
    assert_eq!(String::from_utf8(log).unwrap(), expected);
    assert_eq!(result.content, expected);
    // What belonged to the connection went with it.
    let Fate::Finished(result) = conn.fate(&id("fg")).await.unwrap() else {
        panic!("it was cancelled");
    };
    assert!(result.cancelled && result.tree_ended);
    conn.shut_down().await.unwrap();
    drop(conn);
    tokio::task::spawn_blocking(move || toolsrv.ended())
        .await
        .unwrap();
}

#[tokio::test]
async fn when_the_lease_has_run_out_nothing_is_left() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start_lasting(&world);
    let first = toolsrv.first().await;
    first.lease(Duration::from_secs(1)).await.unwrap();
    first
        .start(&shell_call("bg", "setsid sleep 4242 & exec sleep 4242"))
        .await
        .unwrap();
    let guest = toolsrv.dial("guest").await.unwrap();
    drop(first);
    // As long as somebody is there the time does not run.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    guest.version().await.unwrap();
    let left = Instant::now();
    drop(guest);
    tokio::task::spawn_blocking(move || toolsrv.ended())
        .await
        .unwrap();
    let took = left.elapsed();
    assert!(took > Duration::from_millis(900), "{took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lease_that_is_taken_back_or_is_none_does_not_count() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start_lasting(&world);
    let first = toolsrv.first().await;
    let refused = first.lease(Duration::from_secs(8 * 24 * 3600)).await;
    assert!(matches!(refused, Err(Error::Refused(text)) if text.contains("604800")));
    first.lease(Duration::from_secs(60)).await.unwrap();
    first.lease(Duration::ZERO).await.unwrap();
    drop(first);
    tokio::task::spawn_blocking(move || toolsrv.ended())
        .await
        .unwrap();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// What a client is told when there is nothing to attach to any more.
#[test]
fn an_attach_to_a_session_that_is_gone_says_so() {
    let world = Toolsrv::world();
    let socket = world.base().join("run/none");
    let end = world
        .command(Toolsrv::program(&world))
        .arg("attach")
        .arg(socket)
        .arg("mark")
        .run()
        .has_status(1);
    assert!(
        end.out()
            .starts_with("mark {\"refused\":{\"reason\":\"cannot attach to"),
        "{end}"
    );
}

/// Only who watches over the session can be killed, and then it ends.
#[tokio::test]
async fn kill_9_of_a_leased_server_or_companion_leaves_nothing() {
    for victim in ["server", "companion"] {
        let world = Toolsrv::world();
        let mut toolsrv = Toolsrv::start_lasting(&world);
        let first = toolsrv.first().await;
        first.lease(Duration::from_secs(60)).await.unwrap();
        first
            .start(&shell_call("bg", "setsid sleep 4242 & exec sleep 4242"))
            .await
            .unwrap();
        let processes = world.processes();
        let companion = processes
            .iter()
            .find(|process| process.parent == toolsrv.pid);
        let companion = companion.expect("there is one").pid;
        drop(first);
        let pid = if victim == "server" {
            toolsrv.pid
        } else {
            companion
        };
        ollie_tests::Tree::kill(pid);
        tokio::task::spawn_blocking(move || toolsrv.ended())
            .await
            .unwrap();
        let gone = await_that(Duration::from_secs(10), || world.leftovers().is_empty());
        assert!(gone, "{victim}: {:#?}", world.leftovers());
    }
}
