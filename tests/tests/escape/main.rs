//! The escape suite: every way out that we know of, tried for real.
//!
//! Each row of [`ollie_tests::attempts`] is a piece of shell code that ends with status 0 when
//! it got out. It runs by `olliesrv exec`, where it must fail, and again
//! without the mechanism that is said to stop it, where it must succeed: an
//! attempt that fails anyway shows nothing. The table of docs/sandbox.md is
//! what came of it.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not known as tests to clippy"
)]

mod must_work;
mod names;
mod over_ssh;
mod place;
mod table;

use ollie_tests::User;

use ollie_tests::attempts::{By, ROWS, Row};
use place::Place;

/// What came of a row for one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Refused, and not without its mechanism.
    Shown,
    /// Refused. This user cannot do it anyway.
    Refused,
}

#[test]
fn each_attempt_fails_and_succeeds_without_the_mechanism_that_stops_it() {
    let mut problems = Vec::new();
    let mut outcomes = Vec::new();
    for user in User::each("the escape suite, as root") {
        let place = Place::new(user);
        for row in ROWS {
            match place.try_row(row) {
                Ok(outcome) => outcomes.push((user, *row, outcome)),
                Err(problem) => problems.push(problem),
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    table::check(&outcomes);
}

/// The three ways to change what is connected between the look and the call.
/// Status 0 says that all rounds were made; who got through is counted at the
/// server.
#[test]
fn what_changes_while_it_is_connected_reaches_no_server() {
    for user in User::each("races, as root") {
        let place = Place::new(user);
        for code in [
            "$E rewrite own.sock $OUT/docker.sock 100000",
            "$E swap $OUT/docker.sock 20000",
            "$E swap-link . $OUT/docker.sock 20000",
        ] {
            assert_eq!(place.visitors_of(code, None), 0, "{code} as {user:?}");
            let visitors = place.visitors_of(code, Some(By::Gate));
            assert!(visitors > 0, "it would not be noticed: {code} as {user:?}");
        }
    }
}

/// A row is about something only if its two halves differ.
#[test]
fn rows_are_told_apart() {
    let mut names: Vec<_> = ROWS.iter().map(|row: &Row| row.what).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "two rows of one name");
}
