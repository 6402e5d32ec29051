use std::collections::HashSet;

use crate::Reply;

/// Gives each call of a history the id under which it is sent: its own one,
/// if the provider takes it. A history may come from another provider, whose
/// ids have other characters or are longer.
///
/// The calls are to be asked for in the order of the history; then the same
/// history always gives the same ids.
#[derive(Debug)]
pub(crate) struct CallIds {
    accepts: fn(&str) -> bool,
    used: HashSet<String>,
    calls: usize,
}

impl CallIds {
    pub(crate) fn new(accepts: fn(&str) -> bool) -> Self {
        Self {
            accepts,
            used: HashSet::new(),
            calls: 0,
        }
    }

    /// Ids for the calls of the next reply.
    pub(crate) fn of(&mut self, reply: &Reply) -> Vec<String> {
        let calls = reply.calls.iter();
        calls.map(|it| self.next(&it.call.id)).collect()
    }

    fn next(&mut self, id: &str) -> String {
        self.calls += 1;
        if (self.accepts)(id) && self.used.insert(id.to_owned()) {
            return id.to_owned();
        }
        let mut number = self.calls;
        loop {
            let made = format!("call_{number}");
            if self.used.insert(made.clone()) {
                return made;
            }
            number += 1;
        }
    }
}

/// At most 40 characters: OpenAI refuses longer ones.
pub(crate) fn is_short(id: &str) -> bool {
    (1..=40).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `^[a-zA-Z0-9_-]+$`: Anthropic refuses others.
pub(crate) fn is_word(id: &str) -> bool {
    is_short(id)
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;
    use crate::backends::samples::{call, reply};

    #[test]
    fn ids_stay_unless_they_cannot() {
        let long = "x".repeat(41);
        let ids = ["call_2", "functions.shell:0", "call_3", &long, "a b"];
        let calls = ids.iter().map(|id| call(id, "shell", "{}", ""));
        let Entry::Reply(reply) = reply("", calls.collect()) else {
            unreachable!("it is a reply");
        };
        let words = CallIds::new(is_word).of(&reply);
        // The second is free, since the first has taken its number.
        assert_eq!(words, ["call_2", "call_3", "call_4", "call_5", "call_6"]);
        let short = CallIds::new(is_short).of(&reply);
        assert_eq!(
            short,
            ["call_2", "functions.shell:0", "call_3", "call_4", "call_5"]
        );
    }
}
