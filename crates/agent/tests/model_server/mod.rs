//! An HTTP server that answers as it is told, on loopback.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the server does with one request, on a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    head: String,
    pieces: Vec<Vec<u8>>,
    pause: Duration,
    then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The body is whole.
    End,
    /// The connection ends in the middle of the body.
    Cut,
    /// Nothing, until the other side goes.
    Hang,
}

impl Answer {
    /// A stream of this content type.
    pub(crate) fn stream(kind: &str, body: &[u8]) -> Self {
        Self {
            head: format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
            ),
            pieces: body.chunks(61).map(<[u8]>::to_vec).collect(),
            pause: Duration::ZERO,
            then: Then::End,
        }
    }

    /// A status and a body; `headers` end with CRLF each.
    pub(crate) fn status(status: u16, headers: &str, body: &str) -> Self {
        Self {
            head: format!("HTTP/1.1 {status} Told\r\n{headers}transfer-encoding: chunked\r\n\r\n"),
            pieces: vec![body.as_bytes().to_vec()],
            pause: Duration::ZERO,
            then: Then::End,
        }
    }

    pub(crate) fn json(body: &str) -> Self {
        Self::status(200, "content-type: application/json\r\n", body)
    }

    /// Not even a status.
    pub(crate) fn silence() -> Self {
        Self {
            head: String::new(),
            pieces: Vec::new(),
            pause: Duration::ZERO,
            then: Then::Hang,
        }
    }

    /// Waits before each piece of the body.
    pub(crate) fn paced(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    pub(crate) fn and_cut(mut self) -> Self {
        self.then = Then::Cut;
        self
    }

    pub(crate) fn and_hang(mut self) -> Self {
        self.then = Then::Hang;
        self
    }
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn has_header(&self, line: &str) -> bool {
        self.head.lines().any(|it| it == line)
    }
}

/// What the server notices, in its order.
#[derive(Debug)]
pub(crate) enum Noticed {
    Request(Seen),
    /// The other side has closed a connection on which the server hangs.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    noticed: mpsc::UnboundedReceiver<Noticed>,
}

impl Server {
    /// Gives each answer once, in this order, and nothing after them.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (tell, noticed) = mpsc::unbounded_channel();
        let answers: Vec<_> = answers.into_iter().collect();
        tokio::spawn(async move {
            for answer in answers {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(serve(stream, answer, tell.clone()));
            }
        });
        Self { url, noticed }
    }

    pub(crate) async fn next(&mut self) -> Noticed {
        let next = tokio::time::timeout(Duration::from_secs(20), self.noticed.recv());
        next.await.expect("the server notices something").unwrap()
    }

    pub(crate) async fn request(&mut self) -> Seen {
        match self.next().await {
            Noticed::Request(seen) => seen,
            Noticed::Gone => panic!("a request was expected"),
        }
    }
}

async fn serve(mut stream: TcpStream, answer: Answer, tell: mpsc::UnboundedSender<Noticed>) {
    let Some(seen) = read(&mut stream).await else {
        return;
    };
    tell.send(Noticed::Request(seen)).ok();
    stream.write_all(answer.head.as_bytes()).await.ok();
    for piece in &answer.pieces {
        if !answer.pause.is_zero() {
            tokio::time::sleep(answer.pause).await;
        }
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await.ok();
    }
    match answer.then {
        Then::End => {
            stream.write_all(b"0\r\n\r\n").await.ok();
        }
        Then::Cut => {}
        Then::Hang => {
            // Ends with end-of-file, or with a reset.
            stream.read_to_end(&mut Vec::new()).await.ok();
            tell.send(Noticed::Gone).ok();
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        stream
            .read_buf(&mut bytes)
            .await
            .ok()
            .filter(|it| *it > 0)?;
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "))
            .map_or(0, |it| it.parse().unwrap());
        if body.len() >= length {
            return Some(Seen {
                head: head.to_owned(),
                body: serde_json::from_str(body).unwrap_or_default(),
            });
        }
    }
}
