use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What rc files and banners may print before or between the answers.
const NOISE_MAX: usize = 64 * 1024;
/// The longest line of an answer, in bytes.
const LINE_MAX: usize = 8 * 1024;
/// Answers of one start: a hostile host shall not keep us here.
const LINES_MAX: usize = 64;
/// How much of what came instead is quoted, in bytes.
const QUOTE_MAX: usize = 500;

/// One answer of stage 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Something about the host.
    Fact { name: String, value: String },
    /// This root cannot be used.
    Refused { root: String, reason: String },
    /// toolsrv has to be sent; it will be put below this root.
    Need { root: String },
    /// It was sent and is not in its place.
    Failed { reason: String },
    /// It starts now; the boot record is next.
    Run { program: String },
    /// It leads to the session that lives on there; its own line is next.
    Attach { program: String },
    /// These programs are not there, and nothing works without them.
    Lacks { programs: String },
    /// Nothing can be done here.
    Stuck,
}

/// Reads the answers of stage 0 and nothing behind them.
#[derive(Debug)]
pub(crate) struct Answers {
    word: String,
    noise: Vec<u8>,
    lines: usize,
}

impl Answers {
    /// `word` begins each line that is meant for us.
    pub(crate) fn new(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            noise: Vec::new(),
            lines: 0,
        }
    }

    /// The word each line begins with, ours as well.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// The next answer; the problem with a quote of what came instead.
    pub(crate) async fn next(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        limit: Duration,
    ) -> Result<Answer, String> {
        let found = tokio::time::timeout(limit, self.find(from)).await;
        let problem = match found {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(problem)) => problem,
            Err(_) => format!("no answer within {} s", limit.as_secs_f32()),
        };
        Err(match self.noise() {
            Some(noise) => format!("{problem}; it said {noise:?}"),
            None => problem,
        })
    }

    /// The end of what came that was not for us.
    pub(crate) fn noise(&self) -> Option<String> {
        let tail = &self.noise[self.noise.len().saturating_sub(QUOTE_MAX)..];
        let text = String::from_utf8_lossy(tail).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    async fn find(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<Answer, String> {
        loop {
            // Whatever is read past the line would be lost to 9P, so this
            // takes a byte at a time; the answers are short.
            let mut line = Vec::new();
            loop {
                let byte = from.read_u8().await.map_err(|error| {
                    self.noise.extend_from_slice(&line);
                    match error.kind() {
                        std::io::ErrorKind::UnexpectedEof => "it ended".to_owned(),
                        _ => error.to_string(),
                    }
                })?;
                if byte == b'\n' {
                    break;
                }
                line.push(byte);
                if line.len() > LINE_MAX {
                    self.keep(&mut line)?;
                }
            }
            let ours = line
                .strip_prefix(self.word.as_bytes())
                .and_then(|rest| rest.strip_prefix(b" "));
            match ours {
                Some(rest) => {
                    self.lines += 1;
                    if self.lines > LINES_MAX {
                        return Err(format!("more than {LINES_MAX} lines of answers"));
                    }
                    return Answer::parse(&String::from_utf8_lossy(rest));
                }
                None => {
                    line.push(b'\n');
                    self.keep(&mut line)?;
                }
            }
        }
    }

    fn keep(&mut self, line: &mut Vec<u8>) -> Result<(), String> {
        self.noise.append(line);
        if self.noise.len() > NOISE_MAX {
            return Err(format!("{NOISE_MAX} bytes of something else"));
        }
        Ok(())
    }
}

impl Answer {
    fn parse(line: &str) -> Result<Self, String> {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let value = value.to_owned();
        Ok(match name {
            "need" => Self::Need { root: value },
            "run" => Self::Run { program: value },
            "attach" => Self::Attach { program: value },
            "failed" => Self::Failed { reason: value },
            "lacks" => Self::Lacks { programs: value },
            "stuck" => Self::Stuck,
            "refused" => {
                let (root, reason) = value
                    .split_once(": ")
                    .unwrap_or((&value, "no reason given"));
                Self::Refused {
                    root: root.to_owned(),
                    reason: reason.to_owned(),
                }
            }
            "os" | "kernel" | "arch" | "uid" | "home" | "tools" => Self::Fact {
                name: name.to_owned(),
                value,
            },
            _ => return Err(format!("an answer that is not known: {name:?}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn what_is_not_for_us_is_passed_over_and_what_follows_is_left() {
        let mut input = &b"Welcome\nno newline\nw os Linux\nw run /a b/toolsrv\n9P"[..];
        let mut answers = Answers::new("w");
        assert_eq!(
            answers.next(&mut input, LIMIT).await,
            Ok(Answer::Fact {
                name: "os".into(),
                value: "Linux".into()
            })
        );
        assert_eq!(
            answers.next(&mut input, LIMIT).await,
            Ok(Answer::Run {
                program: "/a b/toolsrv".into()
            })
        );
        assert_eq!(input, b"9P");
        assert_eq!(answers.noise().unwrap(), "Welcome\nno newline");
    }

    #[tokio::test]
    async fn endless_noise_and_endless_answers_are_errors() {
        let noise = vec![b'x'; NOISE_MAX + LINE_MAX];
        let answer = Answers::new("w").next(&mut &noise[..], LIMIT).await;
        assert!(answer.unwrap_err().contains("65536 bytes"));
        let lines = b"w os Linux\n".repeat(LINES_MAX + 1);
        let mut input = &lines[..];
        let mut answers = Answers::new("w");
        for _ in 0..LINES_MAX {
            assert!(answers.next(&mut input, LIMIT).await.is_ok());
        }
        assert!(answers.next(&mut input, LIMIT).await.is_err());
    }

    #[tokio::test]
    async fn what_came_before_the_end_is_quoted_with_control_characters_shown() {
        let mut input = &b"\x1b[31mno such shell"[..];
        let problem = Answers::new("w").next(&mut input, LIMIT).await.unwrap_err();
        assert_eq!(problem, "it ended; it said \"\\u{1b}[31mno such shell\"");
    }
}
