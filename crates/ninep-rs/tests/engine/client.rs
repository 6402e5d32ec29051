//! The client engine, against a server that is played by the test.

use bytes::{Bytes, BytesMut};
use ninep_rs::{
    Client, ClientConfig, Direction, Error, Fid, Frames, Handle, OpenMode, Qid, Rmessage, Tag,
    Tmessage, Trace,
};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::harness;

/// The server's end of the stream.
struct Server {
    stream: DuplexStream,
    frames: Frames,
}

impl Server {
    fn connect(config: ClientConfig, room: usize) -> (Client, Self) {
        let (near, far) = tokio::io::duplex(room);
        let (reader, writer) = tokio::io::split(near);
        let server = Server {
            stream: far,
            frames: Frames::new(),
        };
        (Client::spawn(reader, writer, config), server)
    }

    /// With a root, fid 0, that the server has agreed to.
    async fn attached() -> (Client, Self, Handle) {
        let (client, mut server) = Self::connect(ClientConfig::default(), 1 << 20);
        let (root, attached) = client.attach(None, "glenda", "");
        let (tag, _) = server.next().await.unwrap();
        server
            .answer(
                tag,
                Rmessage::Attach {
                    qid: Qid::directory(1),
                },
            )
            .await;
        attached.await.unwrap();
        (client, server, root)
    }

    async fn next(&mut self) -> Option<(Tag, Tmessage)> {
        loop {
            if let Some(frame) = self.frames.next(u32::MAX).unwrap() {
                return Some(Tmessage::decode(frame).unwrap());
            }
            if harness::within(self.stream.read_buf(self.frames.space()))
                .await
                .unwrap()
                == 0
            {
                return None;
            }
        }
    }

    async fn answer(&mut self, tag: Tag, message: Rmessage) {
        let mut bytes = BytesMut::new();
        message.encode(tag, &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
    }
}

#[tokio::test]
async fn requests_made_before_the_first_await_leave_in_one_write() {
    let (client, mut server) = Server::connect(ClientConfig::default(), 1 << 20);
    let _version = client.version();
    let (root, _attached) = client.attach(None, "glenda", "");
    let (file, _walked) = root.walk(["proc", "new"]);
    let _opened = file.open(OpenMode::READ_WRITE);
    let _written = file.write(0, Bytes::from(vec![7; 6000]));
    let _read = file.read(0, 8192);
    let mut bytes = BytesMut::with_capacity(1 << 20);
    server.stream.read_buf(&mut bytes).await.unwrap();
    server.frames.space().extend_from_slice(&bytes);
    let mut kinds = Vec::new();
    while let Some(frame) = server.frames.next(u32::MAX).unwrap() {
        kinds.push(frame[4]);
    }
    // Tversion, Tattach, Twalk, Topen, Twrite, Tread.
    assert_eq!(kinds, [100, 104, 110, 112, 118, 116]);
    assert!(server.frames.at_boundary());
}

#[tokio::test]
async fn a_dropped_request_is_flushed_and_its_tag_not_used_before_rflush() {
    let (_client, mut server, root) = Server::attached().await;
    let pending = root.read(0, 1);
    let (old, _) = server.next().await.unwrap();
    drop(pending);
    let (flush, message) = server.next().await.unwrap();
    assert_eq!(message, Tmessage::Flush { oldtag: old });
    let second = root.stat();
    let (other, _) = server.next().await.unwrap();
    assert_ne!(other, old);
    // The answer of the flushed request is no surprise, and frees nothing.
    server.answer(old, harness::data(b"x")).await;
    server.answer(other, harness::error("no")).await;
    assert!(matches!(second.await, Err(Error::Remote(why)) if why == "no"));
    let third = root.stat();
    let (other, _) = server.next().await.unwrap();
    assert_ne!(other, old);
    server.answer(flush, Rmessage::Flush).await;
    server.answer(other, harness::error("no")).await;
    assert!(third.await.is_err());
    // Now it may be.
    let reused = [root.stat(), root.stat(), root.stat()];
    let mut tags = Vec::new();
    for _ in &reused {
        tags.push(server.next().await.unwrap().0);
    }
    assert!(tags.contains(&old), "{old} is not among {tags:?}");
}

#[tokio::test]
async fn cancelling_gives_the_answer_that_was_on_its_way() {
    let (_client, mut server, root) = Server::attached().await;
    let read = root.read(0, 9);
    let cancelled = tokio::spawn(read.cancel());
    let (old, _) = server.next().await.unwrap();
    let (flush, _) = server.next().await.unwrap();
    server.answer(old, harness::data(b"kept")).await;
    server.answer(flush, Rmessage::Flush).await;
    assert_eq!(cancelled.await.unwrap().unwrap().unwrap(), "kept");

    let cancelled = tokio::spawn(root.read(0, 9).cancel());
    server.next().await.unwrap();
    let (flush, _) = server.next().await.unwrap();
    server.answer(flush, Rmessage::Flush).await;
    assert_eq!(cancelled.await.unwrap().unwrap(), None);
}

#[tokio::test]
async fn a_cancel_that_is_itself_dropped_leaves_the_tag_to_its_rflush() {
    let (_client, mut server, root) = Server::attached().await;
    let cancelled = tokio::spawn(root.read(0, 9).cancel());
    let (old, _) = server.next().await.unwrap();
    let (flush, _) = server.next().await.unwrap();
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    let later = root.stat();
    let (other, message) = server.next().await.unwrap();
    // One Tflush was enough.
    assert!(matches!(message, Tmessage::Stat { .. }));
    assert_ne!(other, old);
    server.answer(flush, Rmessage::Flush).await;
    server.answer(other, harness::error("no")).await;
    assert!(later.await.is_err());
}

#[tokio::test]
async fn a_dropped_handle_is_clunked_and_its_number_used_anew_after_the_answer() {
    let (_client, mut server, root) = Server::attached().await;
    let (file, walked) = root.walk(["x"]);
    walked.detach();
    server.next().await.unwrap();
    let fid = file.fid();
    drop(file);
    let (tag, message) = server.next().await.unwrap();
    assert_eq!(message, Tmessage::Clunk { fid });
    let (second, walked) = root.walk(["x"]);
    walked.detach();
    assert_ne!(second.fid(), fid);
    server.next().await.unwrap();
    server.answer(tag, Rmessage::Clunk).await;
    let answered = root.stat();
    let (tag, _) = server.next().await.unwrap();
    server.answer(tag, harness::error("no")).await;
    answered.await.unwrap_err();
    assert_eq!(root.walk(["x"]).0.fid(), fid);
}

#[tokio::test]
async fn the_end_of_the_stream_fails_everything_that_waits() {
    let (client, mut server, root) = Server::attached().await;
    let first = root.read(0, 1);
    let second = root.stat();
    server.next().await.unwrap();
    server.next().await.unwrap();
    drop(server);
    for error in [first.await.unwrap_err(), second.await.unwrap_err()] {
        let Error::Closed(why) = error else {
            panic!("{error}")
        };
        assert!(matches!(*why, Error::EndOfStream));
    }
    assert!(matches!(*client.closed().await, Error::EndOfStream));
    assert!(matches!(root.stat().await, Err(Error::Closed(_))));
    assert!(matches!(client.ready().await, Err(Error::Closed(_))));
}

#[tokio::test]
async fn a_stream_that_ends_inside_a_message_is_told_apart() {
    let (client, mut server, _root) = Server::attached().await;
    server.stream.write_all(&[11, 0, 0, 0, 119]).await.unwrap();
    drop(server);
    assert!(matches!(*client.closed().await, Error::Truncated));
}

#[tokio::test]
async fn the_last_handle_s_end_sends_what_is_queued_and_closes() {
    let (client, mut server, root) = Server::attached().await;
    let fid = root.fid();
    drop(client);
    drop(root);
    assert_eq!(server.next().await.unwrap().1, Tmessage::Clunk { fid });
    assert!(server.next().await.is_none());
}

#[tokio::test]
async fn a_server_that_does_not_read_fills_the_queue_and_no_more() {
    let mut config = ClientConfig::default();
    config.queue = 10_000;
    let (client, mut server) = Server::connect(config, 64);
    let (root, attached) = client.attach(None, "glenda", "");
    let mut writes = vec![];
    let full = loop {
        let write = root.write(0, Bytes::from(vec![0; 3000]));
        writes.push(write);
        assert!(writes.len() < 100, "the queue has no end");
        if writes.len() > 5 {
            break writes.pop().unwrap();
        }
    };
    let full = harness::within(full).await;
    assert!(matches!(full, Err(Error::QueueFull)));
    // A clunk is never refused.
    let (file, walked) = root.walk(["x"]);
    assert!(matches!(walked.await, Err(Error::QueueFull)));
    drop(file);
    let mut clunked = false;
    let reading = async {
        while let Some((tag, message)) = server.next().await {
            match message {
                Tmessage::Write { data, .. } => {
                    let count = u32::try_from(data.len()).unwrap();
                    server.answer(tag, Rmessage::Write { count }).await;
                }
                Tmessage::Clunk { .. } => {
                    server.answer(tag, Rmessage::Clunk).await;
                    clunked = true;
                    return;
                }
                _ => {
                    let qid = Qid::directory(1);
                    server.answer(tag, Rmessage::Attach { qid }).await;
                }
            }
        }
    };
    let (ready, ()) = tokio::join!(client.ready(), reading);
    ready.unwrap();
    assert!(clunked);
    attached.await.unwrap();
    for write in writes.into_iter().take(3) {
        assert_eq!(write.await.unwrap(), 3000);
    }
}

#[tokio::test]
async fn what_breaks_the_protocol_ends_the_connection_or_the_request() {
    let (client, mut server, _root) = Server::attached().await;
    server.answer(Tag(77), Rmessage::Flush).await;
    assert!(matches!(*client.closed().await, Error::Protocol(_)));

    for (wrong, at) in [(Rmessage::Clunk, "type"), (harness::data(b"four"), "count")] {
        let (_client, mut server, root) = Server::attached().await;
        let read = root.read(0, 3);
        let (tag, _) = server.next().await.unwrap();
        server.answer(tag, wrong).await;
        assert!(matches!(read.await, Err(Error::Protocol(_))), "{at}");
    }

    let (client, mut server) = Server::connect(ClientConfig::default(), 1 << 20);
    let version = client.version();
    server.next().await.unwrap();
    server
        .answer(
            Tag::NONE,
            Rmessage::Version {
                msize: 8192,
                version: "unknown".to_owned(),
            },
        )
        .await;
    assert!(matches!(version.await, Err(Error::Version(what)) if what == "unknown"));
}

#[tokio::test]
async fn a_walk_that_stops_on_its_way_is_an_error() {
    let (_client, mut server, root) = Server::attached().await;
    let (_file, walked) = root.walk(["a", "b", "c"]);
    let (tag, _) = server.next().await.unwrap();
    let qids = vec![Qid::directory(2)];
    server.answer(tag, Rmessage::Walk { qids }).await;
    assert!(matches!(
        walked.await,
        Err(Error::WalkStopped {
            walked: 1,
            wanted: 3
        })
    ));
}

#[tokio::test]
async fn what_does_not_fit_msize_is_not_sent() {
    let (client, mut server) = Server::connect(ClientConfig::default(), 1 << 20);
    let version = client.version();
    server.next().await.unwrap();
    let agreed = harness_version(4096);
    server.answer(Tag::NONE, agreed).await;
    assert_eq!(version.await.unwrap(), 4096);
    assert_eq!(client.max_data(), 4096 - 24);
    let (root, _attached) = client.attach(None, "glenda", "");
    server.next().await.unwrap();
    let long = root.write(0, vec![0; 4096 - 22]);
    assert!(matches!(long.await, Err(Error::TooLong(_))));
    let fits = root.write(0, vec![0; 4096 - 23]);
    let (_, message) = server.next().await.unwrap();
    assert!(matches!(message, Tmessage::Write { data, .. } if data.len() == 4096 - 23));
    drop(fits);
}

fn harness_version(msize: u32) -> Rmessage {
    Rmessage::Version {
        msize,
        version: ninep_rs::VERSION.to_owned(),
    }
}

#[tokio::test]
async fn bytes_that_come_are_noticed() {
    let (client, mut server, root) = Server::attached().await;
    let before = client.last_heard();
    let answer = root.stat();
    let (tag, _) = server.next().await.unwrap();
    while before.elapsed().as_micros() < 2 {
        tokio::task::yield_now().await;
    }
    server.answer(tag, harness::error("no")).await;
    answer.await.unwrap_err();
    assert!(client.last_heard() > before);
}

#[tokio::test]
async fn a_raw_request_may_be_anything_but_a_flush() {
    let (client, mut server, _root) = Server::attached().await;
    let flush = client.submit(&Tmessage::Flush { oldtag: Tag(1) });
    assert!(matches!(flush.await, Err(Error::Protocol(_))));
    let raw = client.submit(&Tmessage::Stat {
        fid: Fid(0x8000_0000),
    });
    let (tag, _) = server.next().await.unwrap();
    server.answer(tag, Rmessage::Wstat).await;
    assert_eq!(raw.await.unwrap(), Rmessage::Wstat);
}

#[tokio::test]
async fn a_trace_shows_both_directions_and_no_data() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut config = ClientConfig::default();
    config.trace = Some(Trace::new({
        let lines = Arc::clone(&lines);
        move |direction, message| {
            let arrow = match direction {
                Direction::Out => "->",
                Direction::In => "<-",
            };
            lines.lock().unwrap().push(format!("{arrow} {message}"));
        }
    }));
    let (client, mut server) = Server::connect(config, 1 << 20);
    let (root, attached) = client.attach(None, "glenda", "");
    let (tag, _) = server.next().await.unwrap();
    let qid = Qid::directory(1);
    server.answer(tag, Rmessage::Attach { qid }).await;
    attached.await.unwrap();
    let write = root.write(7, "secret");
    let (tag, _) = server.next().await.unwrap();
    server.answer(tag, Rmessage::Write { count: 6 }).await;
    write.await.unwrap();
    let expected = [
        r#"-> Tattach tag 0 fid 0 afid NOFID uname "glenda" aname """#,
        "<- Rattach tag 0 qid (0000000000000001 0 80)",
        "-> Twrite tag 0 fid 0 offset 7 count 6",
        "<- Rwrite tag 0 count 6",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_reads_does_not_keep_a_client_alive() {
    let (client, mut server) = Server::connect(ClientConfig::default(), 64);
    let (root, attached) = client.attach(None, "glenda", "");
    root.write(0, vec![0; 3000]).detach();
    drop((client, root, attached));
    // The clock is not the machine's: it jumps to what is waited for next.
    tokio::time::sleep(std::time::Duration::from_millis(1001)).await;
    let mut rest = Vec::new();
    server.stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len(), 64, "what the connection held, and then its end");
}
