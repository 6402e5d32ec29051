use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use ninep_rs::Refusal;
use ollie_exec::{Exceeded, Report, Step};
use ollie_protocol::{Exit, Failure, FailureKind, Stream, ToolCall};
use tokio::sync::Notify;

use crate::call::{Call, Held, PATHS, Phase};
use crate::call_file::refused;
use crate::native::Native;
use crate::plan::{Plan, Work};
use crate::session::Session;

/// Takes a call in and sees to it that it runs, when its turn comes.
///
/// `gone` is notified when nobody reads the call's events any more; without it
/// nobody ever does.
pub(crate) fn start(
    session: &Arc<Session>,
    call: ToolCall,
    plan: Plan,
    work: Work,
    gone: Option<Arc<Notify>>,
) -> Result<Arc<Call>, Refusal> {
    let sandbox = session.sandbox().ok_or(Refusal::new("no policy yet"))?;
    let held = Held {
        sandbox: Arc::clone(sandbox),
        report: sandbox.confinement()?.report.clone(),
    };
    let call = Call::new(session.fresh_paths(PATHS), call, plan, held, gone.is_none());
    session.calls.admit(&call)?;
    tokio::spawn(drive(Arc::clone(session), Arc::clone(&call), work, gone));
    Ok(call)
}

/// Follows a call until the tree has ended, and ends it when its time is up or
/// its client is gone.
async fn drive(session: Arc<Session>, call: Arc<Call>, work: Work, gone: Option<Arc<Notify>>) {
    let gone = gone.as_deref();
    tokio::select! {
        () = follow(&session, &call, work, gone) => {}
        () = call.pump() => {}
    }
    call.end_stdin();
    call.set_phase(Phase::Ended);
    if let Some(gone) = gone
        && !call.is_unread()
    {
        // The reader finishes the call when it has read everything; if it
        // goes away before that, or has gone already, this task does.
        let mut phases = call.phases();
        tokio::select! {
            () = gone.notified() => {}
            _ = phases.wait_for(|_| call.is_finished()) => return,
        }
    }
    call.drain();
    call.finish();
    call.set_phase(Phase::Ended);
}

/// Returns when the client has gone away and the call is to end for that.
async fn left(call: &Call, gone: Option<&Notify>) {
    if let Some(gone) = gone {
        gone.notified().await;
        if !call.lose_reader() {
            // Whoever waits for it after the end finds it again.
            gone.notify_one();
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Returns when the tree has ended.
async fn follow(session: &Arc<Session>, call: &Call, work: Work, gone: Option<&Notify>) {
    let turn = async {
        // A question keeps nobody waiting: the turn is asked for after it.
        let approved = call.phase() != Phase::Asking || call.ruled().await;
        match call.plan().turn {
            Some(parallel) if approved => Some(session.turns.take(parallel).await),
            _ => None,
        }
    };
    let _turn = tokio::select! {
        biased;
        () = call.asked_to_end() => return not_started(call),
        () = left(call, gone) => return not_started(call),
        turn = turn => turn,
    };
    if call.phase() == Phase::Denied {
        let mut ended = call.ended();
        ended.failure = Some(Failure {
            kind: FailureKind::Denied,
            message: "not started: it asked to run outside of the sandbox, and nobody approved"
                .to_owned(),
        });
        ended.tree_ended = true;
        return;
    }
    call.begin();
    let limit = call.plan().timeout;
    let deadline = async move {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    match work {
        Work::Process(mut command, directory) => {
            let policy = match call.is_let_out() {
                true => session.outside().await,
                false => Ok(command.policy),
            };
            let spawned = match policy {
                Ok(policy) => {
                    command.policy = policy;
                    let (spawner, stdin) = (&session.spawner, call.has_stdin());
                    let pinned = directory.as_ref().map(OwnedFd::as_fd);
                    spawner.spawn(&command, stdin, pinned).await
                }
                Err(error) => Err(error),
            };
            drop(directory);
            match spawned {
                Ok(running) => call.attach(running),
                Err(error) => {
                    let mut ended = call.ended();
                    ended.failure = Some(Failure {
                        kind: FailureKind::System,
                        message: refused(&error).ename().to_owned(),
                    });
                    ended.tree_ended = true;
                    return;
                }
            }
            watch(call, gone, deadline).await;
        }
        Work::Nowhere(errno) => {
            let mut ended = call.ended();
            ended.failure = Some(call.failure(Step::Cwd, errno.raw_os_error()));
            ended.tree_ended = true;
        }
        Work::Native(native) => {
            answer(session, call, native, gone, deadline).await;
        }
    }
}

/// The call has left the queue.
fn not_started(call: &Call) {
    // Nor is there anything to approve of any more.
    let _ = call.rule(false);
    let mut ended = call.ended();
    ended.cancelled = true;
    ended.tree_ended = true;
}

/// toolsrv does by itself what is asked.
async fn answer(
    session: &Arc<Session>,
    call: &Call,
    native: Native,
    gone: Option<&Notify>,
    deadline: impl Future<Output = ()>,
) {
    let mut exit = None;
    tokio::select! {
        said = native.run(session) => match said {
            Ok(text) => {
                exit = Some(Exit::Code(0));
                call.say(Stream::Stdout, text);
            }
            Err(text) => {
                exit = Some(Exit::Code(1));
                call.say(Stream::Stderr, text);
            }
        },
        () = call.asked_to_end() => call.ended().cancelled = true,
        () = left(call, gone) => call.ended().cancelled = true,
        () = deadline => call.ended().timed_out = true,
    }
    let mut ended = call.ended();
    ended.exit = exit;
    ended.tree_ended = true;
    ended.duration = call.duration();
}

/// Follows the supervisor of a process.
async fn watch(call: &Call, gone: Option<&Notify>, deadline: impl Future<Output = ()>) {
    // It is there until this function has let the call end.
    let Some(control) = call.control() else {
        return;
    };
    let mut deadline = std::pin::pin!(deadline);
    let mut ending = false;
    if call.was_asked_to_end() {
        // Whoever asked found no supervisor yet.
        ending = true;
        call.end(call.grace()).await;
    }
    let mut unread = false;
    loop {
        tokio::select! {
            report = control.report() => {
                // The command has kept its time; what it left running has its
                // grace and no more.
                ending |= matches!(report, Some(Report::Exited(_)));
                if !note(call, report) {
                    break;
                }
            }
            () = &mut deadline, if !ending => {
                ending = true;
                call.ended().timed_out = true;
                call.end(call.grace()).await;
            }
            () = left(call, gone), if !unread => {
                unread = true;
                if call.ended().exit.is_none() && !ending {
                    ending = true;
                    call.ended().cancelled = true;
                    call.end(call.grace()).await;
                }
            }
        }
    }
}

/// Takes one report in; false after the last one.
fn note(call: &Call, report: Option<Report>) -> bool {
    let mut ended = call.ended();
    match report {
        Some(Report::Started(pid)) => {
            call.set_phase(Phase::Running(pid));
            return true;
        }
        Some(Report::Exited(exit)) => {
            ended.exit = Some(exit);
            return true;
        }
        Some(Report::Exceeded(exceeded)) => {
            ended.failure = Some(beyond(exceeded));
            return true;
        }
        Some(Report::NotStarted { step, errno }) => {
            ended.failure = Some(call.failure(step, errno));
            ended.tree_ended = true;
        }
        Some(Report::Ended {
            survivors,
            confirmed,
        }) => {
            ended.survivors = survivors;
            ended.tree_ended = confirmed;
        }
        None => {
            ended.failure = Some(Failure {
                kind: FailureKind::SupervisorLost,
                message: "the process that watched over this call was killed; what the call \
                          had done by then is not known"
                    .to_owned(),
            });
        }
    }
    ended.duration = call.duration();
    false
}

fn beyond(exceeded: Exceeded) -> Failure {
    let message = match exceeded {
        Exceeded::Processes { most, found } => format!(
            "ended, because it had {found} processes and threads where limits.processes is {most}"
        ),
        Exceeded::Memory { most, found } => {
            format!("ended, because it used {found} MiB where limits.memory_mb is {most}")
        }
    };
    Failure {
        kind: FailureKind::LimitExceeded,
        message,
    }
}
