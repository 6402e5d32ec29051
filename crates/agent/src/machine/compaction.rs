use std::time::Duration;

use super::{Action, Ask, Draft, Machine, Phase, transcript};
use crate::text::cut_middle;
use crate::{
    BackendError, Entry, Error, History, Origin, Sampling, State, StopReason, TurnEnd, backoff,
    estimate,
};

/// What stays whole at the end of a history, in tokens, where the model's
/// context is not known; else a fifth of it.
const TAIL: u64 = 20_000;

/// Bytes of a transcript for a model whose context is not known; else two for
/// each token, which is about half of it.
const TRANSCRIPT: usize = 400_000;

/// Bytes of a summary, and a quarter of the context at most: four bytes are
/// about a token.
const SUMMARY: usize = 64 * 1024;

/// A summary that is being made.
#[derive(Debug)]
pub(super) struct Compaction {
    plan: Plan,
    after: After,
    attempt: u32,
    pub(super) draft: Draft,
}

/// What of a history stays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// The first entry that does.
    from: usize,
    /// One before it that does as well: the prompt that the model works on.
    kept: Option<usize>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing: it was asked for by itself.
    Wait,
    /// The request of the turn, summary or not.
    Ask,
    /// The request that was too long; without a summary it would be again.
    AskShorter,
}

impl Machine {
    /// Begins to compact.
    ///
    /// # Errors
    /// [`Error::NothingToCompact`]; nothing has begun then.
    pub(super) fn begin_compaction(&mut self, after: After) -> Result<(), Error> {
        let plan = self.plan().ok_or(Error::NothingToCompact)?;
        self.summarise(plan, after);
        Ok(())
    }

    pub(super) fn summarise(&mut self, plan: Plan, after: After) {
        self.ask_for_summary(Compaction {
            plan,
            after,
            attempt: 0,
            draft: Draft::new(self.origin()),
        });
    }

    /// What is to stay: as many of the last entries as fit, but at least one,
    /// and the prompt that the model is working on.
    pub(super) fn plan(&self) -> Option<Plan> {
        let room = self.config.context_window.map_or(TAIL, |window| window / 5);
        let sizes: Vec<_> = self.history.entries().map(estimate::entry).collect();
        let prompt = self
            .history
            .entries()
            .rposition(|entry| matches!(entry, Entry::User { .. }))
            .filter(|_| self.history.awaits_reply())
            .filter(|&at| sizes.get(at).is_some_and(|&size| size <= room / 2));
        [room, 0].into_iter().find_map(|room| {
            let mut sum = 0_u64;
            let fits = sizes.iter().rev().take_while(|&&size| {
                sum = sum.saturating_add(size);
                sum <= room
            });
            let from = sizes.len().saturating_sub(fits.count().max(1));
            let kept = prompt.filter(|&at| at < from);
            let goes = |(at, entry): (usize, &Entry)| {
                Some(at) != kept && !matches!(entry, Entry::Summary { .. })
            };
            let worth = self.history.entries().take(from).enumerate().any(goes);
            worth.then_some(Plan { from, kept })
        })
    }

    pub(super) fn ask_for_summary(&mut self, mut compaction: Compaction) {
        self.set_state(State::Compacting);
        compaction.draft = Draft::new(self.origin());
        let most = match self.config.context_window {
            Some(window) => usize::try_from(window.saturating_mul(2)).unwrap_or(TRANSCRIPT),
            None => TRANSCRIPT,
        };
        let entries = self.history.entries().take(compaction.plan.from);
        let text = cut_middle(transcript::of(entries), most);
        let history = match History::from_entries([Entry::User { text }]) {
            Ok(history) => history,
            Err(error) => {
                self.fail_compaction(&compaction, &error.to_string());
                return;
            }
        };
        let ask = Ask {
            backend: self.backend.clone(),
            model: self.config.model.clone(),
            system: transcript::INSTRUCTIONS.to_owned(),
            history,
            tools: Vec::new().into(),
            sampling: Sampling {
                stop: Vec::new(),
                ..self.config.sampling.clone()
            },
            limit: self.config.limits.reply_time,
        };
        self.act(Phase::Summary(compaction), Action::Ask(Box::new(ask)));
    }

    pub(super) fn retry_summary(&mut self, mut compaction: Compaction, error: &BackendError) {
        self.count_usage(&compaction.draft);
        compaction.attempt = compaction.attempt.saturating_add(1);
        let attempt = compaction.attempt;
        let jitter = self.random.f64();
        match backoff::wait(&self.config.limits, error, attempt, jitter) {
            Some(wait) => self.wait_for_summary(compaction, wait, error),
            None => self.fail_compaction(&compaction, &error.to_string()),
        }
    }

    fn wait_for_summary(&mut self, compaction: Compaction, wait: Duration, error: &BackendError) {
        self.tell_retry(compaction.attempt, wait, error);
        self.act(Phase::SummaryAgain(compaction), Action::Sleep(wait));
    }

    pub(super) fn finish_summary(&mut self, compaction: &Compaction) {
        self.count_usage(&compaction.draft);
        if compaction.draft.stop == Some(StopReason::Length) {
            self.fail_compaction(compaction, "the summary was cut short: raise maxTokens");
            return;
        }
        let window = self.config.context_window.map(usize::try_from);
        let most = window.and_then(Result::ok).unwrap_or(SUMMARY).min(SUMMARY);
        let text = cut_middle(compaction.draft.text.trim().to_owned(), most);
        let before = self.history.len();
        match self
            .history
            .compact(compaction.plan.from, compaction.plan.kept, text)
        {
            Ok(()) => {
                self.forget_count();
                let (after, tokens) = (self.history.len(), self.context_tokens());
                self.info(format!(
                    "the history is compacted from {before} to {after} entries; the context has \
                     about {tokens} tokens now"
                ));
                self.save();
                match compaction.after {
                    After::Wait => self.end_turn(TurnEnd::Done),
                    After::Ask | After::AskShorter => self.ask(0),
                }
            }
            Err(error) => self.fail_compaction(compaction, &error.to_string()),
        }
    }

    /// There is no summary, and the history is as it was.
    fn fail_compaction(&mut self, compaction: &Compaction, why: &str) {
        self.error(format!(
            "the history could not be compacted and is as it was: {why}"
        ));
        match compaction.after {
            After::Wait => self.end_turn(TurnEnd::Done),
            After::Ask => self.ask(0),
            After::AskShorter => self.end_turn(TurnEnd::Failed),
        }
    }

    pub(super) fn origin(&self) -> Origin {
        Origin {
            backend: self.backend.name().to_owned(),
            model: self.config.model.clone(),
        }
    }
}
