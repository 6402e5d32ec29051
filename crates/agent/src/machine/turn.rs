use super::compaction::After;
use super::{Action, Ask, Draft, Machine, Phase};
use crate::{Entry, Event, HandsError, Queued, State, ToolDef, TurnEnd};

/// What a turn has behind it.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The prompt, until it is in the history.
    pub(super) prompt: Option<Queued>,
    /// Requests made.
    pub(super) steps: u32,
    /// Rounds of failures only, one after another.
    pub(super) failing: u32,
    /// The request before which the history was last to be compacted because
    /// of its length.
    compacted_at: Option<u32>,
    /// How often a hook has sent the model back to work.
    pub(super) sent_back: u32,
    /// What the model said last.
    pub(super) reply: String,
    /// It has a turn's end: a compaction on its own has none.
    pub(super) open: bool,
}

/// Requests between two compactions of one turn: what is too long right after
/// one does not become shorter by another.
const BETWEEN: u32 = 3;

impl Turn {
    /// Whether the history may be compacted because of its length; from now
    /// on it was.
    pub(super) fn may_compact(&mut self) -> bool {
        let may = self
            .compacted_at
            .is_none_or(|at| self.steps >= at.saturating_add(BETWEEN));
        if may {
            self.compacted_at = Some(self.steps);
        }
        may
    }
}

impl Machine {
    /// Begins the turn of the next prompt, if there is one.
    pub(super) fn begin_next(&mut self) -> bool {
        let Some(prompt) = self.queue.pop_front() else {
            return false;
        };
        self.event(Event::User {
            text: prompt.text.clone(),
        });
        self.turn = Turn {
            prompt: Some(prompt),
            open: true,
            ..Turn::default()
        };
        self.set_state(State::Thinking);
        self.begin_hooks_before();
        true
    }

    /// The prompt is now part of the history.
    pub(super) fn commit_prompt(&mut self) {
        if let Some(prompt) = self.turn.prompt.take() {
            self.append(Entry::User { text: prompt.text });
        }
    }

    /// Begins the next request of the turn.
    pub(super) fn step(&mut self) {
        self.turn.open = true;
        let most = self.config.limits.steps;
        if self.turn.steps >= most {
            self.info(format!(
                "the turn has made {most} requests, which is its limit: resume it, or give \
                 another prompt"
            ));
            self.end_turn(TurnEnd::Limit);
            return;
        }
        self.turn.steps = self.turn.steps.saturating_add(1);
        self.set_state(State::Thinking);
        self.act(Phase::Tools, Action::ListTools);
    }

    pub(super) fn on_tools(&mut self, result: Result<Vec<ToolDef>, HandsError>) {
        if !matches!(self.phase, Phase::Tools) {
            return;
        }
        match result {
            Ok(all) => {
                let shown = all
                    .iter()
                    .filter(|tool| self.config.tools.shows(&tool.name));
                self.tools.shown = shown.cloned().collect();
                self.tools.all = all;
                self.check_context();
            }
            Err(error) => {
                self.error(error.to_string());
                self.end_turn(TurnEnd::Failed);
            }
        }
    }

    /// Compacts if that is due, else asks.
    fn check_context(&mut self) {
        let wanted = std::mem::take(&mut self.compact_wanted);
        let (tokens, window) = (self.context_tokens(), self.config.context_window);
        let percent = window.map_or(0, |window| tokens.saturating_mul(100) / window.max(1));
        if wanted || (percent >= COMPACT_AT && self.turn.may_compact()) {
            match self.begin_compaction(After::Ask) {
                Ok(()) => return,
                Err(error) if wanted => self.info(error.to_string()),
                Err(_) => {}
            }
        } else if percent >= WARN_AT && !self.warned {
            self.warned = true;
            let window = window.unwrap_or_default();
            self.info(format!(
                "the context is {percent} % full ({tokens} of {window} tokens); at {COMPACT_AT} % \
                 it is compacted"
            ));
        }
        self.ask(0);
    }

    /// Asks for a reply, after `attempt` failures.
    pub(super) fn ask(&mut self, attempt: u32) {
        self.set_state(State::Thinking);
        let draft = Draft::new(self.origin());
        let ask = Ask {
            backend: self.backend.clone(),
            model: self.config.model.clone(),
            system: self.config.system.clone(),
            history: self.history.clone(),
            tools: self.tools.shown.clone(),
            sampling: self.config.sampling.clone(),
            limit: self.config.limits.reply_time,
        };
        let action = Action::Ask(Box::new(ask));
        self.act(Phase::Reply { draft, attempt }, action);
    }

    /// Ends the turn, and begins what was asked for meanwhile.
    pub(super) fn end_turn(&mut self, outcome: TurnEnd) {
        self.finish_turn(outcome);
        // After a failure the next prompt would only fail as well, and a
        // limit is there so that somebody looks.
        if matches!(outcome, TurnEnd::Done | TurnEnd::Stopped) {
            self.go_on();
        }
    }

    /// Ends the turn and waits.
    pub(super) fn finish_turn(&mut self, outcome: TurnEnd) {
        self.phase = Phase::Idle;
        let open = self.turn.open;
        self.turn = Turn::default();
        // Saved first: who hears that the turn is over may rely on it.
        self.save();
        if open {
            self.event(Event::Turn { outcome });
        }
        self.set_state(match outcome {
            TurnEnd::Failed => State::Failed,
            TurnEnd::Done | TurnEnd::Stopped | TurnEnd::Limit => State::Idle,
        });
    }

    /// Begins what was asked for while something else ran.
    pub(super) fn go_on(&mut self) {
        let wanted = std::mem::take(&mut self.compact_wanted);
        if wanted && self.begin_compaction(After::Wait).is_ok() {
            return;
        }
        self.begin_next();
    }

    pub(super) fn on_elapsed(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::ReplyAgain { attempt } => self.ask(attempt),
            Phase::SummaryAgain(compaction) => self.ask_for_summary(compaction),
            other => self.phase = other,
        }
    }
}

/// How full the context is when the person is told, in percent of the window.
const WARN_AT: u64 = 60;

/// How full it is when it is compacted.
const COMPACT_AT: u64 = 75;
