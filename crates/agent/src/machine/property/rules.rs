//! What providers ask of a conversation, checked on what would be sent.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::{Entry, History};

/// What all of them ask for. Anthropic, Messages API: roles alternate once
/// neighbours of one role are joined, no text is empty, ids of `tool_use` are
/// unique, each has its `tool_result` in the message after it, names match
/// `^[a-zA-Z0-9_-]{1,64}$`, and the user speaks last. OpenAI, Chat
/// Completions: a message with `tool_calls` is followed by one message of the
/// role `tool` for each of them. A reply of this history is rendered with its
/// results behind it, so what is left to check is this.
pub(super) fn sendable(history: &History) -> Result<(), TestCaseError> {
    prop_assert!(history.awaits_reply(), "nothing to answer: {history:?}");
    whole(history)
}

/// As [`sendable`], but the model may have spoken last.
pub(super) fn whole(history: &History) -> Result<(), TestCaseError> {
    let mut ids = HashSet::new();
    for (at, entry) in history.entries().enumerate() {
        match entry {
            Entry::User { text } | Entry::Note { text } => {
                prop_assert!(!text.trim().is_empty());
            }
            Entry::Summary { text } => {
                prop_assert!(!text.trim().is_empty());
                prop_assert_eq!(at, 0, "a summary is what comes first");
            }
            Entry::Reply(reply) => {
                prop_assert!(!reply.text.trim().is_empty() || !reply.calls.is_empty());
                for it in &reply.calls {
                    prop_assert!(ids.insert(it.call.id.clone()), "twice: {}", it.call.id);
                    prop_assert!(!it.call.id.trim().is_empty());
                    let name = &it.call.name;
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    prop_assert!((1..=64).contains(&name.len()) && name.chars().all(plain));
                }
            }
        }
    }
    Ok(())
}
