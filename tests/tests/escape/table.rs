//! The table of results in docs/sandbox.md.

use std::fmt::Write as _;

use ollie_tests::{User, gap, workspace};

use crate::Outcome;
use crate::rows::{Row, Who};

const BEGIN: &str = "<!-- results: begin -->\n";
const END: &str = "<!-- results: end -->\n";

/// Compares the table with what came of the run, or writes it, if
/// `OLLIE_WRITE_TABLES` is set.
pub(crate) fn check(outcomes: &[(User, Row, Outcome)]) {
    if !outcomes.iter().any(|(user, ..)| *user == User::Root) {
        return gap("the table of results", "needs both users");
    }
    if !cfg!(target_arch = "x86_64") {
        return gap("the table of results", "is that of x86_64");
    }
    let table = table(outcomes);
    let path = workspace().join("docs/sandbox.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (there, after) = rest.split_once(END).unwrap();
    if std::env::var_os("OLLIE_WRITE_TABLES").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        there, table,
        "the table of docs/sandbox.md is not what came of this run; OLLIE_WRITE_TABLES=1 writes it"
    );
}

fn table(outcomes: &[(User, Row, Outcome)]) -> String {
    let mut text = String::from(
        "| attempt | stopped by | root | ordinary user |\n| --- | --- | --- | --- |\n",
    );
    let roots = outcomes.iter().filter(|(user, ..)| *user == User::Root);
    for (_, row, as_root) in roots {
        let ordinary = outcomes
            .iter()
            .find(|(user, other, _)| *user != User::Root && other.what == row.what)
            .map(|(.., outcome)| *outcome);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.what,
            row.by.words(),
            word(row, Some(*as_root)),
            word(row, ordinary),
        );
    }
    text
}

fn word(row: &Row, outcome: Option<Outcome>) -> &'static str {
    match (outcome, row.who) {
        (Some(Outcome::Shown), _) => "refused; passes without",
        (Some(Outcome::Refused), Who::Ordinary) => "is root",
        (Some(Outcome::Refused), Who::NotHere) => "refused; not in this kernel",
        (Some(Outcome::Refused), _) => "refused anyway",
        (None, _) => "not tried",
    }
}
