use std::io::Write as _;

/// Tells that something cannot be tested here, and why.
///
/// The line goes to standard error, which a runner shows for a failed test
/// only, and to the file that `OLLIE_GAPS` names, which whoever runs the tests
/// prints at the end.
///
/// # Panics
/// In CI, where nothing may be missing (`CI=true`).
pub fn gap(what: &str, why: &str) {
    let line = format!("NOT RUN: {what}: {why}\n");
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{line}"
    );
    // Without either place there is nobody to tell.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("OLLIE_GAPS") {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
