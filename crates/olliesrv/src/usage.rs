use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::output;
use crate::printable::printable;

/// Prints what clap says of a wrong command line, help and version included.
/// Where the two dashes of `exec` are missing, its tip would be to put them
/// where they help nobody, so what is right is said instead.
pub(crate) fn wrong(error: &clap::Error, words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match without_dashes(error.kind(), &words) {
        Some(command) => {
            output::complain(&printable(&format!(
                "the command of exec stands behind two dashes, and a host before them:\n\n  \
                 olliesrv exec -- {command}\n  olliesrv exec HOST -- COMMAND...\n\nFor more \
                 information, try 'olliesrv exec --help'."
            )));
        }
        None => {
            // If that stream is closed there is nobody to tell.
            let _ = error.print();
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The words that were meant as a command, if that is what is wrong.
fn without_dashes(kind: ErrorKind, words: &[String]) -> Option<String> {
    let [_, exec, command @ ..] = words else {
        return None;
    };
    let missing = matches!(
        kind,
        ErrorKind::UnknownArgument
            | ErrorKind::MissingRequiredArgument
            | ErrorKind::ValueValidation
    );
    let begins_with_a_word = command.first().is_some_and(|word| !word.starts_with('-'));
    let dashes = command.iter().any(|word| word == "--");
    (missing && exec == "exec" && begins_with_a_word && !dashes).then(|| command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        without_dashes(ErrorKind::UnknownArgument, &words)
    }

    #[test]
    fn a_command_without_dashes_is_recognized_and_nothing_else() {
        assert_eq!(meant("olliesrv exec uname -a").unwrap(), "uname -a");
        for other in [
            "olliesrv exec --nosuch -- true",
            "olliesrv exec devbox --nosuch -- true",
            "olliesrv exec --nosuch true",
            "olliesrv exec",
            "olliesrv call shell -x",
        ] {
            assert_eq!(meant(other), None, "{other}");
        }
    }
}
