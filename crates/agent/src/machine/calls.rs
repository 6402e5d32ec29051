use super::batch::{Batch, Slot, Status};
use super::{Action, Draft, Machine, Output, Phase};
use crate::text::{Decoder, cut_middle, keep_end};
use crate::{
    Answered, CallEnd, Chunk, Entry, Event, Facts, Outcome, Reply, State, TurnEnd, estimate,
};
use ollie_protocol::Stream;

/// How much of its output a stopped call leaves for the model, in bytes.
const TAIL: usize = 2048;

/// The results of a round are at most this part of the model's context, in
/// bytes for a token: half of it at four bytes each.
const ROUND_BYTES: u64 = 2;

/// The calls of a reply, from the first to the last result.
impl Machine {
    pub(super) fn begin_calls(&mut self, draft: Draft) {
        let batch = Batch::new(draft, &self.tools, &self.history, &self.config.limits);
        for slot in &batch.slots {
            if let Status::Done(outcome) = &slot.status {
                self.tell_call(slot);
                self.tell_result(slot, outcome, Facts::default());
            }
        }
        self.ticket = self.ticket.next();
        self.advance(batch);
    }

    /// Starts what can run, and ends the round when nothing is left.
    fn advance(&mut self, mut batch: Batch) {
        loop {
            let group = batch.group();
            if group.is_empty() {
                self.finish_round(batch);
                return;
            }
            // An identical call whose first one is done may free the way.
            if !self.start(&mut batch, group) {
                break;
            }
        }
        let runs = |slot: &&Slot| matches!(slot.status, Status::Running);
        if let Some(first) = batch.slots.iter().find(runs) {
            self.set_state(State::Calling(first.call.name.clone()));
        }
        self.phase = Phase::Calls(Box::new(batch));
    }

    /// Starts calls of the group. Returns whether one of them got its result.
    fn start(&mut self, batch: &mut Batch, group: std::ops::Range<usize>) -> bool {
        let most = self.config.limits.parallel.max(1);
        let mut running = batch.running();
        let mut answered = false;
        for place in group {
            let Some(slot) = batch.slots.get(place) else {
                continue;
            };
            if !matches!(slot.status, Status::Waiting) {
                continue;
            }
            let original = slot.same_as.and_then(|other| batch.slots.get(other));
            if let Some(original) = original {
                let Status::Done(outcome) = &original.status else {
                    continue;
                };
                let (outcome, facts) = (
                    outcome.clone(),
                    Facts {
                        same_as: Some(original.call.id.clone()),
                        ..Facts::default()
                    },
                );
                self.tell_call(slot);
                self.event(Event::ToolResult {
                    id: slot.call.id.clone(),
                    ok: !outcome.is_error,
                    content: None,
                    facts,
                });
                if let Some(slot) = batch.slots.get_mut(place) {
                    slot.status = Status::Done(outcome);
                }
                answered = true;
                continue;
            }
            if running >= most {
                continue;
            }
            running = running.saturating_add(1);
            self.tell_call(slot);
            self.event(Event::Tool {
                id: slot.call.id.clone(),
                chunk: String::new(),
            });
            let action = Action::Call {
                slot: place,
                call: slot.call.clone(),
                streamed: self.config.limits.streamed_bytes,
            };
            self.outputs.push(Output::Do(self.ticket, action));
            if let Some(slot) = batch.slots.get_mut(place) {
                slot.status = Status::Running;
            }
        }
        answered
    }

    pub(super) fn on_chunk(&mut self, place: usize, chunk: &Chunk) {
        let most = self.config.limits.streamed_bytes;
        let Phase::Calls(batch) = &mut self.phase else {
            return;
        };
        let runs = |slot: &&mut Slot| matches!(slot.status, Status::Running);
        let Some(slot) = batch.slots.get_mut(place).filter(runs) else {
            return;
        };
        let decoder = match chunk.stream {
            Stream::Stdout => &mut slot.stdout,
            Stream::Stderr => &mut slot.stderr,
        };
        let text = decoder.push(&chunk.data);
        if let Some(chunk) = add_output(slot, text, most) {
            let id = slot.call.id.clone();
            self.event(Event::Tool { id, chunk });
        }
    }

    pub(super) fn on_call_end(&mut self, place: usize, end: CallEnd) {
        let most = self.config.limits.streamed_bytes;
        let mut batch = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Calls(batch) => batch,
            other => {
                self.phase = other;
                return;
            }
        };
        let runs = |slot: &&mut Slot| matches!(slot.status, Status::Running);
        if let Some(slot) = batch.slots.get_mut(place).filter(runs) {
            let rest = [slot.stdout.end(), slot.stderr.end()].concat();
            if let Some(chunk) = add_output(slot, rest, most) {
                let id = slot.call.id.clone();
                self.event(Event::Tool { id, chunk });
            }
            let content = cut_middle(end.outcome.content, self.config.limits.outcome_bytes);
            let outcome = Outcome {
                content,
                is_error: end.outcome.is_error,
            };
            self.tell_result(slot, &outcome, end.facts);
            slot.status = Status::Done(outcome);
            (slot.stdout, slot.stderr) = (Decoder::default(), Decoder::default());
            slot.tail = String::new();
        }
        self.advance(*batch);
    }

    /// Every call has its result.
    fn finish_round(&mut self, batch: Batch) {
        let failed = batch
            .slots
            .iter()
            .all(|slot| matches!(&slot.status, Status::Done(outcome) if outcome.is_error));
        self.append_round(batch);
        self.turn.failing = if failed {
            self.turn.failing.saturating_add(1)
        } else {
            0
        };
        let (failing, most) = (self.turn.failing, self.config.limits.failing_rounds);
        if failed && failing >= most {
            self.save();
            self.info(format!(
                "every call of the last {failing} rounds failed, so the turn ends here: look at \
                 what went wrong, then give another prompt"
            ));
            self.end_turn(TurnEnd::Limit);
            return;
        }
        if failed && failing == most / 2 {
            let text = format!(
                "Every call of the last {failing} rounds failed. Read the errors again, try \
                 another way, or tell the person what keeps you from going on."
            );
            self.info("every call keeps failing; the model was told so");
            self.append(Entry::Note { text });
        }
        self.save();
        self.step();
    }

    /// A stop came: finished calls keep their results, the others are told why
    /// they have none.
    pub(super) fn keep_stopped(&mut self, mut batch: Batch) {
        for slot in &mut batch.slots {
            let content = match slot.status {
                Status::Done(_) => continue,
                Status::Waiting => {
                    self.tell_call(slot);
                    "Not made: the turn was stopped before.".to_owned()
                }
                Status::Running if slot.tail.is_empty() => STOPPED.to_owned(),
                Status::Running => {
                    format!("{STOPPED} The end of its output until then:\n{}", slot.tail)
                }
            };
            let outcome = Outcome::error(content);
            self.tell_result(slot, &outcome, Facts::default());
            slot.status = Status::Done(outcome);
        }
        self.append_round(batch);
    }

    fn append_round(&mut self, batch: Batch) {
        let room = self
            .config
            .context_window
            .map(|window| window.saturating_mul(ROUND_BYTES))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(usize::MAX);
        let size = |slot: &Slot| match &slot.status {
            Status::Done(outcome) => outcome.content.len(),
            Status::Waiting | Status::Running => 0,
        };
        let all = batch.slots.iter().map(size).fold(0, usize::saturating_add);
        let each = if all > room {
            room / batch.slots.len().max(1)
        } else {
            usize::MAX
        };
        let mut further = 0_u64;
        let calls = batch.slots.into_iter().map(|slot| {
            let outcome = match slot.status {
                Status::Done(outcome) => outcome,
                Status::Waiting | Status::Running => Outcome::error("Not made."),
            };
            let content = cut_middle(outcome.content, each);
            further = further.saturating_add(estimate::text(&content));
            Answered {
                call: slot.call,
                outcome: Outcome {
                    content,
                    is_error: outcome.is_error,
                },
            }
        });
        let calls = calls.collect();
        self.append(Entry::Reply(Reply {
            text: batch.text,
            reasoning: batch.reasoning,
            calls,
            made_by: batch.made_by,
        }));
        self.set_count(batch.usage, further);
    }

    fn tell_call(&mut self, slot: &Slot) {
        self.event(Event::Call {
            id: slot.call.id.clone(),
            name: slot.call.name.clone(),
            arguments: slot.call.arguments.clone(),
        });
    }

    fn tell_result(&mut self, slot: &Slot, outcome: &Outcome, facts: Facts) {
        let told = (slot.streamed == 0 && !outcome.content.is_empty())
            .then(|| cut_middle(outcome.content.clone(), self.config.limits.streamed_bytes));
        self.event(Event::ToolResult {
            id: slot.call.id.clone(),
            ok: !outcome.is_error,
            content: told,
            facts,
        });
    }
}

const STOPPED: &str = "This call was stopped before it ended; what it had done by then is \
                       not known.";

/// Counts output, and returns what of it is told.
fn add_output(slot: &mut Slot, mut text: String, most: usize) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    slot.tail.push_str(&text);
    keep_end(&mut slot.tail, TAIL);
    if slot.over {
        return None;
    }
    if slot.streamed.saturating_add(text.len()) > most {
        slot.over = true;
        let room = most.saturating_sub(slot.streamed);
        text.truncate(
            (0..=room)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0),
        );
        text.push_str("\n[more output than is shown here]\n");
    }
    slot.streamed = slot.streamed.saturating_add(text.len());
    Some(text)
}
