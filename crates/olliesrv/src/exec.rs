use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use bytes::Bytes;
use ollie_client::{Call, CallEvent};
use ollie_protocol::{Event, EventFormat, Octets, ShellArgs, Stream, ToolCall, ToolResult};

use tokio::time::Instant;

use crate::error::Error;
use crate::explain::explain;
use crate::options::{ExecOptions, RunOptions};
use crate::output::Output;
use crate::setup::{ToolServer, call_id, setup_with_call};
use crate::signals::{Signals, Wish};
use crate::verbose::Verbose;
use crate::{exit, lasting, stdin};

/// How long a command that was interrupted has before its tree is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// What toolsrv did that it must not.
const NO_RESULT: &str = "the call ended without a result";
const ENDLESS: &str = "the time of the call is up, and it goes on";

/// How long after its time a call may go on by itself: its tree is ended, and
/// that it has ended is on its way.
const LATE: Duration = Duration::from_secs(15);
/// Bytes of output that may come then. More than pipes and connections hold,
/// for a reader of ours may be slow; a host that never ends is found by it.
const EXCESS_MOST: usize = 16 * 1024 * 1024;
/// What an event without output counts.
const EVENT: usize = 256;

/// Runs a command; the status to exit with.
pub(crate) async fn run(options: &ExecOptions) -> Result<u8, Error> {
    if let Some(time) = options.lease {
        return lasting::run(options, time).await;
    }
    let verbose = Verbose::new(&options.session);
    // Before anything is started, so that a Ctrl-C at any moment finds
    // somebody who ends it.
    let mut signals = Signals::new()?;
    let call = tool_call(options)?;
    let host = options.host.as_ref();
    let (server, running) = tokio::select! {
        started = setup_with_call(&options.session, host, &verbose, &call) => started?,
        wish = signals.next() => return Ok(status_of(wish)),
    };
    if options.json
        && let Some(arrival) = &server.process().arrival
    {
        crate::output::print(&format!("{}\n", crate::arrival::record(arrival)))?;
    }
    let outcome = follow(&server, running, &call, options, &mut signals).await;
    match outcome {
        // Nobody is there who could end anything: ssh is killed.
        Err(error @ Error::Silent { .. }) => return Err(error),
        Ok((None, Some(End::Wish(wish)))) => {
            crate::output::note(
                "toolsrv does not answer; what it started ends when it runs again, or is killed",
            );
            return Ok(status_of(wish));
        }
        _ => {}
    }
    verbose.step("the call has ended");
    if verbose.is_on() {
        crate::turned_away::tell(&server.conn).await;
    }
    let gone = server.end().await;
    verbose.step(if gone {
        "toolsrv is gone"
    } else {
        "toolsrv did not end in time"
    });
    let (result, wish) = outcome?;
    let Some(result) = result else {
        return Err(Error::Toolsrv(ollie_client::Error::Protocol(NO_RESULT)));
    };
    if !options.json {
        let file = crate::setup::own_paths()?.policy();
        explain(&result, verbose.is_on(), &file);
    }
    Ok(match wish {
        Some(End::Wish(wish)) => status_of(wish),
        Some(End::BrokenPipe) => exit::BROKEN_PIPE,
        None => exit::of_result(&result),
    })
}

/// Why a command was ended early.
#[derive(Debug, Clone, Copy)]
enum End {
    Wish(Wish),
    BrokenPipe,
}

pub(crate) fn status_of(wish: Wish) -> u8 {
    match wish {
        Wish::Interrupt => exit::INTERRUPTED,
        Wish::Terminate | Wish::HangUp => exit::TERMINATED,
    }
}

/// What a wish means for a call, and what it means when it is said `again`.
pub(crate) fn word_of(wish: Wish, again: bool) -> &'static str {
    match wish {
        Wish::Interrupt if !again => "int",
        Wish::Terminate | Wish::HangUp if !again => "end",
        _ => "kill",
    }
}

pub(crate) fn tool_call(options: &ExecOptions) -> Result<ToolCall, Error> {
    let mut call = ToolCall::new(call_id()?, "shell");
    let arguments = ShellArgs {
        argv: Some(options.command.iter().cloned().map(Octets::from).collect()),
        ..ShellArgs::default()
    };
    if let Ok(serde_json::Value::Object(arguments)) = serde_json::to_value(arguments) {
        call.args = arguments;
    }
    call.stdin = !options.no_stdin;
    // A person's own command waits for nobody.
    call.queue = false;
    call.events = if options.json {
        EventFormat::Json
    } else {
        EventFormat::Raw
    };
    apply(&options.run, &mut call)?;
    Ok(call)
}

/// Puts the options that every call has into it.
pub(crate) fn apply(options: &RunOptions, call: &mut ToolCall) -> Result<(), Error> {
    call.timeout_ms = options
        .timeout
        .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    for entry in &options.env {
        let bytes = entry.as_bytes();
        let (name, value) = bytes
            .iter()
            .position(|&byte| byte == b'=')
            .map(|at| (&bytes[..at], &bytes[at + 1..]))
            .ok_or_else(|| Error::Usage(format!("--env {entry:?}: expected NAME=VALUE")))?;
        let name = std::str::from_utf8(name)
            .map_err(|_| Error::Usage(format!("--env {entry:?}: the name is not UTF-8")))?;
        call.env.insert(name.to_owned(), value.to_vec().into());
    }
    call.validate()
        .map_err(|error| Error::Usage(error.to_string()))
}

/// Runs the call to its end, with signals and both directions of data. No
/// result means that toolsrv did not even answer to the wish to kill it.
async fn follow(
    server: &ToolServer,
    mut running: Call,
    call: &ToolCall,
    options: &ExecOptions,
    signals: &mut Signals,
) -> Result<(Option<ToolResult>, Option<End>), Error> {
    // Dropped with this function: a standard input that never ends must not
    // keep the connection open when the command has ended.
    let mut feeding = tokio::task::JoinSet::new();
    if call.stdin {
        feeding.spawn(stdin::pass_on(running.stdin()));
    }
    let output = Output::new();
    let broken = output.broken();
    let mut waiting = None;
    let mut discarding = false;
    let mut end = None;
    // What is asked of toolsrv, and the answer is not here yet. A signal is
    // heard meanwhile: toolsrv may be stopped.
    let mut asking = tokio::task::JoinSet::new();
    let mut given_up = false;
    let mut deadline = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    let mut silence = std::pin::pin!(server.silence());
    let late = options
        .run
        .timeout
        .and_then(|time| Instant::now().checked_add(time + LATE));
    let mut excess = 0;
    let result = loop {
        tokio::select! {
            error = &mut silence => return Err(error),
            // One chunk at a time, and signals are heard while it waits for
            // whoever reads our output.
            () = output.write(&mut waiting), if waiting.is_some() => {}
            event = running.next(), if waiting.is_none() => match event? {
                Some(event) => {
                    let (chunk, result) = shown(event, options.json);
                    if late.is_some_and(|late| Instant::now() > late) {
                        excess += EVENT + chunk.as_ref().map_or(0, |(_, bytes)| bytes.len());
                        if excess > EXCESS_MOST {
                            return Err(Error::Toolsrv(ollie_client::Error::Protocol(ENDLESS)));
                        }
                    }
                    waiting = chunk.filter(|_| !discarding);
                    if let Some(result) = result {
                        break result;
                    }
                }
                None => return Err(Error::Toolsrv(ollie_client::Error::Protocol(NO_RESULT))),
            },
            wish = signals.next() => {
                let again = end.is_some();
                end.get_or_insert(End::Wish(wish));
                let word = word_of(wish, again);
                asking.spawn(server.conn.control(running.id().as_str(), word));
                // Who is impatient does not wait longer for it.
                if !again {
                    deadline.as_mut().reset(Instant::now() + PATIENCE);
                }
            }
            () = &mut deadline => {
                // Nor is the end waited for behind output that nobody reads.
                discarding = true;
                waiting = None;
                if given_up {
                    return Ok((None, end));
                }
                given_up = true;
                asking.spawn(server.conn.control(running.id().as_str(), "kill"));
                deadline.as_mut().reset(Instant::now() + PATIENCE);
            }
            () = broken.notified(), if end.is_none() => {
                end = Some(End::BrokenPipe);
                asking.spawn(server.conn.control(running.id().as_str(), "end"));
            }
        }
    };
    // What was read of our input and could not be read on is told at the end.
    let unread = match feeding.try_join_next() {
        Some(Ok(Err(error))) => Some(error),
        _ => None,
    };
    drop(feeding);
    let writing = async {
        output.write(&mut waiting).await;
        // It waits for the thread that writes, which waits for the reader.
        tokio::task::spawn_blocking(|| output.finish()).await
    };
    let written = match end {
        // Whoever does not read our output must not keep us from ending.
        Some(End::Wish(_)) => tokio::time::timeout(PATIENCE, writing).await,
        _ => Ok(writing.await),
    };
    match written {
        Ok(Ok(Err(error))) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            end.get_or_insert(End::BrokenPipe);
        }
        Ok(Ok(Err(source))) => {
            return Err(Error::Io {
                action: "write the command's output",
                source,
            });
        }
        _ => {}
    }
    if let (Some(source), None) = (unread, end) {
        return Err(Error::Io {
            action: "read standard input; the command saw its end",
            source,
        });
    }
    Ok((Some(result), end))
}

/// What of an event is to be written where, and the result if it is that.
pub(crate) fn shown(event: CallEvent, json: bool) -> (Option<(Stream, Bytes)>, Option<ToolResult>) {
    if json {
        let (event, result) = match event {
            // It never asks: nobody could answer.
            CallEvent::Ask(_) => return (None, None),
            CallEvent::Started { pid } => (Event::Started { pid }, None),
            CallEvent::Notice { text } => (Event::Notice { text }, None),
            CallEvent::Output { stream, data } => {
                let data = Some(Octets::from(data.to_vec()));
                let event = Event::Output {
                    stream,
                    data,
                    bytes: None,
                };
                (event, None)
            }
            CallEvent::Result(result) => (Event::Result(result.clone()), Some(*result)),
        };
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        return (Some((Stream::Stdout, Bytes::from(line))), result);
    }
    match event {
        CallEvent::Output { stream, data } => (Some((stream, data)), None),
        CallEvent::Notice { text } => {
            crate::output::note(&crate::printable::printable(&text));
            (None, None)
        }
        CallEvent::Ask(_) | CallEvent::Started { .. } => (None, None),
        CallEvent::Result(result) => (None, Some(*result)),
    }
}
