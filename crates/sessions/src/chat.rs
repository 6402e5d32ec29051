use std::collections::HashMap;

use ollie_agent::{Event, Facts, RuledBy, TurnEnd};

use crate::question;

/// Writes events as the text of the file `chat`.
///
/// A block begins at the start of a line with `user: `, `assistant: `,
/// `[tool:NAME] ` or `:: `, and ends with a newline. What stands in between is
/// as it was said.
#[derive(Debug, Default)]
pub(crate) struct Scribe {
    /// What the last line belongs to.
    open: Option<Block>,
    /// Whether a line was begun.
    inside: bool,
    /// The tools of calls that have no result yet.
    tools: HashMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Block {
    Assistant,
    Tool(String),
}

impl Scribe {
    /// What the event adds to the chat.
    pub(crate) fn write(&mut self, event: &Event) -> String {
        let mut to = String::new();
        match event {
            Event::User { text } => {
                self.begin(&mut to, None, "user: ");
                self.add(&mut to, text);
                self.end(&mut to);
            }
            Event::Assistant { text } => {
                if self.open != Some(Block::Assistant) {
                    self.begin(&mut to, Some(Block::Assistant), "assistant: ");
                }
                self.add(&mut to, text);
            }
            Event::Call {
                id,
                name,
                arguments,
            } => {
                self.tools.insert(id.clone(), name.clone());
                let block = Some(Block::Tool(id.clone()));
                self.begin(&mut to, block, &format!("[tool:{name}] "));
                self.add(&mut to, arguments);
                self.end_line(&mut to);
            }
            Event::Ask {
                call,
                place,
                digest,
                ..
            } => {
                self.say(&mut to, &question(call, place).join("\n"));
                let id = &call.id;
                self.say(&mut to, &format!("approve {id} {digest}"));
                self.say(&mut to, &format!("deny {id}"));
                self.say(&mut to, "write one of these lines to ctl");
            }
            Event::Ruling { approved, by, .. } => self.say(&mut to, ruled(*approved, *by)),
            Event::Tool { id, chunk } => self.output(&mut to, id, chunk),
            Event::ToolResult {
                id,
                ok,
                content,
                facts,
            } => {
                if let Some(content) = content {
                    self.output(&mut to, id, content);
                }
                let name = self.tools.remove(id).unwrap_or_default();
                self.end(&mut to);
                if !ok {
                    self.say(&mut to, &failed(&name, facts));
                }
                for text in &facts.denied {
                    self.say(&mut to, text);
                }
            }
            Event::Retry {
                attempt,
                after_ms,
                reason,
            } => self.say(
                &mut to,
                &format!(
                    "attempt {attempt} in {after_ms} ms, what was begun does not count: {reason}"
                ),
            ),
            Event::Info { text } => self.say(&mut to, text),
            Event::Error { text } => self.say(&mut to, &format!("error: {text}")),
            Event::Turn { outcome } => {
                self.end(&mut to);
                if *outcome == TurnEnd::Stopped {
                    self.say(&mut to, "stopped");
                }
            }
            Event::Reasoning { .. } | Event::Usage(_) | Event::State { .. } => {}
        }
        to
    }

    fn output(&mut self, to: &mut String, id: &str, chunk: &str) {
        if chunk.is_empty() {
            return;
        }
        let block = Block::Tool(id.to_owned());
        if self.open.as_ref() != Some(&block) {
            // Calls side by side take turns.
            let name = self.tools.get(id).cloned().unwrap_or_default();
            self.begin(to, Some(block), &format!("[tool:{name}] "));
            self.end_line(to);
        }
        self.add(to, chunk);
    }

    fn say(&mut self, to: &mut String, text: &str) {
        for line in text.lines() {
            self.begin(to, None, ":: ");
            self.add(to, line);
        }
        self.end(to);
    }

    fn begin(&mut self, to: &mut String, block: Option<Block>, head: &str) {
        self.end(to);
        self.open = block;
        self.add(to, head);
    }

    fn add(&mut self, to: &mut String, text: &str) {
        to.push_str(text);
        if !text.is_empty() {
            self.inside = !text.ends_with('\n');
        }
    }

    fn end_line(&mut self, to: &mut String) {
        if self.inside {
            to.push('\n');
            self.inside = false;
        }
    }

    fn end(&mut self, to: &mut String) {
        self.end_line(to);
        self.open = None;
    }
}

/// What became of a question, in words.
#[must_use]
pub fn ruled(approved: bool, by: RuledBy) -> &'static str {
    match (approved, by) {
        (true, _) => "approved: it runs outside of the sandbox",
        (false, RuledBy::Time) => "denied, because nobody answered in time",
        (false, RuledBy::End) => "asked no more: the call was ended",
        (false, RuledBy::Ctl | RuledBy::Toolsrv) => "denied",
    }
}

fn failed(name: &str, facts: &Facts) -> String {
    match facts.exit {
        Some(status) => format!("{name}: exit status {status}"),
        None => format!("{name}: failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event: fn(String) -> Event, text: &str) -> Event {
        event(text.to_owned())
    }

    fn tool(id: &str, chunk: &str) -> Event {
        Event::Tool {
            id: id.to_owned(),
            chunk: chunk.to_owned(),
        }
    }

    fn call(id: &str, name: &str) -> Event {
        Event::Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
        }
    }

    fn result(id: &str, ok: bool, content: Option<&str>) -> Event {
        Event::ToolResult {
            id: id.to_owned(),
            ok,
            content: content.map(str::to_owned),
            facts: Facts {
                exit: (!ok).then_some(7),
                ..Facts::default()
            },
        }
    }

    fn written(events: &[Event]) -> String {
        let mut scribe = Scribe::default();
        events.iter().map(|event| scribe.write(event)).collect()
    }

    #[test]
    fn every_block_starts_a_line_and_ends_with_one() {
        let chat = written(&[
            text(|text| Event::User { text }, "do it"),
            text(|text| Event::Assistant { text }, "I "),
            text(|text| Event::Assistant { text }, "will."),
            call("1", "shell"),
            tool("1", ""),
            tool("1", "one\ntw"),
            tool("1", "o"),
            result("1", false, None),
            text(|text| Event::Info { text }, "a\nb"),
            text(|text| Event::Assistant { text }, "Done.\n"),
            Event::Turn {
                outcome: TurnEnd::Stopped,
            },
        ]);
        assert_eq!(
            chat,
            "user: do it\nassistant: I will.\n[tool:shell] {}\none\ntwo\n:: shell: exit status 7\n\
             :: a\n:: b\nassistant: Done.\n:: stopped\n"
        );
    }

    #[test]
    fn calls_side_by_side_take_turns() {
        let chat = written(&[
            call("1", "a"),
            call("2", "b"),
            tool("1", "x"),
            tool("2", "y"),
            tool("1", "z\n"),
            result("1", true, None),
            result("2", true, Some("end")),
        ]);
        assert_eq!(
            chat,
            "[tool:a] {}\n[tool:b] {}\n[tool:a] \nx\n[tool:b] \ny\n[tool:a] \nz\n[tool:b] \nend\n"
        );
    }
}
