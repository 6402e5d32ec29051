use std::sync::Arc;

use super::compaction::After;
use super::turn::Turn;
use super::{Machine, Output, Phase};
use crate::{Backend, Config, Error, Queued, TurnEnd};

/// What a person can ask for. Each is checked, and refused without effect,
/// before it returns.
impl Machine {
    pub(crate) fn prompt(&mut self, text: String) -> Result<u64, Error> {
        self.check_living()?;
        let limits = &self.config.limits;
        if text.trim().is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if text.len() > limits.prompt_bytes {
            return Err(Error::LongPrompt {
                length: text.len(),
                most: limits.prompt_bytes,
            });
        }
        if self.queue.len() >= limits.queue {
            return Err(Error::QueueFull(self.queue.len()));
        }
        let number = self.enqueue(text);
        self.save();
        if self.is_idle() {
            self.begin_next();
        }
        Ok(number)
    }

    pub(crate) fn queue(&self) -> Vec<Queued> {
        self.queue.iter().cloned().collect()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Result<(), Error> {
        self.check_living()?;
        let before = self.queue.len();
        self.queue.retain(|queued| queued.number != number);
        if self.queue.len() == before {
            return Err(Error::NotQueued(number));
        }
        self.save();
        Ok(())
    }

    /// Ends what runs and keeps what is finished. Returns whether something
    /// ran.
    pub(crate) fn stop(&mut self) -> bool {
        if self.is_idle() || matches!(self.phase, Phase::Ended) {
            return false;
        }
        self.abandon();
        self.go_on();
        true
    }

    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        self.check_idle()?;
        if self.history.awaits_reply() {
            self.turn = Turn::default();
            self.step();
            Ok(())
        } else if self.begin_next() {
            Ok(())
        } else {
            Err(Error::NothingToResume)
        }
    }

    pub(crate) fn compact(&mut self) -> Result<(), Error> {
        self.check_living()?;
        if self.is_idle() {
            return self.begin_compaction(After::Wait);
        }
        self.compact_wanted = true;
        Ok(())
    }

    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.check_idle()?;
        self.history.clear();
        self.forget_count();
        self.info("the history is empty");
        self.save();
        Ok(())
    }

    pub(crate) fn configure(&mut self, config: Config) -> Result<(), Error> {
        self.check_living()?;
        if self.config.model != config.model {
            self.forget_count();
        }
        self.config = config;
        Ok(())
    }

    pub(crate) fn set_backend(
        &mut self,
        backend: Arc<dyn Backend>,
        model: String,
    ) -> Result<(), Error> {
        self.check_living()?;
        self.backend = backend;
        self.config.model = model;
        self.forget_count();
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        if !self.is_idle() {
            self.abandon();
        }
        self.save();
        self.cancel();
        self.phase = Phase::Ended;
        self.outputs.push(Output::End);
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    fn check_living(&self) -> Result<(), Error> {
        match self.phase {
            Phase::Ended => Err(Error::Ended),
            _ => Ok(()),
        }
    }

    fn check_idle(&self) -> Result<(), Error> {
        self.check_living()?;
        if self.is_idle() {
            Ok(())
        } else {
            Err(Error::Busy)
        }
    }

    /// Ends what runs. What it leaves behind is a history that can be sent.
    fn abandon(&mut self) {
        match self.cancel() {
            Phase::Idle | Phase::Ended => return,
            Phase::Summary(compaction) => {
                self.count_usage(&compaction.draft);
                self.info(COMPACTION_STOPPED);
            }
            // What that one cost was counted when it failed.
            Phase::SummaryAgain(_) => self.info(COMPACTION_STOPPED),
            Phase::Reply { draft, .. } => {
                self.count_usage(&draft);
                self.keep_partial(draft, "This reply was stopped here.");
            }
            Phase::Calls(batch) => self.keep_stopped(*batch),
            Phase::Hook(_) | Phase::Tools | Phase::ReplyAgain { .. } => {}
        }
        self.commit_prompt();
        self.finish_turn(TurnEnd::Stopped);
    }
}

const COMPACTION_STOPPED: &str = "the compaction was stopped, and the history is as it was";
