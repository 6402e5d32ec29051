//! What a small request waits for when a stream runs on the same connection.
//!
//! `cargo bench -p ninep-rs --bench beside` prints medians of a Tstat alone, and beside reads that never end.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ninep_rs::{
    Answer, AuthFile, Client, ClientConfig, Directory, File, Handle, Node, OpenMode, Qid, Refusal,
    ServerConfig, Service, Stat, answer, serve,
};

struct Zeros;

impl Node for Zeros {
    fn qid(&self) -> Qid {
        Qid::file(1)
    }

    fn stat(&self) -> Stat {
        Stat::new("zeros", self.qid(), 0o444)
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

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn stream(socket: UnixStream) -> tokio::net::UnixStream {
    socket.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(socket).unwrap()
}

/// Microseconds: the median and the 99th percentile of 1,000 stats.
async fn stats(root: &Handle) -> (f64, f64) {
    let mut times = Vec::new();
    for _ in 0..1000 {
        let begun = Instant::now();
        root.stat().await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    (times[500], times[990])
}

fn main() {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let (reader, writer) = stream(far).into_split();
            let _ = serve(reader, writer, Arc::new(Tree), ServerConfig::default()).await;
        });
    });
    runtime().block_on(async {
        let (reader, writer) = stream(near).into_split();
        let client = Client::spawn(reader, writer, ClientConfig::default());
        client.version().await.unwrap();
        let (root, attached) = client.attach(None, "none", "");
        attached.await.unwrap();
        let (median, late) = stats(&root).await;
        println!("alone: median {median:.1} us, p99 {late:.1} us");
        for (count, outstanding) in [(65536, 1), (65536, 8), (65536, 32), (1 << 20, 2)] {
            let file = root.walk_path("zeros").await.unwrap();
            file.open(OpenMode::READ).await.unwrap();
            let streaming = tokio::spawn(async move {
                let mut reads = std::collections::VecDeque::new();
                let mut bytes = 0;
                loop {
                    while reads.len() < outstanding {
                        reads.push_back(file.read(0, count));
                    }
                    bytes += reads.pop_front().unwrap().await.unwrap().len();
                    BYTES.store(bytes, std::sync::atomic::Ordering::Relaxed);
                }
            });
            let begun = Instant::now();
            let (median, late) = stats(&root).await;
            let seconds = begun.elapsed().as_secs_f64();
            let rate = BYTES.swap(0, std::sync::atomic::Ordering::Relaxed) as f64 / seconds / 1e6;
            println!(
                "beside {outstanding} reads of {count}: median {median:.1} us, p99 {late:.1} us ({rate:.0} MB/s)"
            );
            streaming.abort();
            let _ = streaming.await;
        }
    });
}

static BYTES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
