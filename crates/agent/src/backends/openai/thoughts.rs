use serde_json::{Map, Value, json};

use crate::Delta;

/// The reasoning of one reply, and the form in which it goes back: under the
/// name under which it came. A server that sent none is never sent any.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    field: Option<&'static str>,
    /// OpenRouter's `reasoning_details`, put together.
    details: Vec<Map<String, Value>>,
}

impl Thoughts {
    pub(super) fn add(
        &mut self,
        reasoning: Option<String>,
        reasoning_content: Option<String>,
        details: Option<Vec<Map<String, Value>>>,
        to: &mut Vec<Delta>,
    ) {
        let text = |text: &Option<String>| text.as_deref().is_some_and(|it| !it.is_empty());
        // Some send the same text under both names.
        let (field, said) = if text(&reasoning) {
            ("reasoning", reasoning)
        } else {
            ("reasoning_content", reasoning_content)
        };
        if let Some(text) = said.filter(|it| !it.is_empty()) {
            self.field.get_or_insert(field);
            to.push(Delta::Reasoning {
                text,
                signature: None,
                data: None,
            });
        }
        for detail in details.unwrap_or_default() {
            self.detail(detail);
        }
    }

    /// A text that comes in pieces is one detail in the end; its signature
    /// comes with a piece of its own.
    fn detail(&mut self, piece: Map<String, Value>) {
        let same = |open: &Map<String, Value>| {
            ["type", "index", "id"].iter().all(|key| {
                let (open, new) = (open.get(*key), piece.get(*key));
                open == new || (*key == "id" && (is_null(open) || is_null(new)))
            })
        };
        let readable = matches!(
            piece.get("type").and_then(Value::as_str),
            Some("reasoning.text" | "reasoning.summary")
        );
        match self.details.last_mut() {
            Some(open) if readable && same(open) => {
                for (key, value) in piece {
                    match (key.as_str(), open.get_mut(&key), value) {
                        ("text" | "summary", Some(Value::String(text)), Value::String(more)) => {
                            text.push_str(&more);
                        }
                        (_, _, Value::Null) => {}
                        (_, _, value) => {
                            open.insert(key, value);
                        }
                    }
                }
            }
            _ => self.details.push(piece),
        }
    }

    /// The reply is over: what has to go back ends the block.
    pub(super) fn end(&mut self, to: &mut Vec<Delta>) {
        let details = std::mem::take(&mut self.details);
        let data = match (details.is_empty(), self.field.take()) {
            (false, _) => json!({ "reasoning_details": details }),
            (true, Some(field)) => json!({ "field": field }),
            (true, None) => return,
        };
        to.push(Delta::Reasoning {
            text: String::new(),
            signature: None,
            data: Some(data),
        });
    }
}

fn is_null(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}
