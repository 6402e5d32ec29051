use serde_json::Value;

use super::chunk::CallRecord;
use crate::Delta;

/// Puts together which fragment belongs to which call.
///
/// OpenAI gives each call an index, and its id and name with the first
/// fragment. Others leave out the index, or give every call the index 0, or
/// repeat id and name with each fragment, or have no ids.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    wire_index: Option<u32>,
    id: String,
    name: String,
    /// Whether its start was told. It is not before its name is known.
    started: bool,
    /// Arguments that came before the name.
    held: String,
    has_arguments: bool,
}

impl Calls {
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn add(&mut self, record: CallRecord, to: &mut Vec<Delta>) {
        let function = record.function.unwrap_or_default();
        let id = record.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = match function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(whole) => whole.to_string(),
        };
        let at = self.find(record.index, &id, &name).unwrap_or_else(|| {
            self.0.push(Call {
                wire_index: record.index,
                ..Call::default()
            });
            self.0.len() - 1
        });
        if let Some(call) = self.0.get_mut(at) {
            call.add(at, id, name, arguments, to);
        }
    }

    /// The call that a fragment belongs to, if it is not a new one.
    fn find(&self, index: Option<u32>, id: &str, name: &str) -> Option<usize> {
        let same = |call: &Call| match index {
            Some(index) => call.wire_index == Some(index),
            None => id.is_empty() || call.id == id,
        };
        let at = self.0.iter().rposition(same)?;
        let call = self.0.get(at)?;
        let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        // Without an index and an id, a name is all that can begin a call.
        let begins = index.is_none() && id.is_empty() && !name.is_empty();
        let new = other_id || (begins && call.started);
        (!new).then_some(at)
    }

    /// The reply is over: tells the calls that never had a name, and gives
    /// those that never had arguments the empty object.
    pub(super) fn end(&mut self, to: &mut Vec<Delta>) {
        for (at, call) in self.0.iter_mut().enumerate() {
            call.start(at, to);
            if !call.has_arguments {
                to.push(fragment(at, "{}".to_owned()));
            }
        }
    }
}

impl Call {
    fn add(&mut self, at: usize, id: String, name: String, arguments: String, to: &mut Vec<Delta>) {
        if self.id.is_empty() {
            self.id = id;
        }
        if self.name.is_empty() {
            self.name = name;
        }
        self.has_arguments |= !arguments.is_empty();
        if self.started {
            if !arguments.is_empty() {
                to.push(fragment(at, arguments));
            }
            return;
        }
        self.held.push_str(&arguments);
        if !self.name.is_empty() {
            self.start(at, to);
        }
    }

    fn start(&mut self, at: usize, to: &mut Vec<Delta>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        to.push(Delta::CallStart {
            index: number(at),
            id: self.id.clone(),
            name: self.name.clone(),
        });
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            to.push(fragment(at, held));
        }
    }
}

fn fragment(at: usize, fragment: String) -> Delta {
    Delta::CallArguments {
        index: number(at),
        fragment,
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
