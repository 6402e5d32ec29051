use std::time::Duration;

use similar::TextDiff;

use crate::name::Name;

/// Bytes of a diff that are shown.
const SHOWN: usize = 48 << 10;

/// Then the rest counts as replaced.
const PATIENCE: Duration = Duration::from_secs(1);

/// A unified diff with three lines of context.
pub(crate) fn unified(name: &Name, before: &[u8], after: &[u8]) -> String {
    let (before, after) = (
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(after),
    );
    let mut text = TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(&*before, &*after)
        .unified_diff()
        .header(&name.to_string(), &name.to_string())
        .to_string();
    if text.len() > SHOWN {
        let lines = text.lines().count();
        let shown = text.as_bytes().get(..SHOWN).unwrap_or_default();
        let end = memchr::memrchr(b'\n', shown).map_or(0, |at| at + 1);
        text.truncate(end);
        let shown = text.lines().count();
        text.push_str(&format!("[{} more lines of the diff]\n", lines - shown));
    }
    text
}
