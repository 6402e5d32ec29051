use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ollie_protocol::{CallId, Octets, Parallel, ShellArgs, ToolCall};
use serde::Deserialize;

use super::words;
use crate::driver;
use crate::plan::Plan;
use crate::session::Session;

/// How much of what it says at first is shown.
const SHOWN: usize = 4096;

/// The arguments of `proc_start`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    code: Option<String>,
    language: Option<ollie_protocol::Language>,
    argv: Option<Vec<Octets>>,
    cwd: Option<Octets>,
    stdin: bool,
    wait_s: f64,
}

/// `proc_start`: a call of `shell` that goes on by itself.
pub(crate) struct Start {
    shell: ShellArgs,
    call: ToolCall,
    queue: bool,
    wait: Duration,
}

impl Start {
    /// What `call` asks for; its environment and directory hold for what is
    /// started.
    pub(super) fn new(args: Args, call: &ToolCall) -> Self {
        Self {
            shell: ShellArgs {
                code: args.code,
                language: args.language,
                argv: args.argv,
                cwd: args.cwd,
                ..ShellArgs::default()
            },
            call: ToolCall {
                tool: "shell".to_owned(),
                stdin: args.stdin,
                timeout_ms: None,
                ..call.clone()
            },
            queue: call.queue,
            wait: Duration::try_from_secs_f64(args.wait_s).unwrap_or_default(),
        }
    }

    pub(super) async fn run(self, session: &Arc<Session>) -> Result<String, String> {
        let mut call = self.call;
        call.id = fresh_id(session)?;
        if let Ok(serde_json::Value::Object(args)) = serde_json::to_value(&self.shell) {
            call.args = args;
        }
        let (plan, work) =
            Plan::of_shell(session, &call).map_err(|refusal| refusal.ename().to_owned())?;
        // What was asked for before it is done before it; what it does once it
        // runs is beside everything else.
        let turn = match self.queue {
            true => Some(session.turns.take(Parallel::Write).await),
            false => None,
        };
        let call = driver::start(session, call, plan, work, None)
            .map_err(|refusal| refusal.ename().to_owned())?;
        let mut phases = call.phases();
        // The sender lives as long as the call.
        let _ = phases
            .wait_for(|phase| *phase > crate::call::Phase::Starting)
            .await;
        drop(turn);
        let finished = phases.wait_for(|_| call.is_finished());
        let _ = tokio::time::timeout(self.wait, finished).await;
        if let Some(failure) = call.result().and_then(|it| it.failure.as_ref()) {
            return Err(failure.message.clone());
        }
        Ok(format!(
            "{}: {}\n{}",
            call.id(),
            words::standing(&call),
            words::last(&call, SHOWN)
        ))
    }
}

/// A short name that no call has had.
fn fresh_id(session: &Session) -> Result<CallId, String> {
    loop {
        let number = session.started_processes.fetch_add(1, Ordering::Relaxed);
        let id = CallId::new(format!("p{number}")).map_err(|error| error.to_string())?;
        if session.calls.is_free(&id) {
            return Ok(id);
        }
    }
}
