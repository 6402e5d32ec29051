//! What waits for what, and what does not.

use bytes::Bytes;

use crate::harness::*;
use ninep_rs::{Rmessage, Tag};

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
