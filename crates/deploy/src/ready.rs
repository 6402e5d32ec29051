use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ollie_protocol::{Attach, Nonce, Octets, ProjectFile, Ready, limits};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use crate::Error;

/// What may be printed before the ready line: rc files, banners.
const NOISE_MAX: usize = 64 * 1024;
/// The longest ready line, bytes.
const LINE_MAX: usize = 8 * 1024;

/// What the ready line said, once it was read.
pub(crate) type Said = Arc<Mutex<Option<Result<Begun, Error>>>>;

/// What the first line of a toolsrv says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begun {
    /// A new session.
    Served(Start),
    /// The way to one that lives on.
    Attached,
}

/// Which of the two is expected.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    Serve,
    Attach,
}

/// A toolsrv that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) nonce: Nonce,
    pub(crate) server: u32,
    pub(crate) socket: Octets,
    pub(crate) project: Option<Project>,
}

/// A project's own policy file, as it is where toolsrv runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The session's working directory there, absolute and without links.
    pub directory: Octets,
    /// The file's bytes.
    pub text: Vec<u8>,
}

/// A stream that begins with the ready line; who reads it gets what follows.
pub(crate) struct AfterReady<R> {
    state: State<R>,
    said: Said,
}

/// Gives the reader back when the line was read.
type Reading<R> = dyn Future<Output = (R, Result<Begun, Error>)> + Send;

enum State<R> {
    Line(Pin<Box<Reading<R>>>),
    Open(R),
    Closed,
}

impl<R: AsyncRead + Send + Unpin + 'static> AfterReady<R> {
    /// The line has to come within `limit` from the first read.
    pub(crate) fn new(
        mut reader: R,
        mark: String,
        expect: Expect,
        limit: Duration,
    ) -> (Self, Said) {
        let said = Said::default();
        let line = async move {
            let begun = match expect {
                Expect::Serve => read_ready(&mut reader, &mark, limit)
                    .await
                    .map(Begun::Served),
                Expect::Attach => read_attach(&mut reader, &mark, limit)
                    .await
                    .map(|()| Begun::Attached),
            };
            (reader, begun)
        };
        let after = Self {
            state: State::Line(Box::pin(line)),
            said: Arc::clone(&said),
        };
        (after, said)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for AfterReady<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if let State::Line(line) = &mut self.state {
            let (reader, ready) = ready!(line.as_mut().poll(context));
            self.state = match &ready {
                Ok(_) => State::Open(reader),
                Err(_) => State::Closed,
            };
            *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready);
        }
        match &mut self.state {
            State::Open(reader) => Pin::new(reader).poll_read(context, buffer),
            // For whoever reads, the end; why is said elsewhere.
            State::Line(_) | State::Closed => Poll::Ready(Ok(())),
        }
    }
}

/// Reads the ready line and what belongs to it, and not a byte more: 9P
/// follows.
///
/// # Errors
/// [`Error::NotReady`] quotes what came instead; [`Error::Refused`] is
/// toolsrv's own word.
pub(crate) async fn read_ready(
    from: &mut (impl AsyncRead + Unpin),
    mark: &str,
    limit: Duration,
) -> Result<Start, Error> {
    let line = read_line(from, mark, limit).await?;
    match serde_json::from_slice(&line) {
        Ok(Ready::Refused { kind, reason }) => Err(Error::Refused { kind, reason }),
        Ok(Ready::Ready {
            nonce,
            pid,
            socket,
            project,
            ..
        }) => {
            let project = match project {
                Some(project) => Some(read_project(from, project, limit).await?),
                None => None,
            };
            Ok(Start {
                nonce,
                server: pid,
                socket,
                project,
            })
        }
        Err(error) => Err(Error::NotReady(format!("its ready line: {error}"))),
    }
}

/// The bytes behind the ready line.
async fn read_project(
    from: &mut (impl AsyncRead + Unpin),
    announced: ProjectFile,
    limit: Duration,
) -> Result<Project, Error> {
    let length = announced.bytes as usize;
    if length > limits::PROJECT_MAX {
        let problem = format!("a project's policy file of {length} bytes");
        return Err(Error::NotReady(problem));
    }
    let mut text = vec![0; length];
    let problem = match tokio::time::timeout(limit, from.read_exact(&mut text)).await {
        Ok(Ok(_)) => {
            return Ok(Project {
                directory: announced.directory,
                text,
            });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no more within {} s", limit.as_secs()),
    };
    let problem = format!("within the project's policy file: {problem}");
    Err(Error::NotReady(problem))
}

/// The same for the line of `toolsrv attach`.
async fn read_attach(
    from: &mut (impl AsyncRead + Unpin),
    mark: &str,
    limit: Duration,
) -> Result<(), Error> {
    match serde_json::from_slice(&read_line(from, mark, limit).await?) {
        Ok(Attach::Refused { reason }) => Err(Error::Gone(reason)),
        Ok(Attach::Attached { .. }) => Ok(()),
        Err(error) => Err(Error::NotReady(format!("its first line: {error}"))),
    }
}

async fn read_line(
    from: &mut (impl AsyncRead + Unpin),
    mark: &str,
    limit: Duration,
) -> Result<Vec<u8>, Error> {
    let mut seen = Vec::new();
    let found = tokio::time::timeout(limit, find_line(from, mark, &mut seen)).await;
    let problem = match found {
        Ok(Ok(line)) => return Ok(line),
        Ok(Err(problem)) => problem,
        Err(_) => format!("no answer within {} s", limit.as_secs()),
    };
    Err(Error::NotReady(with_quote(&problem, &seen)))
}

/// The rest of the line that begins with `mark` and a space.
async fn find_line(
    from: &mut (impl AsyncRead + Unpin),
    mark: &str,
    seen: &mut Vec<u8>,
) -> Result<Vec<u8>, String> {
    let needle = format!("{mark} ").into_bytes();
    // A byte at a time: whatever is read past the line would be lost to 9P.
    // It is a short line, and nothing follows it before we speak.
    while !seen.ends_with(&needle) {
        if seen.len() >= NOISE_MAX {
            return Err(format!("{NOISE_MAX} bytes of something else"));
        }
        seen.push(byte(from).await?);
    }
    let mut line = Vec::new();
    loop {
        match byte(from).await? {
            b'\n' => return Ok(line),
            _ if line.len() >= LINE_MAX => return Err("its ready line does not end".to_owned()),
            byte => line.push(byte),
        }
    }
}

async fn byte(from: &mut (impl AsyncRead + Unpin)) -> Result<u8, String> {
    from.read_u8().await.map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it ended".to_owned(),
        _ => error.to_string(),
    })
}

/// The problem with the end of what was seen, control characters shown.
fn with_quote(problem: &str, seen: &[u8]) -> String {
    let tail = &seen[seen.len().saturating_sub(500)..];
    if tail.is_empty() {
        return problem.to_owned();
    }
    format!("{problem}; it said {:?}", String::from_utf8_lossy(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(input: &[u8]) -> (Result<Start, Error>, Vec<u8>) {
        let mut from = input;
        let ready = read_ready(&mut from, "m-1", Duration::from_secs(5)).await;
        (ready, from.to_vec())
    }

    #[tokio::test]
    async fn what_an_rc_file_prints_is_passed_over_and_what_follows_is_left() {
        let (ready, rest) =
            read(b"Welcome!\nm-2 m-1 {\"refused\":{\"kind\":\"other\",\"reason\":\"no\"}}\nrest")
                .await;
        assert!(matches!(ready, Err(Error::Refused { reason, .. }) if reason == "no"));
        assert_eq!(rest, b"rest");
    }

    #[tokio::test]
    async fn who_reads_the_stream_gets_what_follows_the_line() {
        let input = b"noise\nm-1 {\"refused\":{\"kind\":\"other\",\"reason\":\"no\"}}\nrest";
        let (mut after, said) = AfterReady::new(
            &input[..],
            "m-1".to_owned(),
            Expect::Serve,
            Duration::from_secs(5),
        );
        let mut rest = Vec::new();
        after.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "a refusal ends the stream");
        let said = said.lock().unwrap().take();
        assert!(matches!(said, Some(Err(Error::Refused { .. }))), "{said:?}");

        let nonce = "07".repeat(32);
        let line = format!(
            "m-1 {{\"ready\":{{\"protocol\":1,\"nonce\":\"{nonce}\",\"pid\":7,\"socket\":\"/s\"}}}}\n9P"
        );
        let input = std::io::Cursor::new(line.into_bytes());
        let (mut after, said) = AfterReady::new(
            input,
            "m-1".to_owned(),
            Expect::Serve,
            Duration::from_secs(5),
        );
        let mut rest = Vec::new();
        after.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"9P");
        let said = said.lock().unwrap().take();
        assert!(
            matches!(said, Some(Ok(Begun::Served(Start { server: 7, .. })))),
            "{said:?}"
        );
    }

    #[tokio::test]
    async fn a_projects_file_comes_behind_the_line_and_9p_behind_that() {
        let nonce = "07".repeat(32);
        let line = |bytes: u32| {
            format!(
                "m-1 {{\"ready\":{{\"protocol\":1,\"nonce\":\"{nonce}\",\"pid\":7,\"socket\":\"/s\",\
                 \"project\":{{\"directory\":\"/p\",\"bytes\":{bytes}}}}}}}\n"
            )
        };
        let (start, rest) = read(format!("{}a\nb9P", line(3)).as_bytes()).await;
        let project = start.unwrap().project.unwrap();
        assert_eq!(
            (project.directory, project.text),
            ("/p".into(), b"a\nb".to_vec())
        );
        assert_eq!(rest, b"9P");
        for input in [format!("{}ab", line(3)), line(65_537)] {
            let (start, _) = read(input.as_bytes()).await;
            assert!(matches!(start, Err(Error::NotReady(_))), "{start:?}");
        }
    }

    #[tokio::test]
    async fn what_came_instead_is_quoted_with_control_characters_shown() {
        let (ready, _) = read(b"\x1b[31mcommand not found\n").await;
        let text = ready.unwrap_err().to_string();
        assert!(text.contains("command not found"), "{text}");
        assert!(!text.contains('\x1b'), "{text:?}");
    }

    #[tokio::test]
    async fn endless_noise_is_an_error() {
        let (ready, _) = read(&vec![b'x'; NOISE_MAX + 1]).await;
        assert!(matches!(ready, Err(Error::NotReady(_))));
    }
}
