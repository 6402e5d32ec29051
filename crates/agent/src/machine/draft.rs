use std::collections::HashMap;

use crate::{BackendError, Delta, Event, Origin, Reasoning, StopReason, Usage};

/// What a call costs of [`crate::Limits::reply_bytes`] on top of its text, so
/// that empty calls end as well.
const AROUND_CALL: usize = 64;

/// A reply that is still being made.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) made_by: Origin,
    pub(super) text: String,
    pub(super) reasoning: Vec<Reasoning>,
    pub(super) calls: Vec<Begun>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<StopReason>,
    /// The last block of reasoning goes on.
    block_open: bool,
    places: HashMap<u32, usize>,
    bytes: usize,
}

/// A call as far as it was written.
#[derive(Debug, Default)]
pub(super) struct Begun {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Draft {
    pub(super) fn new(made_by: Origin) -> Self {
        Self {
            made_by,
            text: String::new(),
            reasoning: Vec::new(),
            calls: Vec::new(),
            usage: None,
            stop: None,
            block_open: false,
            places: HashMap::new(),
            bytes: 0,
        }
    }

    /// What it holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a piece. Returns what of it the person sees.
    pub(super) fn add(&mut self, delta: Delta) -> Result<Option<Event>, BackendError> {
        match delta {
            Delta::Text(text) => {
                self.count(text.len());
                self.text.push_str(&text);
                Ok((!text.is_empty()).then_some(Event::Assistant { text }))
            }
            Delta::Reasoning {
                text,
                signature,
                data,
            } => {
                self.count(text.len());
                self.count(signature.as_ref().map_or(0, String::len));
                self.count(data.as_ref().map_or(0, |data| data.to_string().len()));
                let ends = signature.is_some() || data.is_some();
                if !self.block_open {
                    self.reasoning.push(Reasoning {
                        text: String::new(),
                        signature: None,
                        data: None,
                    });
                }
                if let Some(block) = self.reasoning.last_mut() {
                    block.text.push_str(&text);
                    block.signature = signature;
                    block.data = data;
                }
                self.block_open = !ends;
                Ok((!text.is_empty()).then_some(Event::Reasoning { text }))
            }
            Delta::CallStart { index, id, name } => {
                self.count(AROUND_CALL + id.len() + name.len());
                if self.places.insert(index, self.calls.len()).is_some() {
                    return Err(malformed(format!("two calls of the index {index}")));
                }
                self.calls.push(Begun {
                    id,
                    name,
                    arguments: String::new(),
                });
                Ok(None)
            }
            Delta::CallArguments { index, fragment } => {
                self.count(fragment.len());
                let place = self.places.get(&index).copied();
                let Some(call) = place.and_then(|place| self.calls.get_mut(place)) else {
                    return Err(malformed(format!(
                        "arguments of call {index}, which has not begun"
                    )));
                };
                call.arguments.push_str(&fragment);
                Ok(None)
            }
            Delta::Usage(usage) => {
                self.usage = Some(usage);
                Ok(None)
            }
            Delta::Stop(reason) => {
                self.stop = Some(reason);
                Ok(None)
            }
        }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes.max(1));
    }
}

fn malformed(message: String) -> BackendError {
    BackendError::Malformed { message }
}
