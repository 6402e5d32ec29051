//! What a person is told about a result beside the command's own output.

use std::path::Path;

use ollie_protocol::{Denial, Enforced, ToolResult};

use crate::output::note;
use crate::printable::printable;

/// Tells of failures, denials and a missing sandbox. `file` is the user's
/// policy file, there or not yet.
pub(crate) fn explain(result: &ToolResult, verbose: bool, file: &Path) {
    let say = |text: &str| note(&printable(text));
    if let Some(failure) = &result.failure {
        say(&failure.message);
    }
    if result.timed_out {
        say(&format!(
            "time is up after {} ms; the command was ended",
            result.duration_ms
        ));
    }
    if !result.tree_ended {
        say("not every process of the command was seen to end");
    }
    if result.survivors > 0 && verbose {
        say(&format!(
            "{} processes outlived the command and were ended",
            result.survivors
        ));
    }
    for denial in &result.sandbox.denied {
        say(&sentence(denial, &result.sandbox.profile, file));
    }
    let sandbox = &result.sandbox;
    if sandbox.unexplained && !sandbox.degraded.is_empty() {
        say(&format!(
            "something was refused, and neither a rule nor mode bits explain it. What is different \
             in a sandbox on this kernel: {}. With --yolo it shows whether it was the sandbox",
            sandbox.degraded.join("; ")
        ));
    }
    if verbose || !result.sandbox.denied.is_empty() {
        result.sandbox.notes.iter().for_each(|text| say(text));
    }
    if verbose {
        result.sandbox.degraded.iter().for_each(|text| say(text));
    }
    if result.sandbox.project_changed {
        say(
            "the project's .ollie-sandbox.yaml changed during this session; that had no effect, \
             and what it asks for now has to be trusted anew",
        );
    }
    if result.sandbox.enforced == Enforced::None && !result.sandbox.approved {
        say("it ran without a sandbox (--yolo)");
    }
}

fn sentence(denial: &Denial, profile: &str, file: &Path) -> String {
    let mut text = format!(
        "the sandbox policy (profile {profile}) does not allow to {}{} {}",
        denial.operation,
        if denial.operation == "connect" {
            " to"
        } else {
            ""
        },
        denial.target
    );
    if let Some(nearest) = &denial.nearest {
        text.push_str(&format!("; nearest rule: {nearest}"));
    }
    if let Some(line) = &denial.allow {
        let how = if file.exists() {
            "add this to the lists in"
        } else {
            "write this into"
        };
        text.push_str(&format!(
            "\nollie:   to allow it, {how} {}:\nollie:   {line}",
            file.display()
        ));
    }
    if let Some(opens) = &denial.opens {
        let that = if denial.allow.is_some() { "this " } else { "" };
        text.push_str(&format!("\nollie:   {that}{opens}"));
    }
    text
}
