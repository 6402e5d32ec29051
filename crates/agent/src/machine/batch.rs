use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Tools;
use super::draft::{Begun, Draft};
use crate::history::is_tool_name;
use crate::text::Decoder;
use crate::{History, Limits, ModelCall, Origin, Outcome, Parallel, Reasoning, StopReason, Usage};

/// The calls of one reply on their way to their results.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) text: String,
    pub(super) reasoning: Vec<Reasoning>,
    pub(super) made_by: Origin,
    pub(super) usage: Option<Usage>,
    pub(super) slots: Vec<Slot>,
}

/// One call.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) call: ModelCall,
    pub(super) class: Parallel,
    /// An earlier call of the same group that is identical.
    pub(super) same_as: Option<usize>,
    pub(super) status: Status,
    pub(super) stdout: Decoder,
    pub(super) stderr: Decoder,
    /// Bytes of its output that were told.
    pub(super) streamed: usize,
    /// There was more output than is told.
    pub(super) over: bool,
    /// The end of its output.
    pub(super) tail: String,
}

#[derive(Debug)]
pub(super) enum Status {
    Waiting,
    Running,
    Done(Outcome),
}

impl Slot {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.status, Status::Done(_))
    }
}

impl Batch {
    /// What a reply asks for. Calls that cannot be made have their outcome
    /// already.
    pub(super) fn new(draft: Draft, tools: &Tools, history: &History, limits: &Limits) -> Self {
        let cut = !matches!(draft.stop, Some(StopReason::End | StopReason::ToolCalls));
        let last = draft.calls.len().saturating_sub(1);
        let mut ids = HashSet::new();
        let mut slots: Vec<Slot> = Vec::with_capacity(draft.calls.len());
        let mut group: Vec<(usize, Map<String, Value>)> = Vec::new();
        for (place, begun) in draft.calls.into_iter().enumerate() {
            let named = is_tool_name(&begun.name);
            let original = begun.name.clone();
            let call = acceptable(begun, history, &mut ids, place);
            let refused = if place >= limits.calls {
                Err(format!(
                    "Not made: a reply may hold {} calls. Ask again for this one.",
                    limits.calls
                ))
            } else {
                check(&call, &original, named, tools, cut && place == last)
            };
            let mut slot = Slot {
                call,
                class: Parallel::Read,
                same_as: None,
                status: Status::Waiting,
                stdout: Decoder::default(),
                stderr: Decoder::default(),
                streamed: 0,
                over: false,
                tail: String::new(),
            };
            match refused {
                Err(why) => slot.status = Status::Done(Outcome::error(why)),
                Ok((Parallel::Write, _)) => {
                    slot.class = Parallel::Write;
                    group.clear();
                }
                Ok((Parallel::Read, arguments)) => {
                    let same = group.iter().find(|(other, their)| {
                        *their == arguments
                            && slots
                                .get(*other)
                                .is_some_and(|it| it.call.name == slot.call.name)
                    });
                    slot.same_as = same.map(|(other, _)| *other);
                    if slot.same_as.is_none() {
                        group.push((place, arguments));
                    }
                }
            }
            slots.push(slot);
        }
        Self {
            text: draft.text,
            reasoning: draft.reasoning,
            made_by: draft.made_by,
            usage: draft.usage,
            slots,
        }
    }

    /// The calls that may run now: the first that is not done, and if it reads
    /// only, those after it until one writes.
    pub(super) fn group(&self) -> std::ops::Range<usize> {
        let open = |slot: &Slot| !slot.is_done();
        let Some(first) = self.slots.iter().position(open) else {
            return 0..0;
        };
        let rest = self.slots.iter().skip(first);
        let writes = |slot: &Slot| open(slot) && slot.class == Parallel::Write;
        let reads = rest.take_while(|slot| !writes(slot)).count();
        first..first.saturating_add(reads.max(1))
    }

    pub(super) fn running(&self) -> usize {
        let runs = |slot: &&Slot| matches!(slot.status, Status::Running);
        self.slots.iter().filter(runs).count()
    }
}

/// The call with an id that is new and a name that every provider takes back.
fn acceptable(
    begun: Begun,
    history: &History,
    ids: &mut HashSet<String>,
    place: usize,
) -> ModelCall {
    let mut id = begun.id;
    let mut number = place;
    while id.trim().is_empty() || history.has_call(&id) || ids.contains(&id) {
        id = format!("call_{}_{number}", history.len());
        number = number.saturating_add(1);
    }
    ids.insert(id.clone());
    let mut name: String = begun
        .name
        .chars()
        .take(64)
        .map(|it| {
            if it.is_ascii_alphanumeric() || it == '-' {
                it
            } else {
                '_'
            }
        })
        .collect();
    if name.is_empty() {
        name.push_str("unnamed");
    }
    ModelCall {
        id,
        name,
        arguments: begun.arguments,
    }
}

/// Whether a call can be made; if not, what the model should do.
fn check(
    call: &ModelCall,
    original: &str,
    named: bool,
    tools: &Tools,
    cut: bool,
) -> Result<(Parallel, Map<String, Value>), String> {
    let shown = || {
        let names: Vec<_> = tools.shown.iter().map(|tool| tool.name.as_str()).collect();
        if names.is_empty() {
            "There are no tools.".to_owned()
        } else {
            format!("The tools are: {}.", names.join(", "))
        }
    };
    let tool = tools
        .shown
        .iter()
        .find(|tool| named && tool.name == call.name);
    let Some(tool) = tool else {
        let exists = named && tools.all.iter().any(|tool| tool.name == call.name);
        let problem = if exists {
            "is not loaded here"
        } else {
            "does not exist"
        };
        let name: String = original.chars().take(64).collect();
        return Err(format!("The tool {name:?} {problem}. {}", shown()));
    };
    let arguments = call.object();
    if cut && (arguments.is_err() || call.arguments.trim().is_empty()) {
        return Err(
            "Not made: the reply was cut short inside this call's arguments. Make a shorter call, \
             for example in several steps."
                .to_owned(),
        );
    }
    match arguments {
        Ok(arguments) => Ok((tool.parallel, arguments)),
        Err(problem) => Err(format!(
            "Not made: {problem}. Make the call again with a JSON object that matches the \
             parameters of {}.",
            call.name
        )),
    }
}
