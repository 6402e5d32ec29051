use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use ollie_agent::{CallEnd, Chunk, Hands, HandsError, ModelCall, Outcome, ShellEnd, ToolDef};
use ollie_client::CallEvent;
use ollie_deploy::Kept;
use ollie_protocol::{CallId, FailureKind, Nonce, Stream, ToolCall, ToolResult, auth, chain};
use serde_json::Value;

use crate::Error;
use crate::catalogue::{BYPASS, catalogue, is_shell};
use crate::link::{About, Link};
use crate::outcome::call_end;
use crate::session::Session;

/// The hands of a session: its toolsrv.
pub(crate) struct SessionHands {
    link: Arc<Link>,
    /// Who can ask the person.
    session: Weak<Session>,
    /// Whether the model was told that `shell` can ask.
    offers: AtomicBool,
    /// The user's policy file.
    policy: PathBuf,
    /// Makes ids that toolsrv has not seen: those of a model start anew when
    /// its history is cleared.
    count: AtomicU64,
    /// Part of each id, so that an answer to one of an earlier run names none.
    run: String,
}

/// Why a call has no result.
enum Lost {
    /// It was not begun.
    NotMade(String),
    /// Its outcome is not known.
    Unknown(String),
}

impl SessionHands {
    /// # Errors
    /// [`Error::Random`]
    pub(crate) fn new(session: &Arc<Session>, policy: PathBuf) -> Result<Self, Error> {
        let nonce = Nonce::random().map_err(|error| Error::Random(error.to_string()))?;
        Ok(Self {
            link: session.link().clone(),
            session: Arc::downgrade(session),
            offers: AtomicBool::new(false),
            policy,
            count: AtomicU64::new(1),
            run: auth::to_hex(&nonce.as_bytes()[..4]),
        })
    }

    async fn connected(&self) -> Result<(Kept, Arc<About>), HandsError> {
        match self.link.get().await {
            Ok(connected) => Ok(connected),
            Err(error) => Err(HandsError {
                message: error.to_string(),
            }),
        }
    }

    /// An id of toolsrv for a call of the model.
    fn id(&self, wanted: &str) -> Result<CallId, String> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let word: String = wanted
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c))
            .take(32)
            .collect();
        let run = &self.run;
        CallId::new(format!("c{count}-{run}-{word}")).map_err(|error| error.to_string())
    }

    /// Makes a call; `asker` is the model's own name of one that may ask.
    async fn make(
        &self,
        call: &ToolCall,
        asker: &str,
        stdin: Option<Bytes>,
        output: &mut (dyn FnMut(Chunk) + Send),
    ) -> Result<ToolResult, Lost> {
        let (kept, about) = self
            .connected()
            .await
            .map_err(|error| Lost::NotMade(error.message))?;
        let not_made = |error: &dyn std::error::Error| Lost::NotMade(chain(error));
        let mut running = kept.conn().call(call).map_err(|error| not_made(&error))?;
        let mut feeding = tokio::task::JoinSet::new();
        if let Some(data) = stdin {
            let mut to = running.stdin();
            feeding.spawn(async move {
                // A command need not read what it is given.
                if to.write(data).await.is_ok() {
                    let _ = to.end().await;
                }
            });
        }
        let mut asking = None;
        let mut unjudged = None;
        loop {
            let event = tokio::select! {
                event = running.next() => event,
                quiet = kept.silence() => {
                    self.link.abandon(&kept).await;
                    return Err(Lost::Unknown(format!(
                        "the host was silent for {} s",
                        quiet.as_secs()
                    )));
                }
            };
            match event {
                Ok(Some(CallEvent::Output { stream, data })) => output(Chunk { stream, data }),
                Ok(Some(CallEvent::Notice { text })) => output(Chunk {
                    stream: Stream::Stderr,
                    data: format!("{text}\n").into(),
                }),
                Ok(Some(CallEvent::Ask(ask))) => {
                    if let Some(session) = self.session.upgrade() {
                        let host = &about.host;
                        let asked = session.ask((asker, &call.tool), *ask, host, &kept).await;
                        match asked.map_err(|error| Lost::Unknown(chain(&error)))? {
                            Ok(one) => asking = Some(one),
                            Err(why) => unjudged = Some(why),
                        }
                    }
                }
                Ok(Some(CallEvent::Started { .. })) => {
                    if let Some(asking) = asking.take() {
                        asking.over(true);
                    }
                }
                Ok(Some(CallEvent::Result(mut result))) => {
                    if let (Some(why), Some(failure)) = (&unjudged, &mut result.failure)
                        && failure.kind == FailureKind::Denied
                    {
                        failure.message = format!(
                            "not started: it asked to run outside of the sandbox, and is {why}"
                        );
                    }
                    let failure = result.failure.as_ref().map(|failure| failure.kind);
                    match asking.take() {
                        Some(asking) if result.sandbox.approved => asking.over(true),
                        Some(asking) if failure == Some(FailureKind::Denied) => asking.over(false),
                        _ => {}
                    }
                    return Ok(*result);
                }
                Ok(None) => return Err(Lost::Unknown("there was no result".to_owned())),
                Err(ollie_client::Error::Refused(reason)) => return Err(Lost::NotMade(reason)),
                Err(error) => return Err(Lost::Unknown(chain(&error))),
            }
        }
    }
}

impl Hands for SessionHands {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<ToolDef>, HandsError>> {
        Box::pin(async {
            let (kept, _) = self.connected().await?;
            // Read each time: a tool may have been loaded, or changed.
            let listing = async {
                self.link.refresh(&kept).await?;
                kept.conn().tools().await
            };
            let listed = tokio::select! {
                listed = listing => listed,
                quiet = kept.silence() => {
                    self.link.abandon(&kept).await;
                    let seconds = quiet.as_secs();
                    let message = format!("the host was silent for {seconds} s");
                    return Err(HandsError { message });
                }
            };
            let failed = |error| HandsError {
                message: chain(&error),
            };
            let listed = listed.map_err(failed)?;
            let session = self.session.upgrade();
            let asks = session.is_some_and(|session| session.may_ask())
                && listed.iter().any(|tool| is_shell(&tool.spec));
            self.offers.store(asks, Ordering::Relaxed);
            Ok(catalogue(&listed, asks))
        })
    }

    fn call<'a>(
        &'a self,
        call: &'a ModelCall,
        output: &'a mut (dyn FnMut(Chunk) + Send),
    ) -> BoxFuture<'a, CallEnd> {
        Box::pin(async move {
            let made = match (self.id(&call.id), call.object()) {
                (Ok(id), Ok(arguments)) => {
                    let mut made = ToolCall::new(id, &call.name);
                    made.args = arguments;
                    if call.name == "shell" && self.offers.load(Ordering::Relaxed) {
                        made.bypass = match made.args.remove(BYPASS) {
                            None | Some(Value::Null) => None,
                            Some(Value::String(why)) => Some(why).filter(|why| !why.is_empty()),
                            Some(_) => {
                                return Outcome::error("shell: argument bypass: give text").into();
                            }
                        };
                    }
                    made
                }
                (Err(problem), _) | (_, Err(problem)) => return Outcome::error(problem).into(),
            };
            let mut spoken = false;
            let mut hear = |chunk: Chunk| {
                spoken |= !chunk.data.is_empty();
                output(chunk);
            };
            match self.make(&made, &call.id, None, &mut hear).await {
                Ok(result) => call_end(&result, &self.policy),
                Err(Lost::NotMade(reason)) => Outcome::error(reason).into(),
                Err(Lost::Unknown(reason)) => {
                    let text = format!(
                        "the connection was lost during the call, its outcome is unknown and it \
                         is not made again: {reason}"
                    );
                    // Behind output that was shown, a result is not shown.
                    if spoken {
                        self.link.note(&text);
                    }
                    Outcome::error(text).into()
                }
            }
        })
    }

    fn shell<'a>(
        &'a self,
        command: &'a str,
        stdin: Bytes,
        limit: Duration,
    ) -> BoxFuture<'a, Result<ShellEnd, HandsError>> {
        Box::pin(async move {
            let failed = |message| HandsError { message };
            let mut call = ToolCall::new(self.id("hook").map_err(failed)?, "shell");
            call.args.insert("code".to_owned(), command.into());
            call.stdin = true;
            call.timeout_ms = Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            let mut said = [Vec::new(), Vec::new()];
            let result = self
                .make(&call, "", Some(stdin), &mut |chunk: Chunk| {
                    let to = &mut said[usize::from(chunk.stream == Stream::Stderr)];
                    to.extend_from_slice(&chunk.data);
                })
                .await
                .map_err(|(Lost::NotMade(reason) | Lost::Unknown(reason))| failed(reason))?;
            let [stdout, stderr] = said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            Ok(ShellEnd {
                status: match result.timed_out {
                    true => None,
                    false => result.exit.map(ollie_protocol::Exit::shell_status),
                },
                stdout,
                stderr,
            })
        })
    }
}
