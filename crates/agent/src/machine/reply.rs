use std::time::Duration;

use super::compaction::After;
use super::{Action, Draft, Machine, Phase};
use crate::{BackendError, Delta, Entry, Event, Reply, StopReason, TurnEnd, backoff};

/// A reply from its first piece to its end.
impl Machine {
    pub(super) fn on_delta(&mut self, delta: Delta) {
        let most = self.config.limits.reply_bytes;
        let (draft, shown) = match &mut self.phase {
            Phase::Reply { draft, .. } => (draft, true),
            Phase::Summary(compaction) => (&mut compaction.draft, false),
            _ => return,
        };
        match draft.add(delta) {
            Ok(event) => {
                let long = draft.bytes() > most;
                if let Some(event) = event.filter(|_| shown) {
                    self.event(event);
                }
                if long {
                    self.cut_short(&format!(
                        "the reply is cut at {most} bytes, the limit of one"
                    ));
                }
            }
            Err(error) => self.on_failure(&error),
        }
    }

    pub(super) fn on_out_of_time(&mut self) {
        let limit = self.config.limits.reply_time.as_secs();
        self.cut_short(&format!(
            "the reply is cut after {limit} s, the limit of one"
        ));
    }

    /// Takes what there is of a reply as if the model had run out of tokens.
    fn cut_short(&mut self, why: &str) {
        self.info(why);
        match &mut self.phase {
            Phase::Reply { draft, .. } => draft.stop = Some(StopReason::Length),
            Phase::Summary(compaction) => compaction.draft.stop = Some(StopReason::Length),
            _ => return,
        }
        self.on_end();
    }

    /// The stream is over.
    pub(super) fn on_end(&mut self) {
        match self.cancel() {
            Phase::Reply { draft, attempt } => {
                if draft.stop.is_some() {
                    self.finish_reply(draft);
                } else {
                    self.retry_reply(draft, attempt, &ended_early());
                }
            }
            Phase::Summary(compaction) => {
                if compaction.draft.stop.is_some() {
                    self.finish_summary(&compaction);
                } else {
                    self.retry_summary(compaction, &ended_early());
                }
            }
            other => self.phase = other,
        }
    }

    /// The request failed, or its stream did.
    pub(super) fn on_failure(&mut self, error: &BackendError) {
        match self.cancel() {
            // It had said that it is done; only the rest of the stream is
            // missing.
            Phase::Reply { draft, .. } if draft.stop.is_some() => self.finish_reply(draft),
            Phase::Reply { draft, attempt } => self.retry_reply(draft, attempt, error),
            Phase::Summary(compaction) if compaction.draft.stop.is_some() => {
                self.finish_summary(&compaction);
            }
            Phase::Summary(compaction) => self.retry_summary(compaction, error),
            other => self.phase = other,
        }
    }

    fn retry_reply(&mut self, draft: Draft, attempt: u32, error: &BackendError) {
        self.count_usage(&draft);
        if matches!(error, BackendError::ContextTooLong { .. })
            && self.turn.may_compact()
            && let Some(plan) = self.plan()
        {
            self.tell_retry(1, Duration::ZERO, error);
            self.summarise(plan, After::AskShorter);
            return;
        }
        let attempt = attempt.saturating_add(1);
        let jitter = self.random.f64();
        match backoff::wait(&self.config.limits, error, attempt, jitter) {
            Some(wait) => {
                self.tell_retry(attempt, wait, error);
                self.act(Phase::ReplyAgain { attempt }, Action::Sleep(wait));
            }
            None => {
                let given_up = if error.is_retryable() {
                    format!("{error} (given up after {attempt} attempts)")
                } else {
                    error.to_string()
                };
                self.keep_partial(draft, "The reply broke off here.");
                self.error(given_up);
                self.end_turn(TurnEnd::Failed);
            }
        }
    }

    pub(super) fn tell_retry(&mut self, attempt: u32, wait: Duration, error: &BackendError) {
        self.event(Event::Retry {
            attempt,
            after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            reason: error.to_string(),
        });
    }

    /// Adds up what a request cost, whatever became of it.
    pub(super) fn count_usage(&mut self, draft: &Draft) {
        if let Some(usage) = draft.usage {
            self.usage = self.usage.plus(usage);
            self.event(Event::Usage(usage));
        }
    }

    /// What was said until now stays; calls that were not complete do not.
    pub(super) fn keep_partial(&mut self, draft: Draft, why: &str) {
        if draft.text.trim().is_empty() {
            return;
        }
        self.append(Entry::Reply(Reply {
            text: draft.text,
            reasoning: draft.reasoning,
            calls: Vec::new(),
            made_by: draft.made_by,
        }));
        self.append(Entry::Note { text: why.into() });
    }

    fn finish_reply(&mut self, draft: Draft) {
        self.count_usage(&draft);
        let says_nothing = draft.text.trim().is_empty();
        match &draft.stop {
            Some(StopReason::Length) => self.info(if says_nothing && draft.calls.is_empty() {
                "the model used up the tokens of a reply before it said anything: raise maxTokens"
            } else {
                "the reply was cut short at the most tokens of a reply"
            }),
            Some(StopReason::Filtered) => self.info("the provider withheld the rest of the reply"),
            Some(StopReason::Other(reason)) => {
                let told = format!("the provider ended the reply: {reason}");
                self.info(told);
            }
            Some(StopReason::End | StopReason::ToolCalls) | None => {
                if says_nothing && draft.calls.is_empty() {
                    self.info("the model said nothing");
                }
            }
        }
        if !says_nothing {
            self.turn.reply.clone_from(&draft.text);
        }
        if !draft.calls.is_empty() {
            self.begin_calls(draft);
            return;
        }
        let usage = draft.usage;
        if !says_nothing {
            self.append(Entry::Reply(Reply {
                text: draft.text,
                reasoning: draft.reasoning,
                calls: Vec::new(),
                made_by: draft.made_by,
            }));
        }
        self.set_count(usage, 0);
        self.save();
        self.begin_hooks_after();
    }

    /// The provider has counted everything up to now, except of `further`
    /// tokens that came after its reply.
    pub(super) fn set_count(&mut self, usage: Option<crate::Usage>, further: u64) {
        self.counted = usage
            .filter(|usage| usage.input > 0)
            .map(|usage| usage.input.saturating_add(usage.output))
            .map(|tokens| (self.history.len(), tokens.saturating_add(further)));
    }

    /// The history, or who counts it, is another.
    pub(super) fn forget_count(&mut self) {
        self.counted = None;
        self.warned = false;
    }
}

fn ended_early() -> BackendError {
    BackendError::Dropped {
        message: "the stream ended before the reply did".to_owned(),
    }
}
