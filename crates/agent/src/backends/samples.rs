//! Histories for tests.

use crate::{Answered, Entry, History, ModelCall, Origin, Outcome, Reply};

pub(crate) fn user(text: &str) -> Entry {
    Entry::User { text: text.into() }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str, output: &str) -> Answered {
    Answered {
        call: ModelCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        },
        outcome: Outcome::ok(output),
    }
}

pub(crate) fn reply(text: &str, calls: Vec<Answered>) -> Entry {
    Entry::Reply(Reply {
        text: text.into(),
        reasoning: Vec::new(),
        calls,
        made_by: Origin {
            backend: "here".into(),
            model: "m".into(),
        },
    })
}

pub(crate) fn history(entries: Vec<Entry>) -> History {
    History::from_entries(entries).expect("a valid history")
}
