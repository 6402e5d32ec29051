//! What ran, how long it took, and what did not run.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use crate::failure::Failure;

/// How a part ended that did not fail.
#[derive(Debug)]
pub(crate) enum Done {
    /// It ran, with this result.
    Yes(String),
    /// It, or a part of it, could not run here, for this reason.
    No(String),
}

/// The parts of one run, in order.
#[derive(Debug)]
pub(crate) struct Tally {
    parts: Vec<Part>,
    /// Whether a part that could not run is a failure, as it is in CI.
    strict: bool,
}

#[derive(Debug)]
struct Part {
    name: &'static str,
    took: Duration,
    result: Result<Done, Failure>,
}

impl Tally {
    pub(crate) fn new(strict: bool) -> Self {
        Self {
            parts: Vec::new(),
            strict,
        }
    }

    /// Runs a part. One that fails does not keep the next ones from running.
    pub(crate) fn part(&mut self, name: &'static str, run: impl FnOnce() -> Result<Done, Failure>) {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let result = run();
        match &result {
            Ok(Done::Yes(_)) => {}
            Ok(Done::No(why)) => eprintln!("xtask: {name}: not run: {why}"),
            Err(failure) => eprintln!("xtask: {name}: {failure}"),
        }
        self.parts.push(Part {
            name,
            took: start.elapsed(),
            result,
        });
    }

    /// The table for the end of the run.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for part in &self.parts {
            let (word, text) = match &part.result {
                Ok(Done::Yes(text)) => ("ok", text.clone()),
                Ok(Done::No(why)) => ("NOT RUN", why.clone()),
                Err(failure) => ("FAILED", failure.to_string()),
            };
            let minutes = part.took.as_secs_f64() / 60.0;
            let first = text.lines().next().unwrap_or_default();
            // Writing into a String does not fail.
            let _ = writeln!(
                table,
                "{:<18} {minutes:>5.1} min  {word:<8} {first}",
                part.name
            );
        }
        table
    }

    /// Success if all parts passed, and outside of CI also if some could not
    /// run.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        let counts = |part: &&Part| match &part.result {
            Ok(Done::Yes(_)) => false,
            Ok(Done::No(_)) => self.strict,
            Err(_) => true,
        };
        let names: Vec<_> = self
            .parts
            .iter()
            .filter(counts)
            .map(|part| part.name)
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("not passed: {}", names.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(strict: bool) -> Tally {
        let mut tally = Tally::new(strict);
        tally.part("first", || Ok(Done::Yes("9 of 9".into())));
        tally.part("second", || Ok(Done::No("no root".into())));
        tally
    }

    #[test]
    fn a_gap_is_shown_and_fails_in_ci_only() {
        assert!(tally(false).verdict().is_ok());
        let failure = tally(true).verdict().expect_err("a gap");
        assert_eq!(failure.to_string(), "not passed: second");
        assert!(tally(false).table().contains("NOT RUN  no root"));
    }

    #[test]
    fn a_failed_part_does_not_hide_the_others() {
        let mut tally = tally(false);
        tally.part("third", || Err(Failure::new("broken\nmore")));
        tally.part("fourth", || Ok(Done::Yes(String::new())));
        assert_eq!(
            tally.verdict().expect_err("failed").to_string(),
            "not passed: third"
        );
        assert_eq!(tally.table().lines().count(), 4);
    }
}
