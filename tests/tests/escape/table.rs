//! The tables of docs/sandbox.md: the results here, and what other kernels stop.

use std::fmt::Write as _;

use ollie_tests::{User, gap, workspace};

use crate::Outcome;
use ollie_tests::attempts::{ROWS, Row, Who};

/// The ABIs of Landlock in the guests of `vm-tests/escape.py`; the last one is
/// the least that the newest has.
const ABIS: [u32; 3] = [2, 6, 9];

/// Compares the table with what came of the run.
pub(crate) fn check(outcomes: &[(User, Row, Outcome)]) {
    if !outcomes.iter().any(|(user, ..)| *user == User::Root) {
        return gap("the table of results", "needs both users");
    }
    if !cfg!(target_arch = "x86_64") {
        return gap("the table of results", "is that of x86_64");
    }
    compare("results", &table(outcomes));
}

/// `vm-tests/escape.py` holds each kernel to the same rows.
#[test]
fn the_page_tells_what_older_kernels_do_not_stop() {
    let mut text = String::from("| attempt |");
    for abi in ABIS {
        let _ = write!(text, " ABI {abi} |");
    }
    text += "\n| --- | --- | --- | --- |\n";
    for row in ROWS.iter().filter(|row| row.since > ABIS[0]) {
        let _ = write!(text, "| {} |", row.what);
        for abi in ABIS {
            let word = if row.since > abi {
                "gets out"
            } else {
                "refused"
            };
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    compare("other kernels", &text);
}

/// Compares a table of the page, or writes it, if `OLLIE_WRITE_TABLES` is set.
fn compare(name: &str, table: &str) {
    let (begin, end) = (
        format!("<!-- {name}: begin -->\n"),
        format!("<!-- {name}: end -->\n"),
    );
    let path = workspace().join("docs/sandbox.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(&begin).unwrap();
    let (there, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("OLLIE_WRITE_TABLES").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(
        there, table,
        "the table of {name} in docs/sandbox.md is another one; OLLIE_WRITE_TABLES=1 writes it"
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
