use std::io::IsTerminal as _;

use ollie_agent::Event;
use ollie_sessions::{question, ruled};

use crate::error::Error;
use crate::output;
use crate::printable::printable;

/// The most of a call's arguments that is shown on its line, in characters.
const ARGUMENTS: usize = 200;
/// How much of an older chat is shown, in bytes.
const LAST: usize = 4096;

/// What a person sees of a session. On a terminal there is a line about the
/// state while nothing else comes; a pipe gets the text alone.
#[derive(Debug)]
pub(crate) struct View {
    terminal: bool,
    /// Whether the tools run on another host.
    remote: bool,
    /// Whether a line was begun.
    inside: bool,
    /// Whether the line about the state is shown.
    state_shown: bool,
    /// Whether the model is speaking.
    speaking: bool,
}

/// Before each line of a tool's output.
const INDENT: &str = "  ";

/// Dim, and back (ECMA-48, SGR).
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
/// To the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

impl View {
    /// `remote` says whether the tools run on another host.
    pub(crate) fn new(remote: bool) -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            remote,
            inside: false,
            state_shown: false,
            speaking: false,
        }
    }

    /// Whether a person looks.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The end of an older chat.
    pub(crate) fn last(&self, chat: &str) -> Result<(), Error> {
        let mut start = chat.len().saturating_sub(LAST);
        while !chat.is_char_boundary(start) {
            start += 1;
        }
        let tail = &chat[start..];
        let tail = match (start, tail.split_once('\n')) {
            (1.., Some((_, lines))) => lines,
            _ => tail,
        };
        output::print(&printable(tail))
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            Event::User { text } => self.block(&format!("user: {text}")),
            Event::Assistant { text } => {
                if !self.speaking {
                    self.end_line()?;
                    self.speaking = true;
                }
                self.add(text, false)
            }
            Event::Reasoning { text } if self.terminal => self.add(text, true),
            Event::Call {
                name, arguments, ..
            } => self.block(&format!("[tool:{name}] {}", short(name, arguments))),
            Event::Ask { call, place, .. } => {
                self.block(":: a command asks")?;
                let lines = question(call, place).into_iter();
                lines
                    .map(|line| format!(":: {line}"))
                    .try_for_each(|line| self.block(&line))
            }
            Event::Ruling { approved, by, .. } => {
                self.block(&format!(":: {}", ruled(*approved, *by)))
            }
            Event::Tool { chunk, .. } => {
                self.speaking = false;
                self.tool(chunk)
            }
            Event::ToolResult {
                ok, content, facts, ..
            } => {
                if let Some(content) = content {
                    self.tool(content)?;
                }
                self.end_line()?;
                match (ok, facts.exit) {
                    (true, _) => {}
                    (false, Some(status)) => self.block(&format!(":: exit status {status}"))?,
                    (false, None) => self.block(":: failed")?,
                }
                let denied = facts.denied.iter();
                denied
                    .map(|text| format!(":: {text}"))
                    .try_for_each(|line| self.block(&line))
            }
            Event::Retry {
                after_ms, reason, ..
            } => self.block(&format!(":: once more in {after_ms} ms: {reason}")),
            Event::Info { text } => self.block(&format!(":: {text}")),
            Event::Error { text } => {
                self.end_line()?;
                output::complain(&printable(text));
                Ok(())
            }
            Event::State { state } => self.state(&state.to_string()),
            Event::Turn { .. } => self.end_line(),
            Event::Usage(usage) if self.terminal => {
                self.end_line()?;
                let line = format!("{} tokens in, {} out\n", usage.input, usage.output);
                output::print(&format!("{DIM}{line}{PLAIN}"))
            }
            Event::Reasoning { .. } | Event::Usage(_) => Ok(()),
        }
    }

    /// Stands before an answer; what is typed behind it ends the line.
    pub(crate) fn prompt(&mut self, text: &str) -> Result<(), Error> {
        self.end_line()?;
        self.add(text, false)
    }

    /// The person has ended the line.
    pub(crate) fn answered(&mut self) {
        self.inside = false;
    }

    /// Shows the state until something else comes.
    pub(crate) fn state(&mut self, state: &str) -> Result<(), Error> {
        if !self.terminal || self.inside {
            return Ok(());
        }
        self.clear_state()?;
        // On this machine toolsrv is there before anybody has read that.
        let unseen = state == "connecting" && !self.remote;
        if unseen || matches!(state, "idle" | "failed") {
            return Ok(());
        }
        self.state_shown = true;
        output::print(&format!("{DIM}[{}]{PLAIN}", printable(state)))
    }

    /// What a tool printed. A terminal shows it further in, so that no line of
    /// it can pass for one of ours.
    fn tool(&mut self, text: &str) -> Result<(), Error> {
        if !self.terminal {
            return self.add(text, false);
        }
        let mut shown = String::with_capacity(text.len());
        let mut inside = self.inside;
        for line in text.split_inclusive('\n') {
            if !inside {
                shown.push_str(INDENT);
            }
            shown.push_str(line);
            inside = !line.ends_with('\n');
        }
        self.add(&shown, true)
    }

    /// A line of its own.
    fn block(&mut self, text: &str) -> Result<(), Error> {
        self.end_line()?;
        self.add(text, false)?;
        self.end_line()
    }

    fn add(&mut self, text: &str, dim: bool) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_state()?;
        self.inside = !text.ends_with('\n');
        let text = printable(text);
        if dim && self.terminal {
            output::print(&format!("{DIM}{text}{PLAIN}"))
        } else {
            output::print(&text)
        }
    }

    fn end_line(&mut self) -> Result<(), Error> {
        self.speaking = false;
        self.clear_state()?;
        if std::mem::take(&mut self.inside) {
            output::print("\n")?;
        }
        Ok(())
    }

    fn clear_state(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.state_shown) {
            output::print(CLEAR)?;
        }
        Ok(())
    }
}

/// A call's arguments on one line: of `shell` the code.
fn short(name: &str, arguments: &str) -> String {
    let code = serde_json::from_str::<serde_json::Value>(arguments)
        .ok()
        .filter(|_| name == "shell")
        .and_then(|value| Some(value.get("code")?.as_str()?.to_owned()));
    let text = code.unwrap_or_else(|| arguments.to_owned());
    let mut line = text.replace('\n', " \u{23ce} ");
    if let Some((at, _)) = line.char_indices().nth(ARGUMENTS) {
        line.truncate(at);
        line.push('\u{2026}');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_call_fits_a_line() {
        assert_eq!(short("shell", r#"{"code":"a\nb"}"#), "a \u{23ce} b");
        assert_eq!(short("other", r#"{"code":"a"}"#), r#"{"code":"a"}"#);
        assert_eq!(short("shell", "{"), "{");
        let long = short("other", &"\u{20ac}".repeat(300));
        assert_eq!(long.chars().count(), 201);
    }
}
