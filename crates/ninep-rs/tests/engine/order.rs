//! What waits for what, and what does not.

use bytes::Bytes;

use crate::harness::*;
use ninep_rs::{Rmessage, ServerConfig, Tag, ename};

#[tokio::test]
async fn a_read_that_waits_delays_neither_a_write_on_its_fid_nor_another_fid() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.open(2, "zero").await;
    peer.send(&[
        (Tag(10), read(1, 9)),
        (Tag(11), write(1, b"abc")),
        (Tag(12), read(2, 2)),
        (Tag(13), stat(1)),
    ])
    .await;
    let answers = peer.answers(3).await;
    assert_eq!(answers[0], (Tag(11), Rmessage::Write { count: 3 }));
    assert_eq!(answers[1], (Tag(12), data(&[0, 0])));
    assert!(matches!(answers[2], (Tag(13), Rmessage::Stat { .. })));
    world.put(b"later");
    assert_eq!(peer.answers(1).await, [(Tag(10), data(b"later"))]);
}

#[tokio::test]
async fn a_write_that_waits_delays_no_read_on_its_fid() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "gate").await;
    peer.send(&[(Tag(10), write(1, b"abc")), (Tag(11), read(1, 9))])
        .await;
    assert_eq!(peer.answers(1).await, [(Tag(11), data(b"gate"))]);
    world.gate.add_permits(1);
    assert_eq!(
        peer.answers(1).await,
        [(Tag(10), Rmessage::Write { count: 3 })]
    );
}

#[tokio::test]
async fn reads_of_one_fid_are_answered_in_the_order_they_came() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.send(&[
        (Tag(30), read(1, 2)),
        (Tag(20), read(1, 1)),
        (Tag(10), read(1, 9)),
    ])
    .await;
    world.running.reaches(1).await;
    world.put(b"abcdef");
    let expected = [
        (Tag(30), data(b"ab")),
        (Tag(20), data(b"c")),
        (Tag(10), data(b"def")),
    ];
    assert_eq!(peer.answers(3).await, expected);
}

#[tokio::test]
async fn writes_of_one_fid_are_done_in_the_order_they_came() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "gate").await;
    peer.send(&[
        (Tag(30), write(1, b"first")),
        (Tag(20), write(1, b"second")),
        (Tag(10), write(1, b"third")),
    ])
    .await;
    for (tag, count) in [(30, 5), (20, 6), (10, 5)] {
        world.gate.add_permits(1);
        assert_eq!(
            peer.answers(1).await,
            [(Tag(tag), Rmessage::Write { count })]
        );
    }
    let taken = world.taken.lock().unwrap();
    assert_eq!(*taken, ["first", "second", "third"].map(Bytes::from));
}

#[tokio::test]
async fn two_fids_of_one_file_do_not_wait_for_each_other() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "gate").await;
    peer.open(2, "gate").await;
    peer.send(&[(Tag(10), write(1, b"a")), (Tag(11), write(2, b"b"))])
        .await;
    world.running.reaches(2).await;
    world.gate.add_permits(2);
    peer.answers(2).await;
}

/// A connection that holds little, its client slow: 40 long reads are asked for, then other things.
async fn behind_long_reads(
    world: &std::sync::Arc<World>,
    then: &[(Tag, ninep_rs::Tmessage)],
) -> Peer {
    let tree = Tree {
        world: world.clone(),
        auth: false,
    };
    let mut peer = Peer::connect_with(tree, ServerConfig::default(), 4096);
    peer.attach().await;
    peer.open(1, "zero").await;
    peer.open(2, "gate").await;
    let reads: Vec<_> = (100..140).map(|tag| (Tag(tag), read(1, 100_000))).collect();
    peer.send(&reads).await;
    peer.send(then).await;
    peer
}

#[tokio::test]
async fn small_answers_overtake_the_data_of_another_fid() {
    let world = World::new();
    world.gate.add_permits(1);
    let then = [
        (Tag(1), stat(2)),
        (Tag(2), walk(0, 3, &["sub"])),
        (Tag(3), write(2, b"x")),
        (Tag(4), walk(0, 4, &["zero"])),
        (Tag(5), open(4, 0)),
        (Tag(6), read(4, 2)),
    ];
    let mut peer = behind_long_reads(&world, &[]).await;
    assert_eq!(peer.answers(1).await[0].0, Tag(100));
    peer.send(&then).await;
    let tags: Vec<_> = peer
        .answers(45)
        .await
        .iter()
        .map(|(tag, _)| tag.0)
        .collect();
    // 101 was begun: what little the connection holds is full of it. The rest is overtaken.
    assert_eq!(tags[..8], [101, 1, 2, 3, 4, 5, 6, 102]);
    assert!(tags[7..].iter().copied().eq(102..140));
}

#[tokio::test]
async fn a_fid_with_many_long_reads_does_not_keep_another_from_its_turn() {
    let world = World::new();
    let then = [
        (Tag(1), walk(0, 3, &["zero"])),
        (Tag(2), open(3, 0)),
        (Tag(3), read(3, 100_000)),
    ];
    let mut peer = behind_long_reads(&world, &then).await;
    let mut before = 0;
    while peer.next().await.unwrap().0 != Tag(3) {
        before += 1;
    }
    assert!(before <= 6, "{before} answers of 42 went before");
}

#[tokio::test]
async fn a_short_read_stays_behind_the_long_ones_of_its_fid() {
    let world = World::new();
    let mut peer = behind_long_reads(&world, &[(Tag(1), read(1, 2))]).await;
    let answers = peer.answers(41).await;
    assert!(answers[..40].iter().map(|(tag, _)| tag.0).eq(100..140));
    assert_eq!(answers[40], (Tag(1), data(&[0, 0])));
}

#[tokio::test]
async fn what_ends_something_overtakes_no_data() {
    let world = World::new();
    let then = [
        (Tag(1), flush(139)),
        (Tag(2), flush(100)),
        (Tag(3), clunk(1)),
    ];
    let mut peer = behind_long_reads(&world, &then).await;
    let mut answers = Vec::new();
    while answers.last().is_none_or(|(tag, _)| *tag != Tag(3)) {
        answers.push(peer.next().await.unwrap());
    }
    let place = |tag| {
        answers
            .iter()
            .position(|(answered, _)| *answered == Tag(tag))
    };
    // Never begun, so never answered: its Rflush is all.
    assert_eq!(place(139), None);
    assert!(place(100) < place(2));
    let interrupted = error(ename::INTERRUPTED);
    let ended = answers.iter().filter(|(_, answer)| *answer == interrupted);
    assert!(ended.count() > 30);
    assert_eq!(answers.len(), 42, "one answer for each but the flushed one");
}

#[tokio::test]
async fn reads_that_are_put_off_make_no_more_data_than_the_queue_holds() {
    let world = World::new();
    let mut peer = behind_long_reads(&world, &[(Tag(1), stat(2))]).await;
    while peer.next().await.unwrap().0 != Tag(1) {}
    let made = world.zeros.load(std::sync::atomic::Ordering::SeqCst);
    assert!(
        made <= 300_000,
        "{made} bytes were made for two answers that were read"
    );
}
