use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Entry, Error, Reply};

/// The version of the serialised form. A history of a newer version is
/// refused, and so is a field that this version does not know: half a history
/// is worse than a clear word.
const VERSION: u32 = 1;

/// What was said and done, oldest first.
///
/// Every entry can be sent to every provider: no text is blank, a call has its
/// result beside it, ids are unique, names have the characters that providers
/// take. Who speaks after whom does not matter; back ends join entries of the
/// same role. Copies share their entries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct History(Vec<Arc<Entry>>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    entries: Vec<Entry>,
}

impl From<History> for Stored {
    fn from(history: History) -> Self {
        let entries = history.0.into_iter().map(Arc::unwrap_or_clone);
        Self {
            version: VERSION,
            entries: entries.collect(),
        }
    }
}

impl TryFrom<Stored> for History {
    type Error = Error;
    fn try_from(stored: Stored) -> Result<Self, Error> {
        if stored.version != VERSION {
            let found = stored.version;
            return Err(Error::History(format!(
                "it has version {found}, this ollie reads version {VERSION}: use the ollie that \
                 wrote it"
            )));
        }
        Self::from_entries(stored.entries)
    }
}

impl History {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A history of these entries.
    ///
    /// # Errors
    /// [`Error::History`] names the first entry that no provider would take.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Result<Self, Error> {
        let mut ids = HashSet::new();
        let mut kept = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            check(&entry, &mut |id| !ids.insert(id.to_owned())).map_err(|problem| {
                Error::History(format!("entry {} has {problem}", index.saturating_add(1)))
            })?;
            kept.push(Arc::new(entry));
        }
        Ok(Self(kept))
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.0.iter().map(AsRef::as_ref)
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was said yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is the model's turn to speak.
    #[must_use]
    pub fn awaits_reply(&self) -> bool {
        match self.entries().next_back() {
            None => false,
            Some(Entry::Reply(reply)) => !reply.calls.is_empty(),
            Some(_) => true,
        }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`Error::History`] if no provider would take it; nothing has changed
    /// then.
    pub fn push(&mut self, entry: Entry) -> Result<(), Error> {
        let mut new = HashSet::new();
        let mut used = |id: &str| self.has_call(id) || !new.insert(id.to_owned());
        check(&entry, &mut used)
            .map_err(|problem| Error::History(format!("the new entry has {problem}")))?;
        self.0.push(Arc::new(entry));
        Ok(())
    }

    /// Whether a call of this id is in it.
    #[must_use]
    pub fn has_call(&self, id: &str) -> bool {
        self.entries().any(|entry| match entry {
            Entry::Reply(reply) => reply.calls.iter().any(|it| it.call.id == id),
            _ => false,
        })
    }

    /// Puts a summary in the place of everything before the entry `from`,
    /// except of the entry `kept`, which then follows the summary.
    ///
    /// # Errors
    /// [`Error::NothingToCompact`] if there is nothing before `from` that
    /// would go, [`Error::History`] if the summary is blank. Nothing has
    /// changed then.
    pub fn compact(
        &mut self,
        from: usize,
        kept: Option<usize>,
        summary: String,
    ) -> Result<(), Error> {
        let (Some(head), Some(tail)) = (self.0.get(..from), self.0.get(from..)) else {
            return Err(Error::NothingToCompact);
        };
        let kept = kept.and_then(|index| head.get(index));
        if head.len() <= usize::from(kept.is_some()) {
            return Err(Error::NothingToCompact);
        }
        let summary = Entry::Summary { text: summary };
        check(&summary, &mut |_| false)
            .map_err(|problem| Error::History(format!("the summary has {problem}")))?;
        self.0 = std::iter::once(Arc::new(summary))
            .chain(kept.cloned())
            .chain(tail.iter().cloned())
            .collect();
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether `name` can stand as a tool's name at every provider.
pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// What is wrong with an entry. `used` tells whether an id was seen before.
fn check(entry: &Entry, used: &mut dyn FnMut(&str) -> bool) -> Result<(), String> {
    match entry {
        Entry::User { text } | Entry::Note { text } | Entry::Summary { text } => {
            if text.trim().is_empty() {
                return Err("no text".to_owned());
            }
        }
        Entry::Reply(Reply { text, calls, .. }) => {
            if text.trim().is_empty() && calls.is_empty() {
                return Err("neither text nor calls".to_owned());
            }
            for answered in calls {
                let call = &answered.call;
                if !is_tool_name(&call.name) {
                    return Err(format!(
                        "a call of {:?}, which is no tool's name",
                        call.name
                    ));
                }
                if call.id.trim().is_empty() {
                    return Err("a call without an id".to_owned());
                }
                if used(&call.id) {
                    return Err(format!("a second call of the id {:?}", call.id));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answered, ModelCall, Origin, Outcome};

    fn user(text: &str) -> Entry {
        Entry::User { text: text.into() }
    }

    fn reply(text: &str, ids: &[&str]) -> Entry {
        let calls = ids.iter().map(|id| Answered {
            call: ModelCall {
                id: (*id).into(),
                name: "shell".into(),
                arguments: r#"{"code":"true"}"#.into(),
            },
            outcome: Outcome::ok(""),
        });
        Entry::Reply(Reply {
            text: text.into(),
            reasoning: Vec::new(),
            calls: calls.collect(),
            made_by: Origin {
                backend: "replay".into(),
                model: "m".into(),
            },
        })
    }

    #[test]
    fn what_a_provider_refuses_is_not_taken() {
        let mut history = History::new();
        history.push(user("a")).unwrap();
        history.push(reply("", &["1", "2"])).unwrap();
        for bad in [
            user(" \n"),
            reply("", &[]),
            reply("", &["2"]),
            reply("", &["3", "3"]),
            reply("", &[" "]),
        ] {
            let before = history.clone();
            assert!(history.push(bad.clone()).is_err(), "{bad:?}");
            assert_eq!(history, before);
        }
    }

    #[test]
    fn a_stored_history_comes_back_as_it_was() {
        let history =
            History::from_entries([user("a"), reply("b", &["1"]), reply("c", &[])]).unwrap();
        let stored = serde_json::to_string(&history).unwrap();
        assert!(stored.starts_with(r#"{"version":1,"#), "{stored}");
        assert_eq!(serde_json::from_str::<History>(&stored).unwrap(), history);
    }

    #[test]
    fn a_newer_history_is_refused_and_not_halved() {
        for (stored, word) in [
            (r#"{"version":2,"entries":[]}"#, "version 2"),
            (
                r#"{"version":1,"entries":[{"type":"user","text":"a","mood":"good"}]}"#,
                "mood",
            ),
            (
                r#"{"version":1,"entries":[{"type":"user","text":""}]}"#,
                "entry 1",
            ),
            (
                r#"{"version":1,"entries":[{"type":"reply","made_by":{"backend":"b","model":"m"},
                    "calls":[{"call":{"id":"1","name":"shell","arguments":"{}"}}]}]}"#,
                "outcome",
            ),
        ] {
            let error = serde_json::from_str::<History>(stored).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn a_compaction_keeps_whole_entries() {
        let all = [
            user("one"),
            reply("", &["1"]),
            reply("", &["2"]),
            reply("", &["3"]),
        ];
        let summary = Entry::Summary { text: "s".into() };
        let mut history = History::from_entries(all.clone()).unwrap();
        history.compact(3, Some(0), "s".into()).unwrap();
        let expected = [summary, all[0].clone(), all[3].clone()];
        assert!(history.entries().eq(expected.iter()));

        let before = history.clone();
        for (from, kept, text) in [
            (0, None, "s"),
            (1, Some(0), "s"),
            (9, None, "s"),
            (2, None, " "),
        ] {
            history.compact(from, kept, text.into()).unwrap_err();
            assert_eq!(history, before);
        }
    }

    #[test]
    fn the_model_speaks_after_a_prompt_and_after_results() {
        let mut history = History::new();
        assert!(!history.awaits_reply());
        for (entry, awaits) in [
            (user("a"), true),
            (reply("", &["1"]), true),
            (reply("b", &[]), false),
        ] {
            history.push(entry).unwrap();
            assert_eq!(history.awaits_reply(), awaits);
        }
    }
}
