//! What the command line can say of itself: the same descriptions as
//! `--help`, so that they cannot differ.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::error::Error;
use crate::options::{ManOptions, Options};
use crate::output;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), "olliesrv", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Prints olliesrv(1), or writes it and a page for each command.
pub(crate) fn pages(options: &ManOptions) -> Result<u8, Error> {
    // Pages are of one version whatever the width of the terminal.
    let command = Options::command().term_width(0);
    let failed = |action| move |source: io::Error| Error::Io { action, source };
    match &options.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(failed("make the directory of the pages"))?;
            clap_mangen::generate_to(command, dir).map_err(failed("write a manual page"))?;
        }
        None => {
            let mut page = Vec::new();
            let man = clap_mangen::Man::new(part(command, &options.command)?);
            man.render(&mut page)
                .map_err(failed("make the manual page"))?;
            output::print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(0)
}

/// The command that these words name.
fn part(whole: clap::Command, words: &[String]) -> Result<clap::Command, Error> {
    // Gives each command the name of its page.
    let mut found = whole.flatten_help(false);
    found.build();
    for word in words {
        let inner = found.find_subcommand(word).cloned();
        found = inner.ok_or_else(|| {
            Error::Usage(format!("olliesrv has no command {:?}", words.join(" ")))
        })?;
    }
    Ok(found)
}
