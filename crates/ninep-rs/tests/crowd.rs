//! What strangers cost. A process of its own, because it looks at its memory.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers are test code outside of test functions"
)]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ninep_rs::{
    AuthFile, Fid, Node, Refusal, ServerConfig, Service, Tag, Tmessage, VERSION, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

struct Closed;

impl Service for Closed {
    fn auth(&self, _uname: &str, _aname: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        Ok(Box::new(Closed))
    }

    fn attach(
        &self,
        _uname: &str,
        _aname: &str,
        _auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        Err(Refusal::denied())
    }
}

impl AuthFile for Closed {
    fn read(&self, _count: u32) -> Result<Bytes, Refusal> {
        Ok(Bytes::new())
    }

    fn write(&self, _data: &[u8]) -> Result<u32, Refusal> {
        Err(Refusal::denied())
    }

    fn done(&self) -> bool {
        false
    }
}

/// Resident memory of this process, in bytes (proc(5)).
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let digits = line.unwrap().chars().filter(char::is_ascii_digit);
    digits.collect::<String>().parse::<usize>().unwrap() * 1024
}

fn connect() -> DuplexStream {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(far);
    let server = serve(reader, writer, Arc::new(Closed), ServerConfig::default());
    tokio::spawn(server);
    near
}

/// One after the other: threads of the test runner would share the memory that is looked at.
#[tokio::test]
async fn a_thousand_strangers_cost_little_idle_or_not() {
    let before = resident();
    let idle: Vec<_> = (0..1000).map(|_| connect()).collect();
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    let each = resident().saturating_sub(before) / idle.len();
    // 2 to 3 KiB were measured, the test's own end of the stream included.
    assert!(each < 15 * 1024, "{each} bytes for an idle stranger");

    // Now each makes all the authentication files it can, with the longest names that a message may have.
    let mut hello = BytesMut::new();
    let version = Tmessage::Version {
        msize: 1 << 20,
        version: VERSION.to_owned(),
    };
    version.encode(Tag::NONE, &mut hello).unwrap();
    for afid in 0..100 {
        let auth = Tmessage::Auth {
            afid: Fid(afid),
            uname: "u".repeat(4000),
            aname: "a".repeat(4000),
        };
        auth.encode(Tag(0), &mut hello).unwrap();
    }
    let busy = 100;
    let mut streams = idle;
    let before = resident();
    for stream in &mut streams[..busy] {
        stream.write_all(&hello).await.unwrap();
        // Rversion, 16 times Rauth, and the first Rerror.
        let mut answers = vec![0; 19 + 16 * 20 + 9];
        stream.read_exact(&mut answers).await.unwrap();
        assert_eq!(answers[19 + 16 * 20 + 4], 107);
    }
    let each = resident().saturating_sub(before) / busy;
    // 237,000 were measured: 16 files with 8000 bytes of names are 128,000, the rest is the stream and what is read
    // at once.
    assert!(each < 5 * 237_000, "{each} bytes for a busy stranger");
}
