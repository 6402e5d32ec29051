//! What is being done, and what can happen to it.

use std::time::Duration;

use bytes::Bytes;
use ollie_protocol::Stream;

use super::nobody::tools;
use crate::machine::Happened;
use crate::{
    BackendError, CallEnd, Chunk, Delta, HandsError, ModelCall, Outcome, ShellEnd, StopReason,
    Usage,
};

#[derive(Debug, Clone)]
pub(super) enum Doing {
    Tools,
    /// A stream: how many calls have begun, whether there was text, and
    /// whether it has said that it ends.
    Reply {
        calls: u32,
        said: bool,
        stopped: bool,
    },
    Call(usize, ModelCall),
    Hook,
    Sleep,
}

impl Doing {
    /// What the numbers stand for. What is made up for it is made unique by
    /// the counter.
    pub(super) fn event(&mut self, what: u8, more: u8, counter: &mut u32) -> Happened {
        match self {
            Self::Tools => match what {
                0..=199 => Happened::Tools(Ok(tools())),
                200..=245 => Happened::Connecting,
                _ => Happened::Tools(Err(HandsError {
                    message: "no route".into(),
                })),
            },
            Self::Hook => Happened::HookEnded(match what {
                0..=219 => Ok(ShellEnd {
                    status: Some(0),
                    stdout: if what % 3 == 1 {
                        unique(counter, "context")
                    } else {
                        String::new()
                    },
                    stderr: String::new(),
                }),
                220..=239 => Ok(ShellEnd {
                    status: Some(2),
                    stdout: String::new(),
                    stderr: "no".into(),
                }),
                240..=247 => Ok(ShellEnd {
                    status: None,
                    stdout: String::new(),
                    stderr: String::new(),
                }),
                _ => Err(HandsError {
                    message: "gone".into(),
                }),
            }),
            Self::Sleep => Happened::Elapsed,
            Self::Call(slot, _) => match what {
                0..=99 => Happened::Chunk(
                    *slot,
                    Chunk {
                        stream: if what.is_multiple_of(2) {
                            Stream::Stdout
                        } else {
                            Stream::Stderr
                        },
                        data: Bytes::from(vec![[b'x', 0xe2, 0x82, 0xac][usize::from(what) % 4]; 7]),
                    },
                ),
                _ => {
                    let content = unique(counter, "result");
                    Happened::CallEnded(
                        *slot,
                        CallEnd::from(Outcome {
                            content,
                            is_error: what < 150,
                        }),
                    )
                }
            },
            Self::Reply {
                calls,
                said,
                stopped,
            } => {
                let happened = reply_event(calls, stopped, what, more, counter);
                *said |= matches!(&happened, Happened::Delta(Delta::Text(it)) if it.len() > 1);
                happened
            }
        }
    }
}

/// A text that there was not before.
pub(super) fn unique(counter: &mut u32, what: &str) -> String {
    *counter += 1;
    format!("{what}-{counter}")
}

/// The next event of a stream of a reply.
fn reply_event(
    calls: &mut u32,
    stopped: &mut bool,
    what: u8,
    more: u8,
    counter: &mut u32,
) -> Happened {
    *counter += 1;
    let delta = match what {
        0..=59 => Delta::Text(match more % 8 {
            0 => " ".into(),
            1 => "x".repeat(900),
            _ => format!("text-{counter} "),
        }),
        60..=69 => Delta::Reasoning {
            text: "hm".into(),
            signature: (more.is_multiple_of(2)).then(|| "s".into()),
            data: None,
        },
        70..=119 => {
            let index = *calls;
            *calls += 1;
            Delta::CallStart {
                index,
                id: ["", "same", "a b"][usize::from(more) % 3].into(),
                name: ["look", "look", "touch", "touch", "hidden", "no such", ""]
                    [usize::from(more) % 7]
                    .into(),
            }
        }
        120..=179 => Delta::CallArguments {
            // Mostly the last one; now and then one that is not there.
            index: calls.saturating_sub(u32::from(more % 9 != 8)),
            fragment: ["{}", "{\"a\":1}", "{\"b\":", "2}"][usize::from(more) % 4].into(),
        },
        180..=189 => Delta::Usage(Usage {
            input: u64::from(more),
            output: 3,
            ..Usage::default()
        }),
        190..=199 => return Happened::OutOfTime,
        200..=219 => return Happened::Failed(error(more)),
        220..=252 => {
            *stopped = true;
            Delta::Stop(match more % 6 {
                0 => StopReason::End,
                1 => StopReason::Length,
                2 => StopReason::Filtered,
                _ => StopReason::ToolCalls,
            })
        }
        _ => return Happened::Ended,
    };
    // After its end there is only usage.
    match delta {
        Delta::Usage(_) => Happened::Delta(delta),
        _ if *stopped && !matches!(delta, Delta::Stop(_)) => Happened::Ended,
        delta => Happened::Delta(delta),
    }
}

fn error(which: u8) -> BackendError {
    let message = String::new();
    match which % 6 {
        0 => BackendError::Authentication { message },
        1 => BackendError::RateLimited {
            retry_after: Some(Duration::from_secs(u64::from(which) * 4)),
            message,
        },
        2 | 3 => BackendError::ContextTooLong { message },
        4 => BackendError::Dropped { message },
        _ => BackendError::Server {
            status: 500,
            retry_after: None,
            message,
        },
    }
}
