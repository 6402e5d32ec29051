//! Tflush, Tclunk and Tversion cancel, and nothing is lost by it.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;

use crate::harness::*;
use ninep_rs::{Fid, Handle, OpenMode, Rmessage, ServerConfig, Tag, Tmessage, ename, serve};

#[tokio::test]
async fn a_flushed_read_is_not_answered_and_loses_nothing() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.send(&[(Tag(10), read(1, 9)), (Tag(11), flush(10))])
        .await;
    assert_eq!(peer.answers(1).await, [(Tag(11), Rmessage::Flush)]);
    world.running.reaches(0).await;
    world.put(b"kept");
    // The tag is free again.
    peer.send(&[(Tag(10), read(1, 9))]).await;
    assert_eq!(peer.answers(1).await, [(Tag(10), data(b"kept"))]);
}

#[tokio::test]
async fn a_read_that_is_answered_already_is_answered_before_its_rflush() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    world.put(b"here");
    peer.send(&[(Tag(10), read(1, 9)), (Tag(11), flush(10))])
        .await;
    assert_eq!(
        peer.answers(2).await,
        [(Tag(10), data(b"here")), (Tag(11), Rmessage::Flush)]
    );
}

#[tokio::test]
async fn flushing_the_first_read_in_line_lets_the_next_begin() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.send(&[
        (Tag(10), read(1, 9)),
        (Tag(11), read(1, 2)),
        (Tag(12), read(1, 9)),
        (Tag(13), flush(10)),
        (Tag(14), flush(12)),
    ])
    .await;
    peer.answers(2).await;
    world.running.reaches(1).await;
    world.put(b"abc");
    assert_eq!(peer.answers(1).await, [(Tag(11), data(b"ab"))]);
    assert_eq!(peer.ask(read(1, 9)).await, data(b"c"));
}

#[tokio::test]
async fn flushing_what_is_not_in_flight_is_answered() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    assert_eq!(peer.ask(flush(99)).await, Rmessage::Flush);
    assert_eq!(peer.ask(flush(1)).await, Rmessage::Flush);
}

#[tokio::test]
async fn as_many_waiting_reads_as_the_limit_allows_can_all_be_flushed() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    let limit = u16::try_from(ServerConfig::default().requests).unwrap();
    for fid in 0..limit {
        peer.open(u32::from(fid) + 1, "pipe").await;
    }
    for tag in 0..limit {
        peer.send(&[(Tag(tag + 100), read(u32::from(tag) + 1, 9))])
            .await;
    }
    world.running.reaches(usize::from(limit)).await;
    assert_eq!(peer.ask(read(1, 9)).await, error(ename::TOO_MANY_REQUESTS));
    for tag in 0..limit {
        assert_eq!(peer.ask(flush(tag + 100)).await, Rmessage::Flush);
    }
    world.running.reaches(0).await;
    world.put(b"all of it");
    assert_eq!(peer.ask(read(1, 9)).await, data(b"all of it"));
}

#[tokio::test]
async fn a_clunk_ends_what_waits_on_its_fid_and_drops_the_file() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.open(2, "gate").await;
    peer.send(&[
        (Tag(10), read(1, 9)),
        (Tag(11), read(1, 9)),
        (Tag(12), write(2, b"x")),
        (Tag(13), clunk(1)),
        (
            Tag(14),
            Tmessage::Remove {
                fid: ninep_rs::Fid(2),
            },
        ),
    ])
    .await;
    let interrupted = error(ename::INTERRUPTED);
    let expected = [
        (Tag(10), interrupted.clone()),
        (Tag(11), interrupted.clone()),
        (Tag(13), Rmessage::Clunk),
        (Tag(12), interrupted),
        (Tag(14), error(ename::PERMISSION_DENIED)),
    ];
    assert_eq!(peer.answers(5).await, expected);
    assert_eq!((world.running.get(), world.files.get()), (0, 0));
    assert_eq!(peer.ask(stat(1)).await, error(ename::UNKNOWN_FID));
    assert_eq!(peer.ask(stat(2)).await, error(ename::UNKNOWN_FID));
}

#[tokio::test]
async fn a_version_ends_every_request_and_every_fid() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.send(&[(Tag(10), read(1, 9)), (Tag::NONE, version(4096))])
        .await;
    let answers = peer.answers(2).await;
    assert_eq!(answers[0], (Tag(10), error(ename::INTERRUPTED)));
    assert!(matches!(
        answers[1].1,
        Rmessage::Version { msize: 4096, .. }
    ));
    assert_eq!((world.running.get(), world.files.get()), (0, 0));
    assert_eq!(peer.ask(stat(0)).await, error(ename::UNKNOWN_FID));
    assert_eq!(
        peer.ask(attach(0, ninep_rs::Fid::NONE)).await,
        Rmessage::Attach {
            qid: ninep_rs::Qid::directory(1)
        }
    );
}

#[tokio::test]
async fn the_end_of_the_stream_drops_everything() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.open(2, "gate").await;
    peer.send(&[(Tag(10), read(1, 9)), (Tag(11), write(2, b"x"))])
        .await;
    world.running.reaches(2).await;
    let server = peer.server;
    drop((peer.reader, peer.writer));
    assert!(server.await.unwrap().is_ok());
    assert_eq!((world.running.get(), world.files.get()), (0, 0));
}

#[tokio::test]
async fn dropping_the_served_connection_drops_everything() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.send(&[(Tag(10), read(1, 9))]).await;
    world.running.reaches(1).await;
    peer.server.abort();
    world.files.reaches(0).await;
    assert_eq!(world.running.get(), 0);
}

/// Found by the fuzz target `connection`: whoever had been woken kept the connection's task for ever.
#[tokio::test]
async fn a_request_that_was_woken_as_the_connection_ended_keeps_nothing() {
    struct Task;
    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let world = World::new();
    let task = Arc::new(Task);
    let (near, far) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(far);
    let tree = Arc::new(Tree {
        world: Arc::clone(&world),
        auth: false,
    });
    let mut serving = Box::pin(serve(reader, writer, tree, ServerConfig::default()));
    let mut bytes = BytesMut::new();
    for (tag, message) in [
        (Tag::NONE, version(8192)),
        (Tag(1), attach(0, Fid::NONE)),
        (Tag(2), walk(0, 1, &["pipe"])),
        (Tag(3), open(1, 2)),
        (Tag(4), read(1, 9)),
    ] {
        message.encode(tag, &mut bytes).unwrap();
    }
    let (near_reader, mut near_writer) = tokio::io::split(near);
    near_writer.write_all(&bytes).await.unwrap();
    let waker = std::task::Waker::from(Arc::clone(&task));
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(serving.as_mut().poll(&mut cx).is_pending());
    assert_eq!(world.running.get(), 1);
    world.put(b"x");
    drop((serving, waker, near_reader, near_writer));
    assert_eq!(Arc::strong_count(&task), 1);
}

/// Numbers come into the pipe from one thread while reads of it are made and cancelled from another, on a runtime with
/// as many workers as it likes: every byte comes out once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn reads_cancelled_at_any_moment_lose_no_byte() {
    const NUMBERS: u32 = 20_000;
    let world = World::new();
    let (_client, root) = client(&world).await;
    let pipe = root.walk_path("pipe").await.unwrap();
    pipe.open(OpenMode::READ).await.unwrap();
    let putting = tokio::spawn({
        let world = Arc::clone(&world);
        async move {
            for number in 0..NUMBERS {
                world.put(&number.to_le_bytes());
                if number % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let (got, answered_late) = within(read_and_cancel(&pipe, NUMBERS as usize * 4)).await;
    putting.await.unwrap();
    let numbers = got
        .chunks(4)
        .map(|number| u32::from_le_bytes(number.try_into().unwrap()));
    assert!(numbers.eq(0..NUMBERS));
    assert!(answered_late > 0, "no cancel ever met an answer");
}

/// Reads `length` bytes with reads that are mostly cancelled; counts the cancelled ones that had an answer.
async fn read_and_cancel(pipe: &Handle, length: usize) -> (BytesMut, usize) {
    let mut got = BytesMut::new();
    let mut answered_late = 0;
    let mut turn = 0_u32;
    while got.len() < length {
        turn += 1;
        // Two reads are out at once, so that one waits in line behind the other.
        let mut first = pipe.read(0, 5);
        let second = pipe.read(0, 3);
        for _ in 0..turn % 4 {
            tokio::task::yield_now().await;
        }
        if turn.is_multiple_of(3) {
            got.extend_from_slice(&(&mut first).await.unwrap());
            got.extend_from_slice(&second.cancel().await.unwrap().unwrap_or_default());
        } else {
            let first = first.cancel().await.unwrap();
            answered_late += usize::from(first.is_some());
            got.extend_from_slice(&first.unwrap_or_default());
            got.extend_from_slice(&second.cancel().await.unwrap().unwrap_or_default());
        }
    }
    (got, answered_late)
}
