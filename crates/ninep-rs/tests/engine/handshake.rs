//! Version, authentication and attach.

use std::time::Duration;

use crate::harness::*;
use ninep_rs::{Error, Fid, Qid, Rmessage, ServerConfig, Tag, Tmessage, ename};

#[tokio::test]
async fn the_whole_handshake_goes_in_one_burst() {
    let world = World::new();
    let mut peer = Peer::connect_guarded(&world);
    peer.send(&[
        (Tag::NONE, version(1 << 20)),
        (Tag(1), auth(7)),
        (Tag(2), write(7, SECRET)),
        (Tag(3), read(7, 100)),
        (Tag(4), attach(0, Fid(7))),
        (Tag(5), clunk(7)),
        (Tag(6), stat(0)),
    ])
    .await;
    let answers = peer.answers(7).await;
    assert!(matches!(answers[1].1, Rmessage::Auth { aqid } if aqid.kind == Qid::AUTH));
    assert_eq!(
        answers[2],
        (
            Tag(2),
            Rmessage::Write {
                count: u32::try_from(SECRET.len()).unwrap()
            }
        )
    );
    assert_eq!(answers[3], (Tag(3), data(b"welcome glenda")));
    assert_eq!(
        answers[4],
        (
            Tag(4),
            Rmessage::Attach {
                qid: Qid::directory(1)
            }
        )
    );
    assert_eq!(answers[5], (Tag(5), Rmessage::Clunk));
    assert!(matches!(answers[6].1, Rmessage::Stat { .. }));
}

/// What is sent after the version, and what the last answer says before the connection is closed.
async fn is_refused(messages: &[(Tag, Tmessage)], ename: &str) {
    let world = World::new();
    let mut peer = Peer::connect_guarded(&world);
    peer.send(&[(Tag::NONE, version(1 << 20))]).await;
    peer.send(messages).await;
    let (answers, end) = peer.end().await;
    assert_eq!(answers.last().unwrap().1, error(ename));
    assert!(matches!(end, Err(Error::Refused(why)) if why == ename));
}

#[tokio::test]
async fn a_wrong_proof_is_refused_and_closes_before_anything_after_it() {
    is_refused(
        &[
            (Tag(1), auth(7)),
            (Tag(2), write(7, b"guess")),
            (Tag(3), write(7, SECRET)),
            (Tag(4), attach(0, Fid(7))),
        ],
        "wrong secret",
    )
    .await;
}

#[tokio::test]
async fn an_attach_without_a_proof_closes() {
    is_refused(&[(Tag(1), attach(0, Fid::NONE))], "prove who you are first").await;
    is_refused(
        &[(Tag(1), auth(7)), (Tag(2), attach(0, Fid(7)))],
        "prove who you are first",
    )
    .await;
}

#[tokio::test]
async fn an_attach_needs_the_afid_of_its_own_names() {
    let as_somebody_else = Tmessage::Attach {
        fid: Fid(0),
        afid: Fid(7),
        uname: "rob".to_owned(),
        aname: String::new(),
    };
    let to_another_tree = Tmessage::Attach {
        fid: Fid(0),
        afid: Fid(7),
        uname: "glenda".to_owned(),
        aname: "other".to_owned(),
    };
    for attach in [as_somebody_else, to_another_tree, attach(0, Fid(8))] {
        is_refused(
            &[
                (Tag(1), auth(7)),
                (Tag(2), write(7, SECRET)),
                (Tag(3), attach),
            ],
            ename::AUTH_MISMATCH,
        )
        .await;
    }
}

#[tokio::test]
async fn a_file_is_no_afid() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    assert_eq!(
        peer.ask(attach(1, Fid(0))).await,
        error(ename::AUTH_MISMATCH)
    );
    assert!(peer.next().await.is_none());
}

#[tokio::test]
async fn an_authentication_file_is_no_file_of_the_tree() {
    let world = World::new();
    let mut peer = Peer::connect_guarded(&world);
    peer.send(&[(Tag::NONE, version(1 << 20)), (Tag(1), auth(7))])
        .await;
    peer.answers(2).await;
    for message in [open(7, 0), walk(7, 8, &[]), walk(7, 7, &["pipe"]), stat(7)] {
        assert_eq!(
            peer.ask(message.clone()).await,
            error(ename::IS_AUTH_FILE),
            "{message:?}"
        );
    }
    let remove = Tmessage::Remove { fid: Fid(7) };
    assert_eq!(peer.ask(remove).await, error(ename::IS_AUTH_FILE));
    assert_eq!(peer.ask(clunk(7)).await, error(ename::UNKNOWN_FID));
}

#[tokio::test]
async fn a_server_without_authentication_says_so() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    assert_eq!(peer.ask(auth(7)).await, error(ename::AUTH_NOT_REQUIRED));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_attach_in_time_is_closed() {
    let world = World::new();
    let peer = Peer::connect_guarded(&world);
    let begun = tokio::time::Instant::now();
    let (answers, end) = peer.end().await;
    assert!(answers.is_empty());
    assert!(matches!(end, Err(Error::AttachDeadline)));
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn who_has_attached_may_stay_as_long_as_he_likes() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(peer.ask(flush(3)).await, Rmessage::Flush);
}

#[tokio::test]
async fn a_long_message_before_the_attach_closes() {
    let world = World::new();
    let mut peer = Peer::connect_guarded(&world);
    peer.send(&[(Tag::NONE, version(1 << 20)), (Tag(1), auth(7))])
        .await;
    peer.answers(2).await;
    // A Twrite needs 23 bytes beside its data.
    assert_eq!(
        peer.ask(write(7, &[0; 8192 - 23])).await,
        error("wrong secret")
    );
    let mut peer = Peer::connect_guarded(&world);
    peer.send(&[(Tag::NONE, version(1 << 20)), (Tag(1), auth(7))])
        .await;
    peer.answers(2).await;
    assert_eq!(
        peer.ask(write(7, &[0; 8192 - 22])).await,
        error(ename::TOO_LONG)
    );
    let (_, end) = peer.end().await;
    assert!(matches!(
        end,
        Err(Error::FrameTooLong {
            size: 8193,
            limit: 8192
        })
    ));
}

#[tokio::test]
async fn fids_before_the_attach_are_few() {
    let world = World::new();
    let mut peer = Peer::connect_guarded(&world);
    peer.send(&[(Tag::NONE, version(1 << 20))]).await;
    peer.answers(1).await;
    for fid in 0..16 {
        assert!(matches!(peer.ask(auth(fid)).await, Rmessage::Auth { .. }));
    }
    assert_eq!(peer.ask(auth(16)).await, error(ename::TOO_MANY_FIDS));
}

#[tokio::test]
async fn versions_are_agreed_on_as_the_manual_says() {
    let world = World::new();
    for (offered, msize, agreed, answer) in [
        ("9P2000", 8192, 8192, "9P2000"),
        ("9P2000", u32::MAX, 1 << 20, "9P2000"),
        ("9P2000.L", 8192, 8192, "9P2000"),
        ("9P2000.u", 8192, 8192, "9P2000"),
        ("9P1999", 8192, 8192, "unknown"),
        ("9P20000", 8192, 8192, "unknown"),
        ("", 8192, 8192, "unknown"),
    ] {
        let mut peer = Peer::connect(&world);
        let offer = Tmessage::Version {
            msize,
            version: offered.to_owned(),
        };
        let expected = Rmessage::Version {
            msize: agreed,
            version: answer.to_owned(),
        };
        assert_eq!(peer.ask(offer).await, expected, "{offered}");
        if answer == "unknown" {
            assert_eq!(
                peer.ask(attach(0, Fid::NONE)).await,
                error(ename::VERSION_FIRST)
            );
        }
    }
    let mut peer = Peer::connect(&world);
    assert_eq!(
        peer.ask(attach(0, Fid::NONE)).await,
        error(ename::VERSION_FIRST)
    );
    assert_eq!(peer.ask(version(255)).await, error(ename::MSIZE_TOO_SMALL));
}

#[tokio::test]
async fn a_service_may_ask_for_less_than_the_usual_limits() {
    let world = World::new();
    let mut config = ServerConfig::default();
    config.msize = 4096;
    config.fids = 3;
    config.requests = 1;
    let tree = Tree {
        world: world.clone(),
        auth: false,
    };
    let mut peer = Peer::connect_with(tree, config, 1 << 16);
    peer.attach().await;
    peer.open(1, "pipe").await;
    peer.open(2, "pipe").await;
    assert_eq!(peer.ask(walk(0, 3, &[])).await, error(ename::TOO_MANY_FIDS));
    peer.send(&[(Tag(10), read(1, 1))]).await;
    world.running.reaches(1).await;
    assert_eq!(peer.ask(read(2, 1)).await, error(ename::TOO_MANY_REQUESTS));
    assert_eq!(
        peer.ask(write(2, &[0; 4096 - 22])).await,
        error(ename::TOO_LONG)
    );
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_its_last_answer_is_left_after_a_second() {
    let world = World::new();
    let tree = Tree { world, auth: true };
    let mut peer = Peer::connect_with(tree, ServerConfig::default(), 64);
    peer.send(&[(Tag::NONE, version(1 << 20)), (Tag(1), auth(7))])
        .await;
    // Together with the answers that nobody reads these are more than the connection holds.
    let begun = tokio::time::Instant::now();
    peer.send(&[(Tag(2), read(7, 1)), (Tag(3), write(7, b"wrong"))])
        .await;
    let end = peer.server.await.unwrap();
    assert!(matches!(end, Err(Error::Refused(_))));
    assert_eq!(begun.elapsed().as_secs(), 1);
}
