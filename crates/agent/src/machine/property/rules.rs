//! What providers ask of a conversation, checked on what would be sent and on
//! what is saved.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::machine::Ask;
use crate::{Entry, History};

/// A request that is about to be sent: every provider takes its body.
pub(super) fn sendable(ask: &Ask) -> Result<(), TestCaseError> {
    let history = &ask.history;
    prop_assert!(history.awaits_reply(), "nothing to answer: {history:?}");
    super::providers::assert_accepted(&ask.request());
    whole(history)
}

/// What is true of a history even where the model has spoken last. That calls
/// have results is its type's doing.
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
