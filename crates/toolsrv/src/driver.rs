use std::sync::Arc;
use std::time::{Duration, Instant};

use ollie_exec::{Exceeded, Report};
use ollie_protocol::{Failure, FailureKind};
use tokio::sync::Notify;

use crate::call::{Call, Phase};

/// Follows the supervisor of a call until the tree has ended, and ends it when
/// its time is up or its client is gone.
///
/// `gone` is notified when nobody reads the call's events any more.
pub(crate) async fn drive(call: Arc<Call>, gone: Arc<Notify>) {
    let unread = follow(&call, Some(&gone)).await;
    if !unread {
        // The reader finishes the call when it has read everything; if it
        // goes away before that, this task does.
        let mut phases = call.phases();
        tokio::select! {
            () = gone.notified() => {}
            _ = phases.wait_for(|_| call.is_finished()) => return,
        }
    }
    finish(&call);
}

/// Does the same for a call that no reader belongs to.
pub(crate) async fn drive_alone(call: Arc<Call>) {
    tokio::select! {
        _ = follow(&call, None) => {}
        () = call.pump() => {}
    }
    finish(&call);
}

fn finish(call: &Call) {
    call.drain();
    call.finish();
    call.set_phase(Phase::Ended);
}

/// Returns when the tree has ended; true if the client went away before.
async fn follow(call: &Call, gone: Option<&Notify>) -> bool {
    // It is there until this function has let the call end.
    let Some(control) = call.control() else {
        return false;
    };
    let limit = call.spec().timeout_ms.map(Duration::from_millis);
    let mut deadline = std::pin::pin!(async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    });
    let left = async || match gone {
        Some(gone) => gone.notified().await,
        None => std::future::pending().await,
    };
    let mut ending = false;
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
            () = left(), if !unread => {
                unread = true;
                if call.ended().exit.is_none() && !ending {
                    ending = true;
                    call.ended().cancelled = true;
                    call.end(call.grace()).await;
                }
            }
        }
    }
    call.end_stdin();
    call.set_phase(Phase::Ended);
    unread
}

/// Takes one report in; false after the last one.
fn note(call: &Call, report: Option<Report>) -> bool {
    let started = call.started();
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
    ended.duration = Instant::now().duration_since(started);
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
