//! The entry points of the fuzz targets. Each panics if something does not
//! hold, and returns for every input.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ninep_rs::{
    Answer, AuthFile, Directory, File, Frames, Node, OpenMode, Qid, Refusal, Rmessage,
    ServerConfig, Service, Stat, Text, Tmessage, answer,
};
use ollie_agent::backends::Format;
use ollie_protocol::{Boot, CallReader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Longer frames are refused, as by a server.
const LIMIT: u32 = 64 * 1024;

/// Frames, and what is in them: what was understood can be written and read
/// again, and is the same.
pub(crate) fn decode(data: &[u8]) {
    let mut frames = Frames::new();
    for piece in data.chunks(50) {
        frames.space().extend_from_slice(piece);
        loop {
            let frame = match frames.next(LIMIT) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // Nothing is read after such a length.
                Err(_) => return,
            };
            if let Ok((tag, message)) = Tmessage::decode(frame.clone()) {
                let mut again = BytesMut::new();
                message
                    .encode(tag, &mut again)
                    .expect("it was short enough before");
                let (same_tag, same) = Tmessage::decode(again.freeze()).expect("ours is right");
                assert_eq!((same_tag, same), (tag, message));
            }
            if let Ok((tag, message)) = Rmessage::decode(frame) {
                let mut again = BytesMut::new();
                message
                    .encode(tag, &mut again)
                    .expect("it was short enough before");
                let (same_tag, same) = Rmessage::decode(again.freeze()).expect("ours is right");
                assert_eq!((same_tag, same), (tag, message));
            }
        }
    }
}

/// A connection from its first byte to its end: the server returns, and has
/// said no more than the requests allow.
pub(crate) fn connection(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(far);
        let mut config = ServerConfig::default();
        config.msize = LIMIT;
        config.requests = 8;
        config.fids = 64;
        let serving = tokio::spawn(ninep_rs::serve(reader, writer, Arc::new(Guarded), config));
        let (mut reader, mut writer) = tokio::io::split(near);
        let reading = tokio::spawn(async move {
            let (mut frames, mut answers) = (Frames::new(), 0);
            while let Ok(1..) = reader.read_buf(frames.space()).await {
                while let Some(frame) = frames.next(LIMIT).expect("the server's frames are right") {
                    Rmessage::decode(frame).expect("the server's messages are right");
                    answers += 1;
                }
            }
            answers
        });
        // The server may close before it has read everything.
        let _ = writer.write_all(data).await;
        let _ = writer.shutdown().await;
        drop(writer);
        let _ = serving.await.expect("the server does not panic");
        let answers = reading.await.expect("the answers can be read");
        // A request is at least 7 bytes long and has one answer.
        assert!(answers <= data.len() / 7 + 1, "{answers} answers");
    });
}

/// The JSON of a call: however it is cut into writes, the same call, or none.
pub(crate) fn tool_call(data: &[u8]) {
    let Some((&cut, json)) = data.split_first() else {
        return;
    };
    let whole = CallReader::default().push(json);
    let mut reader = CallReader::default();
    let mut taken = 0;
    let step = usize::from(cut % 17) + 1;
    let mut found = None;
    for piece in json.chunks(step) {
        match reader.push(piece) {
            Ok(None) => taken += piece.len(),
            Ok(Some((call, length))) => {
                found = Some((call, taken + length));
                break;
            }
            Err(_) => break,
        }
    }
    if let Ok(Some((call, end))) = whole {
        let (same, same_end) = found.expect("the call is there in pieces, too");
        assert_eq!(same, call);
        assert!(same_end <= end);
        let again = serde_json::to_vec(&call).expect("it is JSON");
        let (back, _) = CallReader::default()
            .push(&again)
            .expect("what we write is right")
            .expect("and complete");
        assert_eq!(back, call);
    }
}

/// The boot record: what was understood comes back when it is written again.
pub(crate) fn boot_record(data: &[u8]) {
    if let Ok(boot) = Boot::parse(data) {
        let frame = boot.to_frame().expect("it was short enough before");
        let again = Boot::parse(&frame[4..]).expect("what we write is right");
        assert_eq!(again.secret.as_bytes(), boot.secret.as_bytes());
        assert_eq!(again.nonce, boot.nonce);
        assert_eq!(again.policy.get(), boot.policy.get());
        assert_eq!((again.session, again.mark), (boot.session, boot.mark));
    }
}

/// A tree behind a door that the word `sesame` opens.
struct Guarded;

struct Guard(std::sync::atomic::AtomicBool);

impl Service for Guarded {
    fn auth(&self, _: &str, _: &str) -> Result<Box<dyn AuthFile>, Refusal> {
        Ok(Box::new(Guard(false.into())))
    }

    fn attach(
        &self,
        _: &str,
        _: &str,
        auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        if !auth.is_some_and(AuthFile::done) {
            return Err(Refusal::closing("say the word"));
        }
        let text = Text::new("text", 1, || Bytes::from_static(b"hello"));
        Ok(Arc::new(Directory::new(
            "/",
            0,
            vec![Arc::new(text), Arc::new(Slow)],
        )))
    }
}

impl AuthFile for Guard {
    fn read(&self, count: u32) -> Result<Bytes, Refusal> {
        Ok(Bytes::from_static(b"who?").slice(..4.min(count as usize)))
    }

    fn write(&self, data: &[u8]) -> Result<u32, Refusal> {
        if data != b"sesame" {
            return Err(Refusal::closing("wrong"));
        }
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(6)
    }

    fn done(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// A file whose reads wait for ever and whose writes take a while.
struct Slow;

impl Node for Slow {
    fn qid(&self) -> Qid {
        Qid::file(2)
    }

    fn stat(&self) -> Stat {
        Stat::new("slow", self.qid(), 0o666)
    }

    fn open(&self, _: OpenMode) -> Result<Arc<dyn File>, Refusal> {
        Ok(Arc::new(Slow))
    }
}

impl File for Slow {
    fn read(self: Arc<Self>, _: u64, count: u32) -> Answer<Bytes> {
        match count {
            0 => answer(Ok(Bytes::new())),
            _ => Box::pin(std::future::pending()),
        }
    }

    fn write(self: Arc<Self>, _: u64, data: Bytes) -> Answer<u32> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(u32::try_from(data.len()).unwrap_or(u32::MAX))
        })
    }
}

/// A model's stream, whose format the first byte says: in pieces it gives the
/// same deltas and the same end as at once.
pub(crate) fn model_stream(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else {
        return;
    };
    let format = match first % 3 {
        0 => Format::ChatCompletions,
        1 => Format::Messages,
        _ => Format::OllamaChat,
    };
    let (whole, end) = format.read([stream]);
    let (pieces, same_end) = format.read(stream.chunks(usize::from(*first).max(1)));
    assert_eq!(pieces, whole);
    assert_eq!(format!("{same_end:?}"), format!("{end:?}"));
}
