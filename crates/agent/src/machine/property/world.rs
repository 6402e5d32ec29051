use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::doing::{Doing, unique};
use super::nobody::{Nobody, config};
use super::rules;
use crate::machine::{Action, Happened, Machine, Output, Ticket};
use crate::{Checkpoint, Entry, Event, History, Notice, State};

type Checked = Result<(), TestCaseError>;

/// What can be tried. The numbers choose among what is possible.
#[derive(Debug, Clone)]
pub(super) enum Move {
    Prompt,
    Remove(u8),
    Stop,
    Resume,
    Compact,
    Clear,
    /// The process is killed and starts from what was saved.
    Crash,
    /// The context is small, or large.
    Window(bool),
    /// Something happens to one of the things that are being done.
    Happen(u8, u8, u8),
    /// What happens next is what usually does.
    Well(u8),
    /// A stream makes so many calls, and ends.
    Calls(Vec<u8>),
    /// Something happens to one that was given up long ago.
    Late(u8, u8),
}

/// The machine, everything around it, and what must be true of both:
///
/// - what is sent and what is saved is a history that every provider takes;
/// - a history only grows, except for a compaction, which leaves a tail of it,
///   and for a clear;
/// - what a call gave before the round ended is in the history when it has;
/// - a prompt that was accepted is saved until it is in the history, blocked
///   by a hook, or taken back;
/// - the pieces of text since the last repetition are the text of the reply;
/// - each call that is told has one result that is told, in the history too;
/// - a write runs alone, reads run only so many at once, and no two alike;
/// - who is not idle waits for something, and who is idle for nothing.
pub(super) struct World {
    machine: Machine,
    /// What is being done.
    doing: Vec<(Ticket, Doing)>,
    given_up: Vec<(Ticket, Doing)>,
    saved: Checkpoint,
    /// Accepted prompts that are neither taken back nor in the history.
    prompts: BTreeSet<String>,
    /// The prompt whose turn runs.
    running: Option<String>,
    /// Results that were given in this round.
    given: Vec<String>,
    /// The text that a person sees of the reply that is being made.
    seen: String,
    called: BTreeMap<String, u32>,
    cleared: bool,
    state: State,
    window: Option<u64>,
    counter: u32,
}

impl World {
    pub(super) fn new() -> Self {
        let window = None;
        Self {
            machine: Machine::new(Arc::new(Nobody), config(window), Checkpoint::default(), 7),
            doing: Vec::new(),
            given_up: Vec::new(),
            saved: Checkpoint::default(),
            prompts: BTreeSet::new(),
            running: None,
            given: Vec::new(),
            seen: String::new(),
            called: BTreeMap::new(),
            cleared: false,
            state: State::Idle,
            window,
            counter: 0,
        }
    }

    pub(super) fn make(&mut self, one: Move) -> Checked {
        match one {
            Move::Prompt => {
                let text = unique(&mut self.counter, "prompt");
                if self.machine.prompt(text.clone()).is_ok() {
                    self.prompts.insert(text);
                }
            }
            Move::Remove(which) => {
                let queue = self.machine.queue();
                if !queue.is_empty() {
                    let queued = &queue[usize::from(which) % queue.len()];
                    self.machine.remove(queued.number).unwrap();
                    self.prompts.remove(&queued.text);
                }
            }
            Move::Stop => {
                let busy = self.machine.state().is_busy();
                prop_assert_eq!(self.machine.stop(), busy);
            }
            Move::Resume => {
                let _ = self.machine.resume();
            }
            Move::Compact => {
                let _ = self.machine.compact();
            }
            Move::Clear => self.cleared = self.machine.clear().is_ok(),
            Move::Crash => self.crash()?,
            Move::Window(small) => {
                self.window = small.then_some(120);
                self.machine.configure(config(self.window)).unwrap();
            }
            Move::Happen(which, what, more) => {
                if !self.doing.is_empty() {
                    let which = usize::from(which) % self.doing.len();
                    self.happen(which, what, more);
                }
            }
            Move::Well(which) => {
                if !self.doing.is_empty() {
                    self.go_well(usize::from(which) % self.doing.len());
                }
            }
            Move::Calls(list) => {
                let stream = |(_, it): &(Ticket, Doing)| matches!(it, Doing::Reply { .. });
                for more in list {
                    for what in [70, 120] {
                        if let Some(at) = self.doing.iter().position(stream) {
                            // Not the fragment that belongs to no call.
                            self.happen(at, what, if what == 120 { more % 8 } else { more });
                            self.drain()?;
                        }
                    }
                }
                for what in [250, 255] {
                    if let Some(at) = self.doing.iter().position(stream) {
                        self.happen(at, what, 3);
                        self.drain()?;
                    }
                }
            }
            Move::Late(which, what) => {
                if !self.given_up.is_empty() {
                    let which = usize::from(which) % self.given_up.len();
                    let (ticket, doing) = self.given_up[which].clone();
                    let happened = doing.clone().event(what, 0, &mut self.counter);
                    let before = self.machine.take().len();
                    self.machine.handle(ticket, happened);
                    prop_assert_eq!(before + self.machine.take().len(), 0, "{:?}", doing);
                }
            }
        }
        self.drain()
    }

    /// Starts from what was saved, as it is read from a file.
    fn crash(&mut self) -> Checked {
        let file = serde_json::to_string(&self.saved).unwrap();
        let from = serde_json::from_str(&file).unwrap();
        prop_assert_eq!(&from, &self.saved);
        self.counter += 1;
        let seed = u64::from(self.counter);
        self.machine = Machine::new(Arc::new(Nobody), config(self.window), from, seed);
        self.doing.clear();
        self.given_up.clear();
        self.given.clear();
        self.seen.clear();
        self.called.clear();
        self.running = None;
        self.state = State::Idle;
        Ok(())
    }

    /// From here on everything goes well: the turn ends, and every prompt
    /// gets its own.
    pub(super) fn settle(&mut self) -> Checked {
        self.machine.configure(config(None)).unwrap();
        for _ in 0..2000 {
            self.drain()?;
            if !self.doing.is_empty() {
                self.go_well(0);
            } else if self.machine.queue().is_empty() {
                return Ok(());
            } else {
                // It was held.
                self.machine.resume().unwrap();
            }
        }
        prop_assert!(false, "it does not come to rest: {:?}", self.machine);
        Ok(())
    }

    fn go_well(&mut self, which: usize) {
        let (what, more) = match self.doing[which].1 {
            Doing::Tools | Doing::Hook | Doing::Sleep => (0, 0),
            Doing::Reply { stopped: true, .. } => (255, 0),
            Doing::Reply { said: true, .. } => (250, 0),
            Doing::Reply { .. } => (0, 2),
            Doing::Call(..) => (200, 0),
        };
        self.happen(which, what, more);
    }

    fn happen(&mut self, which: usize, what: u8, more: u8) {
        let (ticket, mut doing) = self.doing[which].clone();
        let happened = doing.event(what, more, &mut self.counter);
        let ends = !matches!(
            happened,
            Happened::Connecting | Happened::Delta(_) | Happened::Chunk(..)
        );
        if ends {
            self.doing.remove(which);
        } else {
            self.doing[which].1 = doing.clone();
        }
        if let Happened::CallEnded(_, end) = &happened {
            self.given.push(end.outcome.content.clone());
        }
        self.machine.handle(ticket, happened);
    }

    /// Takes what the machine says, and checks all of it.
    fn drain(&mut self) -> Checked {
        for output in self.machine.take() {
            match output {
                Output::Notice(Notice::Event(event)) => self.hear(event)?,
                Output::Notice(Notice::Checkpoint(checkpoint)) => self.save(checkpoint)?,
                Output::Cancel => self.given_up.append(&mut self.doing),
                Output::Do(ticket, action) => self.begin(ticket, action)?,
                Output::End => {}
            }
        }
        self.cleared = false;
        let busy = self.machine.state().is_busy();
        prop_assert_eq!(busy, !self.doing.is_empty(), "{:?}", self.machine);
        prop_assert_eq!(&self.state, self.machine.state());
        let calling = self
            .doing
            .iter()
            .any(|(_, it)| matches!(it, Doing::Call(..)));
        if !calling {
            for result in std::mem::take(&mut self.given) {
                prop_assert!(holds(&self.saved.history, &result), "{result} is lost");
            }
            prop_assert!(
                self.called.values().all(|&told| told == 1),
                "{:?}",
                self.called
            );
            self.called.clear();
        }
        for prompt in &self.prompts {
            prop_assert!(self.saved.queue.contains(prompt), "{prompt} is lost");
        }
        self.given_up.truncate(20);
        Ok(())
    }

    fn begin(&mut self, ticket: Ticket, action: Action) -> Checked {
        let doing = match action {
            Action::ListTools => Doing::Tools,
            Action::Ask(ask) => {
                rules::sendable(&ask)?;
                // A reply of nothing but blanks is none.
                let seen = std::mem::take(&mut self.seen);
                prop_assert!(seen.trim().is_empty(), "{seen:?} is lost");
                Doing::Reply {
                    calls: 0,
                    said: false,
                    stopped: false,
                }
            }
            Action::Call { slot, call, .. } => {
                prop_assert!(call.object().is_ok());
                let others = self.doing.iter().filter_map(|(_, it)| match it {
                    Doing::Call(_, other) => Some(other),
                    _ => None,
                });
                for other in others.clone() {
                    prop_assert_eq!(&call.name, "look", "a write beside {:?}", other);
                    prop_assert_eq!(&other.name, "look", "{:?} beside a write", call);
                    prop_assert_ne!(call.object(), other.object());
                }
                prop_assert!(others.count() < 2);
                Doing::Call(slot, call)
            }
            Action::Hook { stdin, .. } => {
                serde_json::from_str::<serde_json::Value>(&stdin).unwrap();
                Doing::Hook
            }
            Action::Sleep(wait) => {
                prop_assert!(wait <= Duration::from_secs(660));
                Doing::Sleep
            }
        };
        self.doing.push((ticket, doing));
        Ok(())
    }

    fn hear(&mut self, event: Event) -> Checked {
        match event {
            Event::User { text } => {
                self.seen.clear();
                self.running = Some(text);
            }
            Event::Assistant { text } => self.seen.push_str(&text),
            Event::Retry { .. } => self.seen.clear(),
            Event::Call { id, .. } => {
                prop_assert_eq!(self.called.insert(id, 0), None);
            }
            Event::ToolResult { id, .. } => match self.called.get_mut(&id) {
                Some(told) => *told += 1,
                None => prop_assert!(false, "a result of {id}, which was not told"),
            },
            Event::Tool { id, .. } => prop_assert_eq!(self.called.get(&id), Some(&0)),
            Event::Error { text } if text.contains("blocked the prompt") => {
                if let Some(prompt) = self.running.take() {
                    self.prompts.remove(&prompt);
                }
            }
            Event::State { state } => {
                prop_assert_ne!(&state, &self.state);
                self.state = state;
            }
            Event::Turn { .. } => {
                prop_assert!(self.seen.trim().is_empty(), "{:?} is lost", self.seen);
                self.running = None;
            }
            Event::Usage(_)
            | Event::Info { .. }
            | Event::Error { .. }
            | Event::Reasoning { .. } => {}
            Event::Ask { .. } | Event::Ruling { .. } => panic!("the loop asks nobody"),
        }
        Ok(())
    }

    fn save(&mut self, new: Checkpoint) -> Checked {
        rules::whole(&new.history)?;
        let before: Vec<_> = self.saved.history.entries().collect();
        let after: Vec<_> = new.history.entries().collect();
        let added = if after.starts_with(&before) {
            &after[before.len()..]
        } else if self.cleared {
            prop_assert!(after.is_empty());
            &[]
        } else {
            prop_assert!(
                matches!(after.first(), Some(Entry::Summary { .. })),
                "{after:?}"
            );
            let tail = |skip: usize| after.get(skip..).is_some_and(|tail| before.ends_with(tail));
            prop_assert!(
                after.len() > 1 && (tail(1) || tail(2)),
                "{after:?} of {before:?}"
            );
            &[]
        };
        for entry in added {
            match entry {
                Entry::User { text } => {
                    prop_assert!(self.prompts.remove(text), "{text} again");
                }
                Entry::Reply(reply) => {
                    prop_assert_eq!(&reply.text, &std::mem::take(&mut self.seen));
                    for it in &reply.calls {
                        prop_assert_eq!(self.called.get(&it.call.id), Some(&1));
                    }
                }
                Entry::Note { .. } | Entry::Summary { .. } => {}
            }
        }
        prop_assert!(new.usage.input >= self.saved.usage.input);
        self.saved = new;
        Ok(())
    }
}

fn holds(history: &History, result: &str) -> bool {
    history.entries().any(|entry| match entry {
        Entry::Reply(reply) => reply.calls.iter().any(|it| it.outcome.content == result),
        _ => false,
    })
}
