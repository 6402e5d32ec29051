//! What providers ask of a conversation, checked on what would be sent.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::{Entry, History};

/// The rules that all of them share. Anthropic's Messages API: roles
/// alternate once neighbours are joined, no text block is empty, `tool_use`
/// ids are unique and match `[a-zA-Z0-9_-]{1,}`-like names, each `tool_use` has its
/// `tool_result` in the next message, and the last message is the user's.
/// OpenAI's Chat Completions: an assistant message with `tool_calls` is
/// followed by one message of the role `tool` for each id.
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
