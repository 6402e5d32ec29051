//! A flush is answered at once and loses no byte.

use std::time::{Duration, Instant};

use ninep_rs::{Rmessage, Tmessage};
use ollie_protocol::{CallId, EventFormat};
use ollie_tests::{Dice, Peer, Toolsrv, flush, read, shell_call, write};

/// What a flush of something that waits may take.
const AT_ONCE: Duration = Duration::from_millis(500);

fn call(id: &str, code: &str) -> Tmessage {
    let mut call = shell_call(id, code);
    call.stdin = true;
    call.events = EventFormat::Raw;
    write(1, &serde_json::to_vec(&call).expect("it is JSON"))
}

/// Flushes what was asked with `tag`, and what came before the Rflush.
async fn flushed(peer: &mut Peer, tag: u16) -> Option<Rmessage> {
    let begun = Instant::now();
    peer.send(&[(1000, flush(tag))]).await;
    let first = peer.next().await;
    let before = match first {
        (1000, Rmessage::Flush) => None,
        (got, answer) => {
            assert_eq!(got, tag);
            assert_eq!(peer.next().await, (1000, Rmessage::Flush));
            Some(answer)
        }
    };
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    before
}

/// The output in a stream of raw events.
fn output(mut stream: &[u8]) -> String {
    let mut output = Vec::new();
    while let Some(end) = stream.iter().position(|&byte| byte == b'\n') {
        let event: serde_json::Value = serde_json::from_slice(&stream[..end]).expect("an event");
        stream = &stream[end + 1..];
        if event["type"] == "output" {
            let count = event["bytes"]
                .as_u64()
                .and_then(|count| usize::try_from(count).ok());
            let (data, rest) = stream.split_at(count.expect("a count"));
            output.extend_from_slice(data);
            stream = rest;
        }
    }
    String::from_utf8(output).expect("it is text")
}

#[tokio::test]
async fn reads_of_events_that_are_flushed_at_any_moment_lose_no_byte() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let _first = toolsrv.first().await;
    let mut peer = Peer::attached(&toolsrv).await;
    let mut dice = Dice::new(5);
    peer.open(1, "proc/new", 2).await;
    let code = "i=0; while [ $i -lt 4000 ]; do echo $i; i=$((i+1)); \
                [ $((i % 20)) -gt 0 ] || sleep 0.001; done";
    peer.ask(call("seq", code)).await;
    let (mut stream, mut kept, mut flushes) = (Vec::new(), 0, 0);
    loop {
        let count = u32::try_from(1 + dice.below(2000)).expect("it is small");
        peer.send(&[(7, read(1, 0, count))]).await;
        let answer = match dice.below(2) {
            0 => {
                let answer = flushed(&mut peer, 7).await;
                flushes += 1;
                kept += usize::from(answer.is_some());
                answer
            }
            _ => Some(peer.next().await.1),
        };
        match answer {
            Some(Rmessage::Read { data }) if data.is_empty() => break,
            Some(Rmessage::Read { data }) => stream.extend_from_slice(&data),
            None => {}
            other => panic!("{other:?}"),
        }
    }
    let expected: String = (0..4000).map(|i| format!("{i}\n")).collect();
    assert_eq!(output(&stream), expected);
    println!("{flushes} flushes, {kept} of them after the answer");
    assert!(kept > 10 && flushes > kept + 10);
}

#[tokio::test]
async fn what_waits_is_flushed_at_once_and_the_next_read_has_every_byte() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let first = toolsrv.first().await;
    let mut peer = Peer::attached(&toolsrv).await;
    peer.open(1, "proc/new", 2).await;
    let code = "while [ ! -e go ]; do sleep 0.01; done; wc -c";
    peer.ask(call("wait", code)).await;
    // The news that it has started.
    let Rmessage::Read { data } = peer.ask(read(1, 0, 8192)).await else {
        panic!("no event");
    };
    assert!(data.starts_with(b"{\"type\":\"started\""));

    for (fid, file) in [(1, ""), (2, "output"), (3, "wait")] {
        if !file.is_empty() {
            peer.open(fid, &format!("proc/wait/{file}"), 0).await;
        }
        peer.send(&[(7, read(fid, 0, 8192))]).await;
        assert_eq!(flushed(&mut peer, 7).await, None, "{file}");
    }

    // More standard input than is taken before it is read. What is flushed was
    // taken whole, and then it has been answered, or not at all.
    let piece = vec![b'x'; 64 * 1024];
    let writes: Vec<_> = (100..116).map(|tag| (tag, write(1, &piece))).collect();
    peer.send(&writes).await;
    let mut taken = 0;
    peer.send(
        &(100..116)
            .map(|tag| (tag + 100, flush(tag)))
            .collect::<Vec<_>>(),
    )
    .await;
    let mut flushes = 0;
    while flushes < 16 {
        match peer.next().await {
            (_, Rmessage::Write { count }) => taken += count,
            (tag, Rmessage::Flush) if tag >= 200 => flushes += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(taken > 0 && taken < 16 * 64 * 1024, "{taken}");
    world.write("home/project/go", "");
    peer.ask(write(1, b"")).await;
    let id = CallId::new("wait").expect("it is a name");
    let mut stream = Vec::new();
    loop {
        match peer.ask(read(1, 0, 8192)).await {
            Rmessage::Read { data } if data.is_empty() => break,
            Rmessage::Read { data } => stream.extend_from_slice(&data),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(output(&stream), format!("{taken}\n"));
    assert!(first.wait(&id).await.expect("it has ended").ok);
}
