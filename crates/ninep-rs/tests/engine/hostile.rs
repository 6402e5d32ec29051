//! Peers and services that do what they should not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;

use crate::harness::*;
use ninep_rs::{Error, Fid, Rmessage, ServerConfig, Tag, Tmessage, ename};

#[tokio::test]
async fn a_tag_in_use_is_refused_and_its_first_request_goes_on() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "pipe").await;
    peer.send(&[(Tag(10), read(1, 9)), (Tag(10), stat(1))])
        .await;
    assert_eq!(peer.answers(1).await, [(Tag(10), error(ename::TAG_IN_USE))]);
    world.put(b"x");
    assert_eq!(peer.answers(1).await, [(Tag(10), data(b"x"))]);
}

#[tokio::test]
async fn what_a_request_gets_wrong_is_said() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "zero").await;
    for (message, ename) in [
        (stat(99), ename::UNKNOWN_FID),
        (clunk(99), ename::UNKNOWN_FID),
        (walk(99, 2, &[]), ename::UNKNOWN_FID),
        (read(99, 1), ename::UNKNOWN_FID),
        (walk(0, 1, &[]), ename::FID_IN_USE),
        (attach(1, Fid::NONE), ename::FID_IN_USE),
        (walk(0, u32::MAX, &[]), ename::NO_FID),
        (walk(1, 2, &[]), ename::FID_IS_OPEN),
        (open(1, 0), ename::FID_IS_OPEN),
        (read(0, 1), ename::FID_NOT_OPEN),
        (write(0, b"x"), ename::FID_NOT_OPEN),
        (open(0, 1), ename::IS_A_DIRECTORY),
        (open(0, 0x10), ename::IS_A_DIRECTORY),
        (open(0, 0x40), ename::OPEN_MODE),
        (open(0, 4), ename::OPEN_MODE),
        (walk(0, 2, &["nothing"]), ename::NOT_FOUND),
        (walk(0, 2, &["."]), ename::BAD_NAME),
        (walk(0, 2, &[""]), ename::BAD_NAME),
        (walk(0, 2, &["sub/hello"]), ename::BAD_NAME),
        (create(0, ".."), ename::BAD_NAME),
        (create(0, "a/b"), ename::BAD_NAME),
        (create(0, "new"), ename::PERMISSION_DENIED),
        (rename(0, "a/b"), ename::BAD_NAME),
        (rename(0, "new"), ename::PERMISSION_DENIED),
    ] {
        assert_eq!(peer.ask(message.clone()).await, error(ename), "{message:?}");
    }
    peer.send(&[(Tag::NONE, stat(0))]).await;
    assert_eq!(peer.answers(1).await, [(Tag::NONE, error(ename::NO_TAG))]);
}

fn create(fid: u32, name: &str) -> Tmessage {
    Tmessage::Create {
        fid: Fid(fid),
        name: name.to_owned(),
        perm: 0o644,
        mode: 0,
    }
}

fn rename(fid: u32, name: &str) -> Tmessage {
    let mut stat = ninep_rs::Stat::untouched();
    stat.name = name.to_owned();
    Tmessage::Wstat {
        fid: Fid(fid),
        stat,
    }
}

#[tokio::test]
async fn a_fid_is_used_only_as_it_was_opened() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    for (fid, mode) in [(1, 0), (2, 1)] {
        peer.send(&[(Tag(1), walk(0, fid, &["zero"])), (Tag(2), open(fid, mode))])
            .await;
        peer.answers(2).await;
    }
    assert_eq!(
        peer.ask(write(1, b"x")).await,
        error(ename::NOT_OPEN_FOR_WRITING)
    );
    assert_eq!(
        peer.ask(read(2, 1)).await,
        error(ename::NOT_OPEN_FOR_READING)
    );
    // `hello` is 0444, and nothing is executable.
    peer.send(&[(Tag(1), walk(0, 3, &["sub", "hello"]))]).await;
    peer.answers(1).await;
    for mode in [1, 2, 3, 0x10] {
        assert_eq!(
            peer.ask(open(3, mode)).await,
            error(ename::PERMISSION_DENIED)
        );
    }
    assert_eq!(
        peer.ask(walk(3, 4, &["x"])).await,
        error(ename::NOT_A_DIRECTORY)
    );
}

#[tokio::test]
async fn dot_dot_is_the_parent_and_the_root_its_own() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    let walked = peer
        .ask(walk(0, 1, &["sub", "..", "..", "sub", "hello"]))
        .await;
    let Rmessage::Walk { qids } = walked else {
        panic!("{walked:?}")
    };
    let paths: Vec<_> = qids.iter().map(|qid| qid.path).collect();
    assert_eq!(paths, [11, 1, 1, 11, 10]);
}

#[tokio::test]
async fn a_walk_that_stops_on_its_way_makes_no_fid() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    let walked = peer.ask(walk(0, 1, &["sub", "nothing", "hello"])).await;
    assert!(matches!(walked, Rmessage::Walk { qids } if qids.len() == 1));
    assert_eq!(peer.ask(stat(1)).await, error(ename::UNKNOWN_FID));
}

#[tokio::test]
async fn a_path_may_not_be_endless() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.ask(walk(0, 1, &["well"])).await;
    let deeper = walk(1, 1, &["well"; 16]);
    for _ in 0..63 {
        assert!(
            matches!(peer.ask(deeper.clone()).await, Rmessage::Walk { qids } if qids.len() == 16)
        );
    }
    // Depth 1 + 63 * 16 = 1009: 15 more steps are within 1024.
    assert!(matches!(peer.ask(deeper.clone()).await, Rmessage::Walk { qids } if qids.len() == 15));
    assert!(matches!(
        peer.ask(walk(1, 1, &["well"; 15])).await,
        Rmessage::Walk { .. }
    ));
    assert_eq!(peer.ask(deeper).await, error(ename::TOO_DEEP));
}

#[tokio::test]
async fn a_handler_that_panics_costs_its_caller_one_error() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    let internal = error(ename::INTERNAL);
    peer.ask(walk(0, 9, &["mine"])).await;
    assert_eq!(peer.ask(open(9, 0)).await, internal);
    peer.open(1, "bomb").await;
    assert_eq!(peer.ask(read(1, 1)).await, internal);
    assert_eq!(peer.ask(read(1, 1)).await, internal);
    assert_eq!(peer.ask(write(1, b"x")).await, internal);
    assert_eq!(peer.ask(clunk(1)).await, Rmessage::Clunk);
    peer.open(2, "zero").await;
    assert_eq!(peer.ask(read(2, 1)).await, data(&[0]));
    // The end of the connection drops a file that panics, too.
    peer.open(3, "bomb").await;
    let server = peer.server;
    drop((peer.reader, peer.writer));
    assert!(server.await.unwrap().is_ok());
    assert_eq!(world.files.get(), 0);
}

#[tokio::test]
async fn a_file_that_claims_more_than_it_was_given_is_not_believed() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "liar").await;
    assert_eq!(peer.ask(read(1, 4)).await, error(ename::INTERNAL));
    assert_eq!(peer.ask(write(1, b"abc")).await, error(ename::INTERNAL));
}

#[tokio::test]
async fn a_read_may_close_the_connection() {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.open(1, "door").await;
    peer.send(&[(Tag(3), read(1, 1)), (Tag(4), stat(1))]).await;
    let (answers, end) = peer.end().await;
    assert_eq!(answers, [(Tag(3), error("the door is shut"))]);
    assert!(matches!(end, Err(Error::Refused(_))));
}

/// How a connection ends after these bytes, and the last thing it says.
async fn after(bytes: &[u8]) -> (Option<Rmessage>, Result<(), Error>) {
    let world = World::new();
    let mut peer = Peer::attached(&world).await;
    peer.writer.write_all(bytes).await.unwrap();
    peer.writer.shutdown().await.unwrap();
    let (mut answers, end) = peer.end().await;
    (answers.pop().map(|(_, answer)| answer), end)
}

#[tokio::test]
async fn bytes_that_are_no_message_close_the_connection() {
    let (said, end) = after(&[6, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await;
    assert!(said.is_none());
    assert!(matches!(end, Err(Error::FrameTooShort(6))));

    let (said, end) = after(&[0xff, 0xff, 0xff, 0xff, 118, 5, 0, 0]).await;
    assert_eq!(said, Some(error(ename::TOO_LONG)));
    assert!(matches!(end, Err(Error::FrameTooLong { .. })));

    // A Tstat that is one byte short.
    let (said, end) = after(&[10, 0, 0, 0, 124, 5, 0, 0, 0, 0]).await;
    assert_eq!(said, Some(error(ename::MALFORMED)));
    assert!(matches!(end, Err(Error::Malformed(_))));

    // A Tstat whose end never comes.
    let (said, end) = after(&[11, 0, 0, 0, 124, 5, 0]).await;
    assert!(said.is_none());
    assert!(matches!(end, Err(Error::Truncated)));

    // A message of 9P2000.L: refused, and the connection lives.
    let (said, end) = after(&[7, 0, 0, 0, 24, 5, 0]).await;
    assert_eq!(said, Some(error(ename::UNKNOWN_TYPE)));
    assert!(end.is_ok());
}

#[tokio::test]
async fn answers_that_nobody_reads_stop_the_reading_of_requests() {
    const READS: u16 = 400;
    const LENGTH: u32 = 64 * 1024;
    let world = World::new();
    let tree = Tree {
        world: Arc::clone(&world),
        auth: false,
    };
    let mut peer = Peer::connect_with(tree, ServerConfig::default(), 4096);
    peer.attach().await;
    peer.open(1, "zero").await;
    let mut requests = BytesMut::new();
    for tag in 0..READS {
        read(1, LENGTH).encode(Tag(tag), &mut requests).unwrap();
    }
    let mut writer = peer.writer;
    let writing = tokio::spawn(async move {
        writer.write_all(&requests).await.unwrap();
        writer
    });
    // Everything that can run has run many times over.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let made = world.zeros.load(Ordering::SeqCst);
    // 64 KiB of output, one message more, and what the pipe holds.
    let most = 64 * 1024 + LENGTH as usize + 4096;
    assert!(made > 0 && made <= most, "{made} bytes were made");
    assert!(!writing.is_finished(), "every request was read");
    for tag in 0..READS {
        let (answered, answer) = next(&mut peer.reader).await;
        assert_eq!(answered, Tag(tag));
        assert!(matches!(answer, Rmessage::Read { data } if data.len() == LENGTH as usize));
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_smaller_than_what_the_peer_reads_stalls_nothing() {
    let world = World::new();
    let mut config = ServerConfig::default();
    config.output = 1000;
    let tree = Tree {
        world: Arc::clone(&world),
        auth: false,
    };
    let mut peer = Peer::connect_with(tree, config, 1 << 20);
    peer.attach().await;
    peer.open(1, "zero").await;
    let stats: Vec<_> = (0..200).map(|tag| (Tag(tag), stat(1))).collect();
    peer.send(&stats).await;
    peer.answers(200).await;
    let reads: Vec<_> = (0..50).map(|tag| (Tag(tag), read(1, 5000))).collect();
    peer.send(&reads).await;
    peer.answers(50).await;
}

async fn next(reader: &mut (impl tokio::io::AsyncRead + Unpin)) -> (Tag, Rmessage) {
    use tokio::io::AsyncReadExt;
    let size = within(reader.read_u32_le()).await.unwrap();
    let mut frame = size.to_le_bytes().to_vec();
    frame.resize(size as usize, 0);
    reader.read_exact(&mut frame[4..]).await.unwrap();
    Rmessage::decode(frame.into()).unwrap()
}

#[tokio::test]
async fn a_thousand_idle_strangers_do_not_keep_the_owner_out() {
    let world = World::new();
    let strangers: Vec<_> = (0..1000)
        .map(|_| {
            let tree = Tree {
                world: Arc::clone(&world),
                auth: true,
            };
            Peer::connect_with(tree, ServerConfig::default(), 64)
        })
        .collect();
    let mut owner = Peer::connect_guarded(&world);
    owner
        .send(&[
            (Tag::NONE, version(8192)),
            (Tag(1), auth(7)),
            (Tag(2), write(7, SECRET)),
            (Tag(3), attach(0, Fid(7))),
        ])
        .await;
    assert!(matches!(
        owner.answers(4).await[3].1,
        Rmessage::Attach { .. }
    ));
    assert!(strangers.iter().all(|peer| !peer.server.is_finished()));
}

/// A sequence of numbers that is the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.throw(256)).unwrap()
    }
}

fn anything(dice: &mut Dice) -> Tmessage {
    const NAMES: [&str; 8] = ["pipe", "gate", "zero", "sub", "hello", "..", "bad/", "well"];
    let fid = u32::try_from(dice.throw(5)).unwrap();
    let other = u32::try_from(dice.throw(5)).unwrap();
    match dice.throw(12) {
        0 => attach(fid, Fid::NONE),
        1..=3 => {
            let length = dice.throw(3);
            let names: Vec<_> = (0..length).map(|_| NAMES[dice.throw(8)]).collect();
            walk(fid, other, &names)
        }
        4 | 5 => open(fid, u8::try_from(dice.throw(4)).unwrap()),
        6 => read(fid, 30),
        7 => write(fid, b"some"),
        8 => clunk(fid),
        9 => flush(u16::try_from(dice.throw(1000)).unwrap()),
        10 => stat(fid),
        _ => Tmessage::Remove { fid: Fid(fid) },
    }
}

#[tokio::test]
async fn mutated_messages_break_nothing() {
    const MESSAGES: usize = 100_000;
    let world = World::new();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut sent = 0;
    let mut lives = 0;
    while sent < MESSAGES {
        let mut peer = Peer::attached(&world).await;
        peer.open(1, "pipe").await;
        peer.open(2, "zero").await;
        lives += 1;
        let mut bytes = BytesMut::new();
        for _ in 0..50 {
            let start = bytes.len();
            let tag = Tag(u16::try_from(dice.throw(1000)).unwrap());
            anything(&mut dice).encode(tag, &mut bytes).unwrap();
            // The size and the type are left alone more often than not, else little gets past them.
            let first = if dice.throw(8) == 0 { 0 } else { 5 };
            for _ in 0..dice.throw(3) {
                let length = bytes.len() - start - first;
                let at = start + first + dice.throw(length);
                bytes[at] = dice.byte();
            }
            sent += 1;
        }
        // The server may close at any byte; then the rest cannot be written.
        let _ = peer.writer.write_all(&bytes).await;
        let _ = peer.writer.shutdown().await;
        // A panic of the engine would show here.
        let (_, _end) = peer.end().await;
        assert_eq!((world.running.get(), world.files.get()), (0, 0));
    }
    assert!(lives <= sent / 50);
    let mut owner = Peer::attached(&world).await;
    owner.open(2, "zero").await;
    assert_eq!(owner.ask(read(2, 1)).await, data(&[0]));
}

#[tokio::test]
async fn every_request_gets_one_answer_or_is_flushed_whatever_the_sequence() {
    let mut dice = Dice(0xD1B5_4A32_D192_ED03);
    for _ in 0..300 {
        let world = World::new();
        let mut peer = Peer::attached(&world).await;
        let mut flushed = Vec::new();
        for tag in 1..200 {
            let mut message = anything(&mut dice);
            if let Tmessage::Flush { oldtag } = &mut message {
                oldtag.0 = tag - 1 - oldtag.0 % tag;
                flushed.push(*oldtag);
            }
            peer.send(&[(Tag(tag), message)]).await;
            match dice.throw(10) {
                0 => world.put(b"0123456789"),
                1 => world.gate.add_permits(1),
                2 => tokio::task::yield_now().await,
                _ => {}
            }
        }
        // A new version answers what still waits.
        peer.send(&[(Tag::NONE, version(8192))]).await;
        let mut answered = vec![0; 200];
        loop {
            match peer.next().await.unwrap() {
                (Tag::NONE, _) => break,
                (Tag(tag), _) => answered[usize::from(tag)] += 1,
            }
        }
        for tag in 1..200_u16 {
            let answers = answered[usize::from(tag)];
            let may_miss = flushed.contains(&Tag(tag));
            assert!(
                answers == 1 || answers == 0 && may_miss,
                "tag {tag} got {answers} answers"
            );
        }
        assert_eq!((world.running.get(), world.files.get()), (0, 0));
    }
}

#[tokio::test]
async fn an_error_text_that_does_not_fit_is_cut_between_two_letters() {
    struct Poet;
    impl ninep_rs::Service for Poet {
        fn attach(
            &self,
            _uname: &str,
            _aname: &str,
            _auth: Option<&dyn ninep_rs::AuthFile>,
        ) -> Result<Arc<dyn ninep_rs::Node>, ninep_rs::Refusal> {
            Err(ninep_rs::Refusal::new(format!("\0{}", "ä".repeat(40_000))))
        }
    }
    let (near, far) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(far);
    tokio::spawn(ninep_rs::serve(
        reader,
        writer,
        Arc::new(Poet),
        ServerConfig::default(),
    ));
    let (mut reader, mut writer) = tokio::io::split(near);
    let mut bytes = BytesMut::new();
    version(256).encode(Tag::NONE, &mut bytes).unwrap();
    attach(0, Fid::NONE).encode(Tag(1), &mut bytes).unwrap();
    writer.write_all(&bytes).await.unwrap();
    next(&mut reader).await;
    let (_, answer) = next(&mut reader).await;
    // 256 less the 9 bytes of `size[4] Rerror tag[2] ename[2]` are 247: the replacement of NUL takes 3, 122 letters 244.
    assert_eq!(answer, error(&format!("\u{fffd}{}", "ä".repeat(122))));
}
