use bytes::BytesMut;
use ninep_rs::{Fid, Frames, Rmessage, Tag, Tmessage};
use ollie_protocol::Nonce;
use ollie_protocol::auth::Handshake;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::Toolsrv;
use crate::must::must;

/// A client that sends what it is told and shows every answer in the order in
/// which it came.
#[derive(Debug)]
pub struct Peer {
    stream: UnixStream,
    frames: Frames,
}

impl Peer {
    /// One with an attached root, fid 0.
    ///
    /// # Panics
    /// If toolsrv does not let it in.
    pub async fn attached(toolsrv: &Toolsrv) -> Self {
        let mut peer = Self {
            stream: toolsrv.stream().await,
            frames: Frames::new(),
        };
        let (uname, aname) = (toolsrv.session().to_owned(), "peer".to_owned());
        let version = "9P2000".to_owned();
        let msize = 1 << 20;
        peer.ask(Tmessage::Version { msize, version }).await;
        let (uname_too, aname_too) = (uname.clone(), aname.clone());
        peer.ask(Tmessage::Auth {
            afid: Fid(99),
            uname: uname_too,
            aname: aname_too,
        })
        .await;
        let Rmessage::Read { data } = peer.ask(read(99, 0, 32)).await else {
            panic!("no nonce");
        };
        let nonce = must(data[..].try_into(), "take the nonce");
        let handshake = Handshake {
            server: Nonce::from_bytes(nonce),
            client: Nonce::from_bytes([4; 32]),
            uname: &uname,
            aname: &aname,
        };
        let proof = toolsrv.token(&aname).client_proof(&handshake);
        let written = [&[4; 32][..], proof.as_bytes()].concat();
        peer.ask(write(99, &written)).await;
        peer.ask(Tmessage::Attach {
            fid: Fid(0),
            afid: Fid(99),
            uname: uname.clone(),
            aname: aname.clone(),
        })
        .await;
        peer
    }

    /// The stream behind it, for bytes that are no messages.
    #[must_use]
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Sends messages at once.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn send(&mut self, messages: &[(u16, Tmessage)]) {
        let mut bytes = BytesMut::new();
        for (tag, message) in messages {
            must(message.encode(Tag(*tag), &mut bytes), "encode a message");
        }
        must(self.stream.write_all(&bytes).await, "send messages");
    }

    /// The next answer.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn next(&mut self) -> (u16, Rmessage) {
        loop {
            if let Some(frame) = must(self.frames.next(1 << 20), "cut the answers") {
                let (tag, message) = must(Rmessage::decode(frame), "decode an answer");
                return (tag.0, message);
            }
            let count = must(
                self.stream.read_buf(self.frames.space()).await,
                "read answers",
            );
            assert!(count > 0, "the connection is closed");
        }
    }

    /// Sends one message and waits for its answer.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn ask(&mut self, message: Tmessage) -> Rmessage {
        let tag = match message {
            Tmessage::Version { .. } => u16::MAX,
            _ => 0,
        };
        self.send(&[(tag, message)]).await;
        match self.next().await {
            (got, Rmessage::Error { ename }) => panic!("{got} is refused: {ename}"),
            (got, answer) => {
                assert_eq!(got, tag);
                answer
            }
        }
    }

    /// Walks from the root and opens for reading and writing (mode 2), reading
    /// (0) or writing (1).
    ///
    /// # Panics
    /// If it is refused.
    pub async fn open(&mut self, fid: u32, path: &str, mode: u8) {
        self.ask(Tmessage::Walk {
            fid: Fid(0),
            newfid: Fid(fid),
            names: path.split('/').map(str::to_owned).collect(),
        })
        .await;
        self.ask(Tmessage::Open {
            fid: Fid(fid),
            mode,
        })
        .await;
    }
}

/// `Tread`
#[must_use]
pub fn read(fid: u32, offset: u64, count: u32) -> Tmessage {
    Tmessage::Read {
        fid: Fid(fid),
        offset,
        count,
    }
}

/// `Twrite`
#[must_use]
pub fn write(fid: u32, data: &[u8]) -> Tmessage {
    Tmessage::Write {
        fid: Fid(fid),
        offset: 0,
        data: data.to_vec().into(),
    }
}

/// `Tflush`
#[must_use]
pub fn flush(oldtag: u16) -> Tmessage {
    Tmessage::Flush {
        oldtag: Tag(oldtag),
    }
}
