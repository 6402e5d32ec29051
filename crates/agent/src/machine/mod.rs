//! The loop without its waiting: what happens goes in, what is to be done
//! comes out. It knows no runtime, no clock and no disk, so that every order
//! of events can be tried.
//!
//! A turn: prompt, hooks, tools, context check, model, calls, results, and
//! again from the tools on; at the end hooks once more. Each thing to be done
//! carries a [`Ticket`]; what happens to an old one is ignored, so a stop can
//! come between any two events.

mod batch;
mod calls;
mod commands;
mod compaction;
mod draft;
mod hook;
mod output;
#[cfg(test)]
mod property;
mod reply;
mod transcript;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{
    Backend, Checkpoint, Config, Entry, Event, History, Notice, Queued, State, ToolDef, Usage,
    estimate,
};

use batch::Batch;
use compaction::Compaction;
use draft::Draft;
use hook::Running;
pub(crate) use output::{Action, Ask, Happened, Output, Ticket};
use turn::Turn;

/// What is waited for.
#[derive(Debug)]
enum Phase {
    /// A command.
    Idle,
    /// A hook before or after a turn.
    Hook(Running),
    /// The list of tools.
    Tools,
    /// A reply.
    Reply { draft: Draft, attempt: u32 },
    /// The time to ask for a reply again.
    ReplyAgain { attempt: u32 },
    /// The results of a reply's calls.
    Calls(Box<Batch>),
    /// A summary.
    Summary(Compaction),
    /// The time to ask for a summary again.
    SummaryAgain(Compaction),
    /// Nothing any more.
    Ended,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    config: Config,
    backend: Arc<dyn Backend>,
    history: History,
    usage: Usage,
    queue: VecDeque<Queued>,
    next_number: u64,
    phase: Phase,
    turn: Turn,
    ticket: Ticket,
    outputs: Vec<Output>,
    state: State,
    /// Every tool there is, and those of them that the model is shown.
    tools: Tools,
    /// How many entries the provider has counted, and as how many tokens.
    counted: Option<(usize, u64)>,
    /// The person was told that the context fills up.
    warned: bool,
    /// A compaction was asked for while a turn ran.
    compact_wanted: bool,
    random: fastrand::Rng,
}

#[derive(Debug, Default)]
struct Tools {
    all: Vec<ToolDef>,
    shown: Arc<[ToolDef]>,
}

impl Machine {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        config: Config,
        from: Checkpoint,
        seed: u64,
    ) -> Self {
        let mut new = Self {
            config,
            backend,
            history: from.history,
            usage: from.usage,
            queue: VecDeque::new(),
            next_number: 1,
            phase: Phase::Idle,
            turn: Turn::default(),
            ticket: Ticket::default(),
            outputs: Vec::new(),
            state: State::Idle,
            tools: Tools::default(),
            counted: None,
            warned: false,
            compact_wanted: false,
            random: fastrand::Rng::with_seed(seed),
        };
        for text in from.queue {
            new.enqueue(text);
        }
        new
    }

    /// What is to be done since the last time, in order.
    pub(crate) fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Something happened to what was to be done.
    pub(crate) fn handle(&mut self, ticket: Ticket, happened: Happened) {
        if ticket != self.ticket {
            return;
        }
        match happened {
            Happened::Connecting => self.set_state(State::Connecting),
            Happened::Tools(result) => self.on_tools(result),
            Happened::Delta(delta) => self.on_delta(delta),
            Happened::Failed(error) => self.on_failure(&error),
            Happened::Ended => self.on_end(),
            Happened::OutOfTime => self.on_out_of_time(),
            Happened::Chunk(slot, chunk) => self.on_chunk(slot, &chunk),
            Happened::CallEnded(slot, end) => self.on_call_end(slot, end),
            Happened::HookEnded(result) => self.on_hook_end(result),
            Happened::Elapsed => self.on_elapsed(),
        }
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let begun = self.turn.prompt.iter().map(|prompt| prompt.text.clone());
        let waiting = self.queue.iter().map(|queued| queued.text.clone());
        Checkpoint {
            history: self.history.clone(),
            usage: self.usage,
            queue: begun.chain(waiting).collect(),
        }
    }

    /// How many tokens the next request holds: what the provider has counted,
    /// and an estimate of the rest.
    pub(crate) fn context_tokens(&self) -> u64 {
        let (counted, tokens) = match self.counted {
            Some((entries, tokens)) => (entries, tokens),
            None => (
                0,
                estimate::text(&self.config.system) + estimate::tools(&self.tools.shown),
            ),
        };
        let rest = self.history.entries().skip(counted).map(estimate::entry);
        rest.fold(tokens, u64::saturating_add)
    }

    fn event(&mut self, event: Event) {
        self.outputs.push(Output::Notice(Notice::Event(event)));
    }

    fn info(&mut self, text: impl Into<String>) {
        self.event(Event::Info { text: text.into() });
    }

    fn error(&mut self, text: impl Into<String>) {
        self.event(Event::Error { text: text.into() });
    }

    fn save(&mut self) {
        let checkpoint = self.checkpoint();
        self.outputs
            .push(Output::Notice(Notice::Checkpoint(checkpoint)));
    }

    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state.clone();
            self.event(Event::State { state });
        }
    }

    /// Something is to be done, in this phase from now on.
    fn act(&mut self, phase: Phase, action: Action) {
        self.phase = phase;
        self.ticket = self.ticket.next();
        self.outputs.push(Output::Do(self.ticket, action));
    }

    /// Ends everything that is being done, and leaves its phase.
    fn cancel(&mut self) -> Phase {
        self.ticket = self.ticket.next();
        self.outputs.push(Output::Cancel);
        std::mem::replace(&mut self.phase, Phase::Idle)
    }

    /// Appends what the loop itself has made, which is always valid; should it
    /// not be, the history stays as it was and the person is told.
    fn append(&mut self, entry: Entry) {
        if let Err(error) = self.history.push(entry) {
            self.error(error.to_string());
        }
    }

    fn enqueue(&mut self, text: String) -> u64 {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        self.queue.push_back(Queued { number, text });
        number
    }
}
