//! How many tokens something may be, where no provider has counted them.

use crate::{Entry, ToolDef};

/// Tokens that surround an entry or a tool.
const AROUND: u64 = 8;

/// Four ASCII characters are about a token of English or code; other
/// characters are about one each. It is meant to be too much rather than too
/// little.
pub(crate) fn text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.chars().filter(|it| !it.is_ascii()).count() as u64;
    ascii.div_ceil(4).saturating_add(other)
}

pub(crate) fn entry(entry: &Entry) -> u64 {
    let inside = match entry {
        Entry::User { text: it } | Entry::Note { text: it } | Entry::Summary { text: it } => {
            text(it)
        }
        Entry::Reply(reply) => {
            let reasoning = reply.reasoning.iter().map(|block| text(&block.text));
            let calls = reply.calls.iter().map(|it| {
                AROUND + text(&it.call.name) + text(&it.call.arguments) + text(&it.outcome.content)
            });
            text(&reply.text) + reasoning.sum::<u64>() + calls.sum::<u64>()
        }
    };
    inside.saturating_add(AROUND)
}

pub(crate) fn tools(tools: &[ToolDef]) -> u64 {
    let each = tools.iter().map(|tool| {
        AROUND + text(&tool.name) + text(&tool.description) + text(&tool.parameters.to_string())
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn english_is_a_quarter_and_other_scripts_are_whole() {
        // The rule of thumb in OpenAI's help, "What are tokens and how to
        // count them?": 4 characters are about a token in English.
        assert_eq!(super::text("abcdefgh"), 2);
        assert_eq!(super::text("日本語"), 3);
        assert_eq!(super::text(""), 0);
    }
}
