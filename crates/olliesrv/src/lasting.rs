//! `exec --lease` and `reattach`: a command that outlives its connection.

use std::time::Duration;

use ollie_client::CallEvent;
use ollie_deploy::{Lease, Leased, Leases, ProcessKeeper, Step};
use ollie_protocol::{CallId, ToolResult};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::explain::explain;
use crate::options::{ExecOptions, ReattachOptions};
use crate::output::{self, Output};
use crate::printable::printable;
use crate::setup::{Lasting, own_paths, setup_lasting};
use crate::signals::{Signals, Wish};
use crate::verbose::Verbose;
use crate::{exec, exit};

/// Events that wait for whoever reads our output.
const WAITING: usize = 4;

/// Starts a command under a lease and follows it.
pub(crate) async fn run(options: &ExecOptions, time: Duration) -> Result<u8, Error> {
    let verbose = Verbose::new(&options.session);
    let mut signals = Signals::new()?;
    let mut call = exec::tool_call(options)?;
    call.stdin = false;
    let note = words(&options.command);
    let host = options.host.as_ref();
    let lasting = setup_lasting(&options.session, host, &verbose, time, None, &note)?;
    let tell = |step: &Step| verbose.on_the_way(step);
    let kept = tokio::select! {
        kept = lasting.keeper.get(&tell) => kept?,
        wish = signals.next() => {
            output::note("the command was not started");
            return Ok(exec::status_of(wish));
        }
    };
    if let Leased::Refused(reason) = kept.leased() {
        let error = Error::NoLease(printable(reason));
        drop(kept);
        end(lasting, &mut signals).await;
        return Err(error);
    }
    if options.json
        && let Some(arrival) = &kept.process().arrival
    {
        output::print(&format!("{}\n", crate::arrival::record(arrival)))?;
    }
    let begun = tokio::select! {
        begun = kept.conn().start(&call) => begun,
        // The way is lost, then, although nobody has said so.
        _ = kept.silence() => Ok(()),
        wish = signals.next() => {
            come_back(lasting.keeper.session(), "whether the command was started is not known");
            return Ok(exec::status_of(wish));
        }
    };
    if let Err(error) = begun
        && !matches!(error, ollie_client::Error::Lost(_))
    {
        drop(kept);
        end(lasting, &mut signals).await;
        return Err(error.into());
    }
    // Where the way was lost, the session itself tells what became of the call.
    output::note(&format!(
        "session {0} lives on for {1} s without a connection; to go on with it: olliesrv reattach {0}",
        lasting.keeper.session(),
        time.as_secs()
    ));
    drop(kept);
    let leases = Leases::new(own_paths()?.leases());
    let _following = leases.follow(lasting.keeper.session())?;
    finish(lasting, &call.id, options.json, &verbose, &mut signals).await
}

/// Goes on with one, ends it, or lists them.
pub(crate) async fn reattach(options: &ReattachOptions) -> Result<u8, Error> {
    let leases = Leases::new(own_paths()?.leases());
    let Some(name) = &options.name else {
        return list(&leases.all(), options.json);
    };
    let no_session = || Error::NoSession(printable(name));
    let lease = leases.find(name).ok_or_else(no_session)?;
    // To end it is everybody's right who has its key.
    let _following = match options.end {
        true => None,
        false => leases.follow(name)?,
    };
    let verbose = Verbose::new(&options.session);
    let mut signals = Signals::new()?;
    let host = lease.target.as_ref().map(|target| target.parse());
    let host = host.transpose()?;
    let (time, session) = (lease.time, &options.session);
    let lasting = setup_lasting(
        session,
        host.as_ref(),
        &verbose,
        time,
        Some(name),
        &lease.note,
    )?;
    let tell = |step: &Step| verbose.on_the_way(step);
    let kept = tokio::select! {
        kept = lasting.keeper.get(&tell) => kept.inspect_err(|error| {
            if leases.find(name).is_some() {
                output::note(&printable(&still_kept(error, name, &leases)));
            }
        })?,
        wish = signals.next() => {
            come_back(name, "the session was not reached yet");
            return Ok(exec::status_of(wish));
        }
    };
    let again = kept.process().is_again();
    let calls = tokio::select! {
        calls = kept.conn().calls() => calls?,
        quiet = kept.silence() => return Err(Error::Silent { seconds: quiet.as_secs() }),
        wish = signals.next() => {
            come_back(name, "the session has not answered yet");
            return Ok(exec::status_of(wish));
        }
    };
    drop(kept);
    let call = calls.into_iter().rfind(|call| call.background);
    match call.filter(|_| again && !options.end) {
        Some(call) => finish(lasting, &call.id, options.json, &verbose, &mut signals).await,
        None => {
            let gone = end(lasting, &mut signals).await;
            match (again, options.end) {
                (true, true) if gone => Ok(0),
                (true, true) => Ok(exit::UNHEALTHY),
                _ => Err(no_session()),
            }
        }
    }
}

/// Follows a call to its end, and ends the session with it.
async fn finish(
    lasting: Lasting,
    id: &CallId,
    json: bool,
    verbose: &Verbose,
    signals: &mut Signals,
) -> Result<u8, Error> {
    let (result, wish) = match follow(&lasting.keeper, id, json, verbose, signals).await {
        Ok(End::Result(result, wish)) => (result, wish),
        // Nobody is there any more who would read; the command goes on.
        Ok(End::Detached(status)) => return Ok(status),
        Err(error) => {
            use ollie_deploy::Error as Deploy;
            // What is lost for good needs no key any more, and what never began
            // needs no session.
            if let Error::Deploy(Deploy::Unknown(_) | Deploy::NeverStarted) = &error {
                end(lasting, signals).await;
            }
            return Err(error);
        }
    };
    // It was open for long, and nobody may have looked.
    if let Ok(Ok(kept)) = tokio::time::timeout(PATIENCE, lasting.keeper.get(&|_| ())).await {
        crate::turned_away::tell(kept.conn()).await;
    }
    let gone = end(lasting, signals).await;
    verbose.step(if gone {
        "toolsrv is gone"
    } else {
        "toolsrv did not end in time"
    });
    if !json {
        explain(&result, verbose.is_on(), &own_paths()?.policy());
    }
    Ok(match wish {
        Some(wish) => exec::status_of(wish),
        None => exit::of_result(&result),
    })
}

/// Ends the session, and says whether it is gone. Whoever does not want to wait
/// for that may leave: toolsrv was told.
async fn end(lasting: Lasting, signals: &mut Signals) -> bool {
    tokio::select! {
        gone = lasting.keeper.end() => gone,
        _ = signals.next() => false,
    }
}

/// Why a call is not followed any more.
enum End {
    /// It has ended; somebody may have wished that.
    Result(Box<ToolResult>, Option<Wish>),
    /// Whoever followed it is gone.
    Detached(u8),
}

async fn follow(
    keeper: &ProcessKeeper,
    id: &CallId,
    json: bool,
    verbose: &Verbose,
    signals: &mut Signals,
) -> Result<End, Error> {
    let tell = |step: &Step| verbose.on_the_way(step);
    let (to, mut events) = mpsc::channel(WAITING);
    let mut following = std::pin::pin!(keeper.resume(id, &to, &tell));
    let output = Output::new();
    let broken = output.broken();
    let mut waiting = None;
    let mut result = None;
    let mut wished = None;
    let mut asking = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = output.write(&mut waiting), if waiting.is_some() => {}
            Some(event) = events.recv(), if waiting.is_none() => {
                (waiting, _) = exec::shown(event, json);
            }
            ended = &mut following, if result.is_none() => result = Some(ended?),
            wish = signals.next() => {
                if wish == Wish::HangUp {
                    come_back(keeper.session(), "the command goes on");
                    return Ok(End::Detached(exec::status_of(wish)));
                }
                let again = wished.replace(wish).is_some();
                let word = exec::word_of(wish, again);
                match tokio::time::timeout(PATIENCE, keeper.get(&tell)).await {
                    Ok(Ok(kept)) => {
                        asking.spawn(kept.conn().control(id.as_str(), word));
                    }
                    // There is nobody to tell.
                    _ if again => {
                        come_back(keeper.session(), "left as it is");
                        return Ok(End::Detached(exec::status_of(wish)));
                    }
                    _ => come_back(
                        keeper.session(),
                        "the host cannot be reached, so the command goes on; the same again leaves it",
                    ),
                }
            }
            () = broken.notified() => {
                come_back(keeper.session(), "the command goes on");
                return Ok(End::Detached(exit::BROKEN_PIPE));
            }
        }
        if let Some(result) = &result
            && waiting.is_none()
            && events.is_empty()
        {
            let event = CallEvent::Result(Box::new(result.clone()));
            let (mut last, _) = exec::shown(event, json);
            output.write(&mut last).await;
            let written = tokio::task::spawn_blocking(|| output.finish()).await;
            return match written {
                Ok(Err(source)) if source.kind() != std::io::ErrorKind::BrokenPipe => {
                    Err(Error::Io {
                        action: "write the command's output",
                        source,
                    })
                }
                _ => Ok(End::Result(Box::new(result.clone()), wished)),
            };
        }
    }
}

/// What a failure to come back leaves: the session may live on.
fn still_kept(error: &ollie_deploy::Error, name: &str, leases: &Leases) -> String {
    use ollie_client::Error as Client;
    use ollie_deploy::Error as Deploy;
    let cause = match error {
        Deploy::Final(cause) => cause,
        other => other,
    };
    let stays = "what is kept of it stays until its time has run out";
    match cause {
        Deploy::Connect(Client::Impostor | Client::NotAccepted(_)) => format!(
            "session {name} and the key in {:?} do not fit together; {stays}",
            leases.file(name)
        ),
        _ => format!("session {name} was not reached; {stays}, and the same again tries again"),
    }
}

/// How to come back to a command that is not followed any more.
fn come_back(session: &str, state: &str) {
    output::note(&format!(
        "{state}; to go on with it: olliesrv reattach {session}"
    ));
}

/// How long a wish waits for a connection.
const PATIENCE: Duration = Duration::from_secs(2);

fn list(leases: &[Lease], json: bool) -> Result<u8, Error> {
    if json {
        let records: Vec<Value> = leases
            .iter()
            .map(|lease| {
                json!({
                    "session": lease.session,
                    "host": lease.target,
                    "lease_s": lease.time.as_secs(),
                    "command": lease.note,
                })
            })
            .collect();
        output::print(&format!("{:#}\n", Value::from(records)))?;
        return Ok(0);
    }
    for lease in leases {
        let host = lease.target.as_deref().unwrap_or("(this machine)");
        let line = format!("{}  {host}  {}", lease.session, lease.note);
        output::print(&format!("{}\n", printable(&line)))?;
    }
    if leases.is_empty() {
        output::note("no session lives on; exec --lease starts one that does");
    }
    Ok(0)
}

/// A command line for lists, short.
fn words(command: &[std::ffi::OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ").chars().take(200).collect()
}
