use std::path::Path;

use ollie_agent::{CallEnd, Facts, Outcome};
use ollie_protocol::{Denial, Enforced, FailureKind, ToolResult};

/// What the model is told of a call that the person let out.
const OUTSIDE: &str = "it ran outside of the sandbox, as the person approved for this call alone";

/// And of one that stayed in.
const DENIED: &str = "do not try to reach the same in another way: go on without it, or tell the \
                      person what you would need and why";

/// A result as the model and the session's events are told. `policy` is the
/// user's policy file.
pub(crate) fn call_end(result: &ToolResult, policy: &Path) -> CallEnd {
    let mut content = result.content.clone();
    let denied = result.sandbox.denied.iter();
    let mut denied: Vec<_> = denied.map(|denial| self::denied(denial, policy)).collect();
    if !denied.is_empty() {
        // Such as why the working directory is not granted.
        denied.extend(result.sandbox.notes.iter().cloned());
    }
    for sentence in sentences(result).iter().chain(&denied) {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&format!("[{sentence}]"));
    }
    CallEnd {
        outcome: Outcome {
            content,
            is_error: !result.ok,
        },
        facts: Facts {
            exit: result.exit.map(ollie_protocol::Exit::shell_status),
            duration_ms: Some(result.duration_ms),
            degraded: match result.sandbox.approved {
                true => vec![OUTSIDE.to_owned()],
                false => result.sandbox.degraded.clone(),
            },
            denied,
            same_as: None,
        },
    }
}

/// What the output itself does not say.
fn sentences(result: &ToolResult) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(failure) = &result.failure {
        all.push(failure.message.clone());
        if failure.kind == FailureKind::Denied {
            all.push(DENIED.to_owned());
        }
    }
    if result.timed_out {
        let ms = result.duration_ms;
        all.push(format!("time is up after {ms} ms; the command was ended"));
    } else if result.cancelled {
        all.push("the call was ended early".to_owned());
    } else if let Some(exit) = result.exit
        && !result.ok
    {
        all.push(format!("exit status {}", exit.shell_status()));
    }
    if let Some(cut) = &result.truncation {
        all.push(format!(
            "{} of {} bytes are shown; the rest can be read in {}",
            cut.kept, cut.total, cut.rest
        ));
    }
    if result.sandbox.approved {
        all.push(OUTSIDE.to_owned());
    } else if result.sandbox.enforced == Enforced::None {
        all.push("it ran without a sandbox, as the person chose".to_owned());
    }
    all
}

/// So that the model does not guess and can ask the person, who is told the
/// same.
fn denied(denial: &Denial, policy: &Path) -> String {
    let mut text = format!(
        "the sandbox policy does not allow to {} {}",
        denial.operation, denial.target
    );
    if let Some(line) = &denial.allow {
        text.push_str(&format!(
            "; the person can allow it with this line in {}, on the machine of olliesrv, and \
             `reconnect` in the session's ctl: {line}",
            policy.display()
        ));
    }
    if let Some(opens) = &denial.opens {
        let that = if denial.allow.is_some() { "this " } else { "" };
        text.push_str(&format!("; {that}{opens}"));
    }
    text
}
