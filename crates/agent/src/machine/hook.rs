use serde_json::json;

use super::{Action, Machine, Phase};
use crate::text::cut_middle;
use crate::{Entry, HandsError, ShellEnd, TurnEnd};

/// Bytes of a hook's output that are kept.
const OUTPUT: usize = 32 * 1024;

/// How often hooks may send the model back to work in one turn.
const SENT_BACK: u32 = 3;

/// The hooks of one side of a turn, one after another.
#[derive(Debug)]
pub(super) struct Running {
    side: Side,
    /// How many have begun.
    begun: usize,
    /// What they want the model to know.
    notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl Machine {
    pub(super) fn begin_hooks_before(&mut self) {
        self.next_hook(Running {
            side: Side::Before,
            begun: 0,
            notes: Vec::new(),
        });
    }

    pub(super) fn begin_hooks_after(&mut self) {
        self.next_hook(Running {
            side: Side::After,
            begun: 0,
            notes: Vec::new(),
        });
    }

    fn commands(&self, side: Side) -> &[String] {
        match side {
            Side::Before => &self.config.hooks.pre_turn,
            Side::After => &self.config.hooks.post_turn,
        }
    }

    fn next_hook(&mut self, mut running: Running) {
        let Some(command) = self.commands(running.side).get(running.begun) else {
            self.finish_hooks(running);
            return;
        };
        let command = command.clone();
        running.begun = running.begun.saturating_add(1);
        let mut told = json!({
            "session": self.config.session,
            "agent": self.config.agent,
            "model": self.config.model,
        });
        if let Some(told) = told.as_object_mut() {
            let (event, name, text) = match running.side {
                Side::Before => {
                    let prompt = self.turn.prompt.as_ref();
                    ("preTurn", "prompt", prompt.map(|it| it.text.clone()))
                }
                Side::After => ("postTurn", "reply", Some(self.turn.reply.clone())),
            };
            told.insert("event".to_owned(), event.into());
            told.insert(name.to_owned(), text.unwrap_or_default().into());
        }
        let action = Action::Hook {
            command,
            stdin: told.to_string(),
            limit: self.config.limits.hook,
        };
        self.act(Phase::Hook(running), action);
    }

    pub(super) fn on_hook_end(&mut self, result: Result<ShellEnd, HandsError>) {
        let mut running = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Hook(running) => running,
            other => {
                self.phase = other;
                return;
            }
        };
        let ran = running.begun.checked_sub(1);
        let command = ran.and_then(|index| self.commands(running.side).get(index));
        let command: String = command
            .map_or("?", String::as_str)
            .chars()
            .take(80)
            .collect();
        match result {
            Ok(ShellEnd {
                status: Some(0),
                stdout,
                ..
            }) => {
                let stdout = stdout.trim();
                if !stdout.is_empty() {
                    running.notes.push(cut_middle(stdout.to_owned(), OUTPUT));
                }
            }
            Ok(ShellEnd {
                status: Some(2),
                stderr,
                ..
            }) => {
                let reason = match stderr.trim() {
                    "" => "it gave no reason",
                    reason => reason,
                };
                let reason = cut_middle(reason.to_owned(), OUTPUT);
                if self.block(&mut running, &command, &reason) {
                    return;
                }
            }
            Ok(ShellEnd { status: None, .. }) => {
                let limit = self.config.limits.hook.as_secs();
                self.info(format!("the hook `{command}` was ended after {limit} s"));
            }
            Ok(ShellEnd {
                status: Some(status),
                stderr,
                ..
            }) => {
                let said = cut_middle(stderr.trim().to_owned(), 512);
                self.info(format!(
                    "the hook `{command}` failed with status {status}: {said}"
                ));
            }
            Err(error) => self.info(format!("the hook `{command}` did not run: {error}")),
        }
        self.next_hook(running);
    }

    /// A hook says no. Returns whether something else goes on because of it.
    fn block(&mut self, running: &mut Running, command: &str, reason: &str) -> bool {
        match running.side {
            Side::Before => {
                self.turn.prompt = None;
                self.error(format!("the hook `{command}` blocked the prompt: {reason}"));
                self.end_turn(TurnEnd::Failed);
                true
            }
            Side::After if self.turn.sent_back < SENT_BACK => {
                self.turn.sent_back = self.turn.sent_back.saturating_add(1);
                self.info(format!(
                    "the hook `{command}` sent the model back: {reason}"
                ));
                self.append_notes(std::mem::take(&mut running.notes));
                self.append(Entry::Note {
                    text: format!("The work is not finished yet: {reason}"),
                });
                self.save();
                self.step();
                true
            }
            Side::After => {
                self.info(format!(
                    "the hook `{command}` is still not content, and the turn ends: {reason}"
                ));
                false
            }
        }
    }

    fn finish_hooks(&mut self, running: Running) {
        self.commit_prompt();
        self.append_notes(running.notes);
        match running.side {
            Side::Before => {
                self.save();
                self.step();
            }
            Side::After => self.end_turn(TurnEnd::Done),
        }
    }

    fn append_notes(&mut self, notes: Vec<String>) {
        for text in notes {
            self.append(Entry::Note { text });
        }
    }
}
