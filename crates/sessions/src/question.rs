use ollie_protocol::{Asked, Octets};

/// Blanks, or empty lines, that are shown as they are; more are counted, so
/// that nothing is moved out of sight.
const RUN_MAX: usize = 16;

/// What a person is asked about a call that would run outside of the sandbox:
/// lines of text, whole, and without anything that steers a terminal.
///
/// What is not plain is escaped with a backslash; a backslash is doubled, so
/// no text can look like an escape.
#[must_use]
pub fn question(asked: &Asked) -> Vec<String> {
    let mut lines = vec![
        format!("to run outside of the sandbox: {}", visible(&asked.reason)),
        format!("in {}", word(&asked.cwd)),
    ];
    for argument in &asked.argv {
        match std::str::from_utf8(argument.as_bytes()) {
            Ok(text) if text.contains('\n') => block(&mut lines, "  ", text),
            _ => lines.push(format!("  {}", word(argument))),
        }
    }
    if let Some(text) = &asked.stdin {
        lines.push(format!("with {} bytes on standard input:", text.len()));
        block(&mut lines, "  ", text);
    }
    let names: Vec<_> = asked.env.iter().map(name).collect();
    lines.push(format!("with the variables {}", names.join(" ")));
    if !asked.set.is_empty() {
        let set: Vec<_> = asked.set.iter().map(|name| visible(name)).collect();
        lines.push(format!("of them set by the call: {}", set.join(" ")));
    }
    lines
}

/// Text of several lines, each with a mark that it cannot have itself.
fn block(lines: &mut Vec<String>, indent: &str, text: &str) {
    let mut empty = 0;
    let end = |lines: &mut Vec<String>, empty: &mut usize| match std::mem::take(empty) {
        few @ ..=RUN_MAX => lines.extend((0..few).map(|_| format!("{indent}|"))),
        many => lines.push(format!("{indent}| \\n{{{many}}}")),
    };
    for line in text.split('\n') {
        if line.is_empty() {
            empty += 1;
        } else {
            end(lines, &mut empty);
            lines.push(format!("{indent}| {}", visible(line)));
        }
    }
    end(lines, &mut empty);
}

/// A word in quotes.
fn word(octets: &Octets) -> String {
    match std::str::from_utf8(octets.as_bytes()) {
        Ok(text) => format!("\"{}\"", visible(text).replace('"', "\\\"")),
        Err(_) => format!("bytes \"{}\"", octets.as_bytes().escape_ascii()),
    }
}

fn name(octets: &Octets) -> String {
    match std::str::from_utf8(octets.as_bytes()) {
        Ok(text) => visible(text),
        Err(_) => word(octets),
    }
}

fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut blanks = 0;
    for c in text.chars().chain(['\0']) {
        if c == ' ' {
            blanks += 1;
            continue;
        }
        match std::mem::take(&mut blanks) {
            few @ ..=RUN_MAX => shown.extend((0..few).map(|_| ' ')),
            many => shown.push_str(&format!("\\x20{{{many}}}")),
        }
        match c {
            '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    // The end mark of above.
    shown.truncate(shown.len() - "\\0".len());
    shown
}

#[cfg(test)]
mod tests {
    use ollie_protocol::CallId;

    use super::*;

    fn asked(argv: &[&str]) -> Asked {
        Asked {
            id: CallId::new("c1").unwrap(),
            reason: "why\u{202e}".to_owned(),
            argv: argv.iter().map(|&word| word.into()).collect(),
            cwd: "/src".into(),
            stdin: None,
            env: vec!["PATH".into(), "A".into()],
            set: vec!["A".to_owned()],
        }
    }

    #[test]
    fn everything_is_shown_and_nothing_steers() {
        let shown = question(&asked(&["sh", "-c", "a \"b\" \\n\n\n\x1b[2Jc"]));
        assert_eq!(
            shown,
            [
                "to run outside of the sandbox: why\\u{202e}",
                "in \"/src\"",
                "  \"sh\"",
                "  \"-c\"",
                "  | a \"b\" \\\\n",
                "  |",
                "  | \\u{1b}[2Jc",
                "with the variables PATH A",
                "of them set by the call: A",
            ]
        );
    }

    #[test]
    fn nothing_is_moved_out_of_sight() {
        let far = format!("true{}; x{}y", " ".repeat(5000), "\n".repeat(5000));
        let mut asked = asked(&[&far, "\u{200b}\u{a0}\r"]);
        asked.argv.push(vec![b'a', 0xff].into());
        asked.stdin = Some("in\u{9b}".to_owned());
        let shown = question(&asked);
        assert!(shown.iter().all(|line| line.len() < 100), "{shown:?}");
        for line in [
            "  | true\\x20{5000}; x",
            "  | \\n{4999}",
            "  | y",
            "  \"\\u{200b}\\u{a0}\\r\"",
            "  bytes \"a\\xff\"",
            "with 4 bytes on standard input:",
            "  | in\\u{9b}",
        ] {
            assert!(
                shown.iter().any(|shown| shown == line),
                "{line}: {shown:#?}"
            );
        }
    }
}
