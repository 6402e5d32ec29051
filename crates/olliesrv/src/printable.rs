/// Text from elsewhere as it may be shown on a terminal: control characters,
/// which could move the cursor, retitle the window or worse, are escaped, and
/// so are the characters that change the direction of text.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c == '\n' || c == '\t' {
            shown.push(c);
        } else if c.is_control() || reorders {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}"), "a\\u{1b}[2Jb\\u{202e}");
        assert_eq!(printable("caf\u{e9}\n\tx"), "caf\u{e9}\n\tx");
    }
}
