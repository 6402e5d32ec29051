//! Calls in words.

use std::time::Duration;

use ollie_protocol::{CallState, Exit, Octets, Stream, ToolResult};

use crate::call::Call;
use crate::log::{At, cut_end, cut_start};

/// The most of a command that is shown.
const COMMAND_MAX: usize = 120;

/// How a call stands: `running as process 17 for 12 s`.
pub(super) fn standing(call: &Call) -> String {
    let status = call.status();
    let span = spell(call.duration());
    match (status.state, call.result()) {
        (CallState::Asking, _) => "waits for the person's approval".to_owned(),
        (CallState::Queued, _) => "waits for its turn".to_owned(),
        (CallState::Starting, _) => "is being started".to_owned(),
        (CallState::Running, _) => {
            let pid = status.pid.unwrap_or_default();
            format!("running as process {pid} for {span}")
        }
        (CallState::Ended | CallState::Finished, Some(result)) => ending(result),
        (CallState::Ended | CallState::Finished, None) => "ended".to_owned(),
    }
}

/// How a call ended.
fn ending(result: &ToolResult) -> String {
    let span = spell(Duration::from_millis(result.duration_ms));
    let how = match (&result.failure, result.exit) {
        (Some(failure), _) => format!("failed: {}", failure.message),
        (None, Some(Exit::Code(code))) => format!("ended with status {code}"),
        (None, Some(Exit::Signal(signal))) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let why = match (result.timed_out, result.cancelled) {
        (true, _) => ", because its time was up",
        (_, true) => ", because it was asked to",
        _ => "",
    };
    format!("{how}{why}, after {span}")
}

/// A time in the one unit that says most.
pub(super) fn spell(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..120 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!(
            "{:.1} h",
            Duration::from_secs(seconds).as_secs_f64() / 3600.0
        ),
    }
}

/// A command on one line, as somebody would type it.
pub(super) fn command(argv: &[Octets]) -> String {
    let mut line = String::new();
    for word in argv {
        let text = word.to_string_lossy();
        let plain = !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c));
        if !line.is_empty() {
            line.push(' ');
        }
        match plain {
            true => line.push_str(&text),
            false => line.push_str(&format!("{text:?}")),
        }
        if line.len() > COMMAND_MAX {
            let end = (0..=COMMAND_MAX)
                .rev()
                .find(|&at| line.is_char_boundary(at));
            line.truncate(end.unwrap_or_default());
            line.push_str("...");
            break;
        }
    }
    line
}

/// Output of a call from `offset` on, and the offset behind it.
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) text: String,
}

/// At most `most` bytes of a log at `offset`. What is not kept is said; no
/// character is cut.
pub(super) fn piece(call: &Call, stream: Option<Stream>, offset: u64, most: usize) -> Piece {
    let finished = call.is_finished();
    call.with_log(stream, |log| {
        let total = log.total();
        let from = offset.min(total);
        let mut at = from;
        let mut bytes = Vec::new();
        let mut text = String::new();
        while bytes.len() < most {
            match log.at(at, most - bytes.len()) {
                At::Bytes(more) => {
                    at += more.len() as u64;
                    bytes.extend_from_slice(&more);
                }
                At::Dropped(next) => {
                    text.push_str(&String::from_utf8_lossy(cut_end(&bytes)));
                    text.push_str(&format!("\n[... {} bytes are not kept ...]\n", next - at));
                    bytes.clear();
                    at = next;
                }
                At::End => break,
            }
        }
        // The rest of a character comes with the next piece; behind the last
        // one nothing comes.
        let whole = match at == total && finished {
            true => bytes.len(),
            false => cut_end(&bytes).len(),
        };
        let kept = bytes.get(..whole).unwrap_or_default();
        at -= (bytes.len() - whole) as u64;
        let first = if from > 0 { cut_start(kept) } else { kept };
        text.push_str(&String::from_utf8_lossy(first));
        Piece { from, to: at, text }
    })
}

/// The last of a call's output, at most `most` bytes, with a word on what is
/// before it; nothing if it has said nothing.
pub(super) fn last(call: &Call, most: usize) -> String {
    let total = call.with_log(None, |log| log.total());
    let from = total.saturating_sub(most as u64);
    let piece = piece(call, None, from, most);
    if total == 0 {
        return "It has said nothing.\n".to_owned();
    }
    let before = match from {
        0 => String::new(),
        from => format!("[... {from} bytes before this: proc_output with offset 0 ...]\n"),
    };
    let newline = if piece.text.ends_with('\n') { "" } else { "\n" };
    format!("{before}{}{newline}", piece.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line_however_it_looks() {
        let argv = ["sh", "-c", "a\nb 'c'"].map(Octets::from);
        assert_eq!(command(&argv), "sh -c \"a\\nb 'c'\"");
        let long = command(&["\u{e9}".repeat(200).into()]);
        assert!(long.len() < 130 && long.ends_with("..."), "{long}");
    }

    #[test]
    fn a_time_is_told_in_one_unit() {
        for (ms, expected) in [
            (250, "250 ms"),
            (1500, "1.5 s"),
            (120_000, "2 min"),
            (9_000_000, "2.5 h"),
        ] {
            assert_eq!(spell(Duration::from_millis(ms)), expected);
        }
    }
}
