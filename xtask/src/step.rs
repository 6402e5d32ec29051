//! Running other programs.

use std::{
    io::{BufRead, BufReader, IsTerminal, Read, Write},
    process::{Command, Stdio},
    thread,
};

use crate::failure::Failure;

/// How much a step says on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// What is done, and all that the programs print.
    Loud,
    /// Nothing while there is nothing to do: then `cargo xtask run` looks like
    /// olliesrv itself.
    Quiet,
}

/// Runs a program to its end; anything but success is a failure.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| cannot(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "`{}` failed: {status}",
        line(command)
    )))
}

/// Runs a program and returns what it wrote to standard output.
pub(crate) fn answer(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!(
        "`{}` failed: {}\n{}",
        line(command),
        output.status,
        said.trim_end()
    )))
}

/// Runs cargo. All it prints goes to standard error, in both voices; the quiet
/// one leaves out the line that says that there was nothing to do.
pub(crate) fn cargo(command: &mut Command, voice: Voice) -> Result<(), Failure> {
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let hide = |text: &str| voice == Voice::Quiet && text.contains("Finished ");
    watch(command, |text| {
        if !hide(text) {
            // A terminal that went away is no reason to stop building.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    })
}

/// Runs a program and shows each line of its standard output and error as it
/// comes, to `see` in one order.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<(), Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot(command, &error))?;
    let (sender, lines) = std::sync::mpsc::channel::<String>();
    let streams = [
        child
            .stdout
            .take()
            .map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        child
            .stderr
            .take()
            .map(|stream| Box::new(stream) as Box<dyn Read + Send>),
    ];
    thread::scope(|scope| {
        for stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            scope.spawn(move || forward(stream, &sender));
        }
        drop(sender);
        lines.iter().for_each(|text| see(&text));
    });
    let status = child.wait().map_err(|error| cannot(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "`{}` failed: {status}",
        line(command)
    )))
}

fn forward(stream: impl Read, lines: &std::sync::mpsc::Sender<String>) {
    let mut stream = BufReader::new(stream);
    let mut bytes = Vec::new();
    while stream
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|count| count > 0)
    {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if lines.send(text).is_err() {
            return;
        }
        bytes.clear();
    }
}

/// The command as one would type it, cut where it becomes unreadable.
pub(crate) fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    if let Some(name) = std::path::Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    let mut text = words.join(" ");
    if text.chars().count() > 200 {
        text = text.chars().take(197).collect::<String>() + "...";
    }
    text
}

fn cannot(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run `{}`: {error}", line(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_sees_both_streams_and_the_status() {
        let mut seen = String::new();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo out; echo err >&2; printf tail; exit 3"]);
        let failure = watch(&mut shell, |text| seen.push_str(text)).expect_err("status 3");
        for part in ["out\n", "err\n", "tail"] {
            assert!(seen.contains(part), "{seen}");
        }
        assert!(failure.to_string().contains("exit status: 3"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = run(&mut Command::new("/nonexistent/program")).expect_err("absent");
        assert!(
            failure.to_string().contains("cannot run `program`"),
            "{failure}"
        );
    }
}
