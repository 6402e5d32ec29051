//! What a message costs: the server engine beside a server that only echoes, in one run, with one client.
//!
//! `cargo bench -p ninep-rs` prints a line for each: messages a second, and the engine's share of the echo's.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ninep_rs::{
    Answer, AuthFile, Directory, Fid, File, Node, OpenMode, Qid, Refusal, ServerConfig, Service,
    Stat, Tag, Tmessage, answer, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of a request and of its answer.
const LENGTH: usize = 120;

/// How long each figure is measured, and how often the two take turns.
const TIME: Duration = Duration::from_millis(300);
const ROUNDS: usize = 5;

struct Zeros;

impl Node for Zeros {
    fn qid(&self) -> Qid {
        Qid::file(1)
    }

    fn stat(&self) -> Stat {
        Stat::new("zeros", self.qid(), 0o666)
    }

    fn open(&self, _mode: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Zeros))
    }
}

impl File for Zeros {
    fn read(self: Arc<Self>, _offset: u64, count: u32) -> Answer<Bytes> {
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        answer(Ok(Bytes::from_static(&ZEROS[..count as usize])))
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        answer(Ok(u32::try_from(data.len()).unwrap()))
    }
}

struct Tree;

impl Service for Tree {
    fn attach(
        &self,
        _uname: &str,
        _aname: &str,
        _auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        Ok(Arc::new(Directory::new("/", 0, vec![Arc::new(Zeros)])))
    }
}

/// Serves one end of a socket pair on a thread of its own; returns the other end.
fn server<F, T>(serve: F) -> UnixStream
where
    F: FnOnce(tokio::net::UnixStream) -> T + Send + 'static,
    T: Future<Output = ()>,
{
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            far.set_nonblocking(true).unwrap();
            serve(tokio::net::UnixStream::from_std(far).unwrap()).await;
        });
    });
    near
}

/// Answers every message with one of the same length.
async fn echo(mut stream: tokio::net::UnixStream) {
    let mut buffer = vec![0; 65536];
    let mut have = 0;
    loop {
        match stream.read(&mut buffer[have..]).await {
            Ok(0) | Err(_) => return,
            Ok(read) => have += read,
        }
        let mut out = Vec::new();
        let mut at = 0;
        while have - at >= 4 {
            let size = u32::from_le_bytes(buffer[at..at + 4].try_into().unwrap()) as usize;
            if have - at < size {
                break;
            }
            out.extend_from_slice(&buffer[at..at + size]);
            at += size;
        }
        buffer.copy_within(at..have, 0);
        have -= at;
        if stream.write_all(&out).await.is_err() {
            return;
        }
    }
}

async fn engine(mut stream: tokio::net::UnixStream) {
    let (reader, writer) = stream.split();
    let _ = serve(reader, writer, Arc::new(Tree), ServerConfig::default()).await;
}

/// Messages a second, `burst` of them out at once.
fn rate(stream: &mut UnixStream, request: &[u8], answer: usize, burst: usize) -> f64 {
    let requests = request.repeat(burst);
    let mut answers = vec![0; answer * burst];
    let begun = Instant::now();
    let mut messages = 0;
    while begun.elapsed() < TIME {
        for _ in 0..100 {
            stream.write_all(&requests).unwrap();
            stream.read_exact(&mut answers).unwrap();
            messages += burst;
        }
    }
    messages as f64 / begun.elapsed().as_secs_f64()
}

fn encoded(messages: &[(Tag, Tmessage)]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for (tag, message) in messages {
        message.encode(*tag, &mut bytes).unwrap();
    }
    bytes
}

fn opened() -> UnixStream {
    let mut stream = server(engine);
    let setup = encoded(&[
        (
            Tag::NONE,
            Tmessage::Version {
                msize: 1 << 20,
                version: "9P2000".to_owned(),
            },
        ),
        (
            Tag(0),
            Tmessage::Attach {
                fid: Fid(0),
                afid: Fid::NONE,
                uname: "none".to_owned(),
                aname: String::new(),
            },
        ),
        (
            Tag(0),
            Tmessage::Walk {
                fid: Fid(0),
                newfid: Fid(1),
                names: vec!["zeros".to_owned()],
            },
        ),
        (
            Tag(0),
            Tmessage::Open {
                fid: Fid(1),
                mode: OpenMode::READ_WRITE.to_wire(),
            },
        ),
    ]);
    stream.write_all(&setup).unwrap();
    // Rversion, Rattach, Rwalk with one qid, Ropen.
    let mut answers = [0; 19 + 20 + 22 + 24];
    stream.read_exact(&mut answers).unwrap();
    stream
}

fn main() {
    let write = encoded(&[(
        Tag(1),
        Tmessage::Write {
            fid: Fid(1),
            offset: 0,
            data: Bytes::from(vec![0; LENGTH - 23]),
        },
    )]);
    let read = encoded(&[(
        Tag(1),
        Tmessage::Read {
            fid: Fid(1),
            offset: 0,
            count: u32::try_from(LENGTH).unwrap() - 11,
        },
    )]);
    let mut echo = server(echo);
    let mut engine = opened();
    for burst in [1, 4, 64] {
        // The two take turns, and the best turn of each counts: what disturbs a machine only ever slows it down.
        let mut best = [0.0_f64; 3];
        for _ in 0..ROUNDS {
            best[0] = best[0].max(rate(&mut echo, &write, LENGTH, burst));
            best[1] = best[1].max(rate(&mut engine, &write, 11, burst));
            best[2] = best[2].max(rate(&mut engine, &read, LENGTH, burst));
        }
        let [echo, write, read] = best;
        println!(
            "{burst:2} at once: echo {echo:.0}/s, Twrite of 120 bytes {write:.0}/s ({:.2}), Rread of 120 bytes {read:.0}/s ({:.2})",
            write / echo,
            read / echo
        );
    }
}
