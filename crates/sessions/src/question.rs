use ollie_agent::Place;
use ollie_protocol::{Asked, Octets};

/// Columns of what is asked about in one row, behind its mark. A row is
/// wrapped here and not by the terminal, which would mark nothing.
const WIDTH: usize = 64;
/// Rows of the longest question that is put to a person.
pub(crate) const ROWS_MAX: usize = 100;
/// Blanks between words that are shown as they are; more are counted.
const BLANKS_MAX: usize = 8;
/// A line begins; a line goes on.
const BEGINS: &str = "  | ";
const GOES_ON: &str = "  + ";

/// What a person is asked about a call that would run outside of the sandbox:
/// rows of ASCII, at most 68 characters long, whole, and without anything that
/// steers a terminal.
///
/// What the call says stands behind a mark, `  | ` where a line begins and
/// `  + ` where it goes on; all other rows are ollie's own. What is neither
/// graphic ASCII nor a blank between words is escaped with a backslash; a
/// backslash is doubled, so no text can look like an escape. Lines that say
/// nothing, or the same again, are counted. The last row is the size.
#[must_use]
pub fn question(asked: &Asked, place: &Place) -> Vec<String> {
    let mut rows = Rows::default();
    rows.say("to run outside of the sandbox, for this reason:");
    rows.block(asked.reason.as_bytes());
    let who = who(place);
    rows.wrap("", &plain(&format!("as {who}, in")));
    rows.block(asked.cwd.as_bytes());
    if place.root {
        rows.say("root may do everything there");
    }
    let mut bytes = 0;
    let mut heading = "the command, word by word:";
    for argument in &asked.argv {
        let argument = argument.as_bytes();
        bytes += argument.len();
        if argument.contains(&b'\n') {
            rows.say("a word of several lines:");
            rows.block(argument);
            heading = "the next words:";
        } else {
            if !heading.is_empty() {
                rows.say(std::mem::take(&mut heading));
            }
            rows.wrap(BEGINS, &quoted(argument));
        }
    }
    if let Some(text) = &asked.stdin {
        bytes += text.len();
        rows.say("its standard input:");
        rows.block(text.as_bytes());
    }
    rows.say("with the variables");
    rows.wrap(BEGINS, &names(asked.env.iter().map(Octets::as_bytes)));
    if !asked.set.is_empty() {
        rows.say("of them set by the call");
        rows.wrap(BEGINS, &names(asked.set.iter().map(String::as_bytes)));
    }
    let size = format!("{} rows, {bytes} bytes, as {who} in ", rows.0.len());
    let mut size = plain(&size);
    size.extend(escaped(asked.cwd.as_bytes()));
    rows.wrap("", &size);
    rows.0
}

/// `ada on devbox`.
fn who(place: &Place) -> String {
    let name = |text: &str| -> String {
        let parts = escaped(text.as_bytes());
        parts.iter().map(Part::solid).collect()
    };
    let host = match &place.host {
        Some(host) => name(host),
        None => "this machine".to_owned(),
    };
    match (place.root, place.user.as_str()) {
        (true, "root") | (false, "") => format!("{} on {host}", place.user),
        (true, user) => format!("root (as {}) on {host}", name(user)),
        (false, user) => format!("{} on {host}", name(user)),
    }
}

#[derive(Default)]
struct Rows(Vec<String>);

impl Rows {
    /// Words of ollie's own.
    fn say(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    /// Text of one or several lines.
    fn block(&mut self, text: &[u8]) {
        let mut lines = text.split(|&byte| byte == b'\n').map(|line| {
            let blank = line.iter().all(|byte| b" \t".contains(byte));
            if blank { &[] } else { line }
        });
        let mut next = lines.next();
        while let Some(line) = next {
            let mut same: usize = 0;
            next = lines.find(|other| {
                same += usize::from(*other == line);
                *other != line
            });
            match (line.is_empty(), same) {
                (true, 1..) => self.say(&format!("  ({} empty lines)", same + 1)),
                (true, 0) => self.0.push(BEGINS.trim_end().to_owned()),
                (false, _) => self.wrap(BEGINS, &escaped(line)),
            }
            if same > 0 && !line.is_empty() {
                self.say(&format!("  (the same line again, {same} times)"));
            }
        }
    }

    /// One line, in as many rows as it takes. No row begins or ends with a
    /// blank, where it could not be seen.
    fn wrap(&mut self, mark: &str, parts: &[Part]) {
        let mut row = mark.to_owned();
        let mut used = 0;
        for (at, part) in parts.iter().enumerate() {
            let text = match (part, parts.get(at + 1)) {
                (Part::Blanks(count), Some(next))
                    if used > 0 && used + count + next.solid().len() <= WIDTH =>
                {
                    " ".repeat(*count)
                }
                (part, _) => part.solid(),
            };
            if used > 0 && used + text.len() > WIDTH {
                self.0.push(std::mem::replace(&mut row, GOES_ON.to_owned()));
                used = 0;
            }
            row.push_str(&text);
            used += text.len();
        }
        self.0.push(row);
    }
}

/// What is not torn apart.
enum Part {
    /// A character, or its escape.
    Shown(String),
    /// Blanks between others, few enough to be seen.
    Blanks(usize),
}

impl Part {
    /// Without a blank.
    fn solid(&self) -> String {
        match self {
            Self::Shown(text) => text.clone(),
            Self::Blanks(1) => "\\x20".to_owned(),
            Self::Blanks(count) => format!("\\x20{{{count}}}"),
        }
    }
}

/// Text that can be shown as it is.
fn plain(text: &str) -> Vec<Part> {
    let part = |c| match c {
        ' ' => Part::Blanks(1),
        c => Part::Shown(String::from(c)),
    };
    text.chars().map(part).collect()
}

fn escaped(text: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut blanks = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == ' ' {
                blanks += 1;
                continue;
            }
            end(&mut parts, &mut blanks, false);
            parts.push(Part::Shown(match c {
                '\\' => "\\\\".to_owned(),
                '\t' | '\n' | '\r' => c.escape_default().collect(),
                c if c.is_ascii_graphic() => c.into(),
                c => c.escape_unicode().collect(),
            }));
        }
        for byte in chunk.invalid() {
            end(&mut parts, &mut blanks, false);
            parts.push(Part::Shown(format!("\\x{byte:02x}")));
        }
    }
    end(&mut parts, &mut blanks, true);
    parts
}

/// Blanks are over; at the start and the end of a text, and where they are
/// many, they are counted.
fn end(parts: &mut Vec<Part>, blanks: &mut usize, last: bool) {
    let count = std::mem::take(blanks);
    let part = Part::Blanks(count);
    match count {
        0 => {}
        1..=BLANKS_MAX if !parts.is_empty() && !last => parts.push(part),
        _ => parts.push(Part::Shown(part.solid())),
    }
}

/// A word in quotes.
fn quoted(word: &[u8]) -> Vec<Part> {
    let mut parts = vec![Part::Shown("\"".to_owned())];
    parts.extend(escaped(word).into_iter().map(|part| match part {
        Part::Shown(text) if text == "\"" => Part::Shown("\\\"".to_owned()),
        part => part,
    }));
    parts.push(Part::Shown("\"".to_owned()));
    parts
}

/// Names with a blank between them and none in them.
fn names<'a>(all: impl Iterator<Item = &'a [u8]>) -> Vec<Part> {
    let mut parts = Vec::new();
    for name in all {
        if !parts.is_empty() {
            parts.push(Part::Blanks(1));
        }
        let solid = escaped(name).into_iter();
        parts.extend(solid.map(|part| Part::Shown(part.solid())));
    }
    parts
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

    fn devbox() -> Place {
        Place {
            host: Some("devbox".to_owned()),
            user: "ada".to_owned(),
            root: false,
        }
    }

    /// What is shown of a script, between the rows about the rest.
    fn shown(script: &str) -> Vec<String> {
        let rows = question(&asked(&[script, "\n"]), &devbox());
        let start = rows.iter().position(|row| row.starts_with("a word"));
        let start = start
            .or_else(|| rows.iter().position(|row| row.starts_with("the command")))
            .unwrap();
        let rest = rows[start + 1..].iter();
        rest.take_while(|row| !row.starts_with("a word"))
            .cloned()
            .collect()
    }

    #[test]
    fn everything_is_shown_and_nothing_steers() {
        let rows = question(&asked(&["sh", "-c", "a \"b\" \\n\n\n\x1b[2Jc"]), &devbox());
        assert_eq!(
            rows,
            [
                "to run outside of the sandbox, for this reason:",
                "  | why\\u{202e}",
                "as ada on devbox, in",
                "  | /src",
                "the command, word by word:",
                "  | \"sh\"",
                "  | \"-c\"",
                "a word of several lines:",
                "  | a \"b\" \\\\n",
                "  |",
                "  | \\u{1b}[2Jc",
                "with the variables",
                "  | PATH A",
                "of them set by the call",
                "  | A",
                "15 rows, 19 bytes, as ada on devbox in /src",
            ]
        );
    }

    #[test]
    fn whose_machine_it_is_and_root_is_said() {
        let mut place = Place {
            host: None,
            user: "root".to_owned(),
            root: true,
        };
        let rows = question(&asked(&["id"]), &place);
        assert_eq!(rows[2], "as root on this machine, in");
        assert_eq!(rows[4], "root may do everything there");
        assert!(
            rows.last()
                .unwrap()
                .contains("as root on this machine in /src")
        );
        place.user = "ada on x".to_owned();
        let rows = question(&asked(&["id"]), &place);
        assert_eq!(rows[2], "as root (as ada\\x20on\\x20x) on this machine, in");
    }

    #[test]
    fn a_long_line_is_wrapped_behind_a_mark() {
        // Rows of a terminal with 80 columns, as a model might paint them.
        let fake = format!("{:80}{:80}", ":: a command asks", ":: approved");
        let rows = shown(&format!("{}\n{fake}", "x".repeat(130)));
        assert_eq!(
            rows,
            [
                format!("  | {}", "x".repeat(64)),
                format!("  + {}", "x".repeat(64)),
                "  + xx".to_owned(),
                "  | :: a command asks\\x20{63}:: approved\\x20{69}".to_owned(),
            ]
        );
    }

    #[test]
    fn blanks_are_seen_or_counted() {
        let eight = " ".repeat(8);
        for (text, expected) in [
            ("\n  a  b ", "  | \\x20{2}a  b\\x20"),
            (&format!("\na{eight}b"), "  | a        b"),
            (&format!("\na{eight} b"), "  | a\\x20{9}b"),
            (
                "\n\u{2800}\u{3000}\u{a0}\u{200b}",
                "  | \\u{2800}\\u{3000}\\u{a0}\\u{200b}",
            ),
            ("\na\tb\r\u{e9}", "  | a\\tb\\r\\u{e9}"),
        ] {
            assert_eq!(shown(text), ["  |", expected]);
        }
        // Never at the edge of a row.
        let edge = format!("\n{} {}", "x".repeat(63), "y".repeat(3));
        assert_eq!(
            shown(&edge)[1..],
            [format!("  | {}", "x".repeat(63)), "  + \\x20yyy".to_owned()]
        );
        let quotes = format!("{0}'{0}'{0}", " ".repeat(16));
        assert_eq!(
            shown(&format!("\n{quotes}"))[1..],
            ["  | \\x20{16}'\\x20{16}'\\x20{16}"]
        );
    }

    #[test]
    fn lines_that_say_nothing_are_counted() {
        let blank = " \n\t\n\n".repeat(1000);
        assert_eq!(
            shown(&format!("a\n{blank}b\n{}c", ":\n".repeat(5000))),
            [
                "  | a",
                "  (3000 empty lines)",
                "  | b",
                "  | :",
                "  (the same line again, 4999 times)",
                "  | c",
            ]
        );
    }

    #[test]
    fn what_is_no_text_is_shown_as_bytes() {
        let mut asked = asked(&["a \"q\""]);
        asked.argv.push(vec![b'a', 0xff].into());
        asked.stdin = Some("in\u{9b}".to_owned());
        asked.env = vec!["A B".into(), "C\n".into()];
        let rows = question(&asked, &devbox());
        assert_eq!(
            rows[4..12],
            [
                "the command, word by word:",
                "  | \"a \\\"q\\\"\"",
                "  | \"a\\xff\"",
                "its standard input:",
                "  | in\\u{9b}",
                "with the variables",
                "  | A\\x20B C\\n",
                "of them set by the call",
            ]
        );
    }

    #[test]
    fn every_row_is_short_and_marked_or_ours() {
        // Whatever it is made of: a small generator of mixtures.
        let pieces = [
            " ",
            "x",
            "\u{2800}",
            "\\",
            "\"",
            "\t",
            ":: a command asks ",
            "\u{10ffff}",
        ];
        let mut state: usize = 1;
        for _ in 0..200 {
            let mut script = String::new();
            for _ in 0..300 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                script.push_str(pieces[(state >> 33) % pieces.len()]);
            }
            for row in shown(&format!("{script}\nend")) {
                let text = row.strip_prefix("  | ").or(row.strip_prefix("  + "));
                let text = text.unwrap_or_else(|| panic!("{row:?}"));
                assert!(text.len() <= 64, "{row:?}");
                assert_eq!(text, text.trim(), "{row:?}");
                assert!(
                    text.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
                    "{row:?}"
                );
                assert!(!text.contains(&" ".repeat(9)), "{row:?}");
            }
        }
    }
}
