//! What waits, and what is long, delays nothing else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ninep_rs::{Client, ClientConfig, Handle, OpenMode};
use ollie_client::{CallEvent, Credentials, dial_toolsrv};
use ollie_protocol::auth::Handshake;
use ollie_protocol::{EventFormat, Nonce};
use ollie_tests::{Toolsrv, delayed, shell_call};

/// Small requests of which the middle one counts.
const REQUESTS: usize = 1000;

/// They are made by the hundred, and those hundreds count during which so many
/// bytes went another way, where that is measured.
const HUNDRED: usize = 100;
const BUSY: u64 = 1_000_000;

/// A connection to the socket, message by message, and its root.
async fn by_hand(toolsrv: &Toolsrv) -> (Client, Handle) {
    let (reader, writer) = toolsrv.stream().await.into_split();
    let client = Client::spawn(reader, writer, ClientConfig::default());
    client.version().await.expect("a version");
    let (session, agent) = (toolsrv.session(), "hand");
    let (afid, authenticating) = client.auth(session, agent);
    authenticating.await.expect("an afid");
    let nonce = afid.read(0, 32).await.expect("a nonce");
    let handshake = Handshake {
        server: Nonce::from_bytes((&*nonce).try_into().expect("32 bytes")),
        client: Nonce::from_bytes([9; 32]),
        uname: session,
        aname: agent,
    };
    let proof = toolsrv.token(agent).client_proof(&handshake);
    let written = [&[9; 32][..], proof.as_bytes()].concat();
    afid.write(0, written).await.expect("the proof is right");
    let (root, attaching) = client.attach(Some(&afid), session, agent);
    attaching.await.expect("the root");
    (client, root)
}

async fn opened(root: &Handle, path: &str, mode: OpenMode) -> Handle {
    let (file, walking) = root.walk(path.split('/'));
    walking.await.expect("it is there");
    file.open(mode).await.expect("it can be opened");
    file
}

/// The middle one of a thousand requests, one after the other.
async fn p50(file: &Handle) -> Duration {
    let mut beat = 0;
    p50_beside(file, async || {
        beat += BUSY;
        beat
    })
    .await
}

/// The same beside what `passed` counts.
async fn p50_beside(file: &Handle, mut passed: impl AsyncFnMut() -> u64) -> Duration {
    let mut times = Vec::with_capacity(REQUESTS);
    let deadline = Instant::now() + Duration::from_secs(30);
    while times.len() < REQUESTS {
        assert!(Instant::now() < deadline, "nothing went another way");
        let before = passed().await;
        let mut hundred = Vec::with_capacity(HUNDRED);
        for _ in 0..HUNDRED {
            let begun = Instant::now();
            file.read(0, 64).await.expect("a small answer");
            hundred.push(begun.elapsed());
        }
        if passed().await - before >= BUSY {
            times.extend(hundred);
        }
    }
    times.sort_unstable();
    times[REQUESTS / 2]
}

#[tokio::test]
async fn blocked_and_long_requests_delay_no_other_fid() {
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let _first = toolsrv.first().await;
    let (_client, root) = by_hand(&toolsrv).await;
    let small = opened(&root, "version", OpenMode::READ).await;
    let start = async |id: &str, code: &str, stdin: bool| {
        let mut call = shell_call(id, code);
        call.stdin = stdin;
        call.events = EventFormat::Raw;
        let file = opened(&root, "proc/new", OpenMode::READ_WRITE).await;
        let json = serde_json::to_vec(&call).expect("it is JSON");
        file.write(0, json).await.expect("it starts");
        file
    };
    let _ = p50(&small).await;
    let before = p50(&small).await;

    // Reads that wait: of events, of a log, for an end.
    let silent = start("silent", "exec sleep 4242", true).await;
    let mut waiting = vec![silent.read(0, 4096), silent.read(0, 4096)];
    for file in ["stdout", "wait"] {
        let file = opened(&root, &format!("proc/silent/{file}"), OpenMode::READ).await;
        waiting.push(file.read(0, 4096));
    }
    let reading = p50(&small).await;

    // Writes that wait: more than pipe and queue take.
    let writes: Vec<_> = (0..32)
        .map(|_| silent.write(0, vec![b'x'; 64 * 1024]))
        .collect();
    let writing = p50(&small).await;

    // More than ten megabytes on their way, in pieces of 64 KiB.
    let flood = start("flood", "exec cat /dev/zero", false).await;
    let poured = Arc::new(AtomicU64::new(0));
    let pours = Arc::clone(&poured);
    let pouring = tokio::spawn(async move {
        let mut reads = VecDeque::new();
        loop {
            while reads.len() < 4 {
                reads.push_back(flood.read(0, 64 * 1024));
            }
            match reads.pop_front().expect("four are outstanding").await {
                Ok(bytes) if !bytes.is_empty() => {
                    pours.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                _ => return,
            }
        }
    });
    let flooded = p50_beside(&small, async || poured.load(Ordering::Relaxed)).await;
    let ctl = opened(&root, "proc/flood/ctl", OpenMode::WRITE).await;
    ctl.write(0, "kill").await.expect("a word");
    pouring.await.expect("the flood ends");
    let poured = poured.load(Ordering::Relaxed);
    assert!(poured > 10_000_000, "{poured} bytes");

    // Output that nobody reads but toolsrv itself, as fast as it comes.
    let pumped = opened(&root, "proc/new.bg", OpenMode::READ_WRITE).await;
    let call = serde_json::to_vec(&shell_call("pump", "exec cat /dev/zero")).unwrap();
    pumped.write(0, call).await.unwrap();
    let (log, walking) = root.walk(["proc", "pump", "output"]);
    walking.await.unwrap();
    let pumping = p50_beside(&small, async || log.stat().await.unwrap().length).await;

    let ctl = opened(&root, "proc/pump/ctl", OpenMode::WRITE).await;
    ctl.write(0, "kill").await.expect("a word");

    drop((waiting, writes));
    // The machine has other things to do as well, now more and now less.
    let after = p50(&small).await;
    println!(
        "p50 alone {before:?} and {after:?}, beside blocked reads {reading:?}, blocked writes \
         {writing:?}, {poured} bytes {flooded:?}, a pump {pumping:?}"
    );
    let bound = before.max(after) * 2;
    for (busy, what) in [
        (reading, "reads"),
        (writing, "writes"),
        (flooded, "a long answer"),
        (pumping, "a background call"),
    ] {
        assert!(busy <= bound, "{what}: {busy:?}, bound {bound:?}");
    }
}

/// From the request to the first output of a command, and to the result of a
/// short one, it is one round trip.
#[tokio::test]
async fn a_call_is_one_burst() {
    const EACH_WAY: Duration = Duration::from_millis(100);
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let (reader, writer) = toolsrv.channel();
    let (reader, writer) = delayed(reader, writer, EACH_WAY);
    let key = toolsrv.secret();
    let credentials = Credentials {
        key: &key,
        session: toolsrv.session(),
        agent: "far",
        nonce: Some(toolsrv.nonce),
    };
    // The handshake of the exec channel is one as well.
    let begun = Instant::now();
    let conn = dial_toolsrv(reader, writer, credentials, ClientConfig::default())
        .await
        .unwrap();
    let handshake = begun.elapsed();
    let first_output = async |id: &str| {
        let begun = Instant::now();
        let mut call = conn.call(&shell_call(id, "echo out")).unwrap();
        let mut output = None;
        while let Some(event) = call.next().await.unwrap() {
            if let CallEvent::Output { .. } = event {
                output.get_or_insert(begun.elapsed());
            }
        }
        (output.unwrap(), begun.elapsed())
    };
    first_output("cold").await;
    let (output, result) = first_output("warm").await;
    println!(
        "way there and back 200 ms: handshake {handshake:?}, first output {output:?}, result \
         {result:?}"
    );
    // Two would be 400 ms.
    for (took, what) in [
        (handshake, "handshake"),
        (output, "first output"),
        (result, "result"),
    ] {
        assert!(
            took >= EACH_WAY * 2 && took < EACH_WAY * 4,
            "{what}: {took:?}"
        );
    }
}

/// A far link is kept busy by what is asked for ahead, and calls that say much
/// at once do not take each other's place.
#[tokio::test]
async fn a_long_output_does_not_wait_for_the_way_back() {
    const EACH_WAY: Duration = Duration::from_millis(25);
    const LENGTH: usize = 16 * 1024 * 1024;
    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let (reader, writer) = toolsrv.channel();
    let (reader, writer) = delayed(reader, writer, EACH_WAY);
    let key = toolsrv.secret();
    let credentials = Credentials {
        key: &key,
        session: toolsrv.session(),
        agent: "far",
        nonce: Some(toolsrv.nonce),
    };
    let conn = dial_toolsrv(reader, writer, credentials, ClientConfig::default())
        .await
        .unwrap();
    let count = AtomicU64::new(0);
    let length_of = async |code: String| {
        let id = format!("call{}", count.fetch_add(1, Ordering::Relaxed));
        let mut call = shell_call(&id, &code);
        call.events = EventFormat::Raw;
        call.queue = false;
        let mut call = conn.call(&call).unwrap();
        let mut length = 0;
        while let Some(event) = call.next().await.unwrap() {
            if let CallEvent::Output { data, .. } = event {
                length += data.len();
            }
        }
        length
    };
    let begun = Instant::now();
    let length = length_of(format!("head -c {LENGTH} /dev/zero")).await;
    let took = begun.elapsed();
    println!("{length} bytes took {took:?}");
    assert_eq!(length, LENGTH);
    // A read is answered with what a pipe holds at most, 64 KiB (pipe(7)); with
    // four at a time it would be 64 ways there and back.
    assert!(took < EACH_WAY * 2 * 64 / 2, "{took:?}");

    // Each has the reads with which it begins, whoever else reads ahead.
    let two = || length_of("head -c 2000000 /dev/zero".to_owned());
    let lengths = tokio::join!(two(), two(), two(), two(), two(), two(), two(), two());
    assert_eq!(<[usize; 8]>::from(lengths), [2_000_000; 8]);
}
