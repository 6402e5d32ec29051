use std::borrow::Cow;

use serde_json::json;

use crate::{Entry, History, ModelCall, Outcome, Reply};

/// What stands where the user would have to say something and did not: before
/// a reply that begins the history, between two replies without results, after
/// a reply that was cut. The same place of a history always has the same text,
/// so that what a provider has cached stays usable.
const GO_ON: &str = "Continue.";

/// What stands for an output that is not there. Providers refuse blank texts.
const NO_OUTPUT: &str = "(no output)";

/// A side of the conversation.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// Texts of the user, none of them blank.
    User(Vec<Cow<'a, str>>),
    /// A reply; the results of its calls belong to it.
    Model(&'a Reply),
}

/// The history as every provider takes it: it begins with the user, two users
/// or two replies without results never follow one another, and it is the
/// model's turn at the end.
pub(crate) fn turns(history: &History) -> Vec<Turn<'_>> {
    let go_on = || Turn::User(vec![Cow::Borrowed(GO_ON)]);
    let mut turns = Vec::new();
    for entry in history.entries() {
        match (entry, entry.user_text()) {
            (_, Some(text)) => match turns.last_mut() {
                Some(Turn::User(texts)) => texts.push(text),
                _ => turns.push(Turn::User(vec![text])),
            },
            (Entry::Reply(reply), None) => {
                if awaits_user(turns.last()) {
                    turns.push(go_on());
                }
                turns.push(Turn::Model(reply));
            }
            (_, None) => {}
        }
    }
    if awaits_user(turns.last()) {
        turns.push(go_on());
    }
    turns
}

fn awaits_user(last: Option<&Turn<'_>>) -> bool {
    match last {
        None => true,
        Some(Turn::User(_)) => false,
        Some(Turn::Model(reply)) => reply.calls.is_empty(),
    }
}

/// Texts of a user as one.
pub(crate) fn joined(texts: &[Cow<'_, str>]) -> String {
    texts.join("\n\n")
}

/// A result as it is sent.
pub(crate) fn result(outcome: &Outcome) -> &str {
    if outcome.content.trim().is_empty() {
        NO_OUTPUT
    } else {
        &outcome.content
    }
}

/// The arguments of a call as they are sent: as the model wrote them, if that
/// is an object. Otherwise an object that quotes them, since every provider
/// reads them again.
pub(crate) fn arguments(call: &ModelCall) -> Cow<'_, str> {
    match call.object() {
        Ok(_) if call.arguments.trim().is_empty() => Cow::Borrowed("{}"),
        Ok(_) => Cow::Borrowed(&call.arguments),
        Err(_) => Cow::Owned(json!({ "invalid_json": call.arguments }).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::samples::{self, call, reply, user};

    fn shape(entries: Vec<Entry>) -> Vec<String> {
        turns(&samples::history(entries))
            .iter()
            .map(|turn| match turn {
                Turn::User(texts) => joined(texts),
                Turn::Model(reply) => format!("[{}]", reply.text),
            })
            .collect()
    }

    #[test]
    fn users_are_joined_and_the_model_is_asked_to_go_on() {
        assert_eq!(shape(vec![user("a"), user("b")]), ["a\n\nb"]);
        assert_eq!(
            shape(vec![user("a"), reply("b", vec![]), reply("c", vec![])]),
            ["a", "[b]", GO_ON, "[c]", GO_ON]
        );
        assert_eq!(shape(vec![reply("a", vec![])]), [GO_ON, "[a]", GO_ON]);
        assert_eq!(shape(vec![]), [GO_ON]);
        // Results are an answer.
        let called = || reply("b", vec![call("1", "shell", "{}", "out")]);
        assert_eq!(shape(vec![user("a"), called()]), ["a", "[b]"]);
        let again = reply("c", vec![call("2", "shell", "{}", "out")]);
        assert_eq!(shape(vec![user("a"), called(), again]), ["a", "[b]", "[c]"]);
    }

    #[test]
    fn arguments_are_always_an_object() {
        for (written, sent) in [
            ("{\"b\": 1, \"a\":2}", "{\"b\": 1, \"a\":2}"),
            ("", "{}"),
            (" ", "{}"),
            ("{\"a\"", r#"{"invalid_json":"{\"a\""}"#),
            ("[1]", r#"{"invalid_json":"[1]"}"#),
            ("null", r#"{"invalid_json":"null"}"#),
            (
                r#"{"a":"\ud800"}"#,
                r#"{"invalid_json":"{\"a\":\"\\ud800\"}"}"#,
            ),
        ] {
            let call = ModelCall {
                id: "1".into(),
                name: "shell".into(),
                arguments: written.into(),
            };
            assert_eq!(arguments(&call), sent);
        }
    }
}
