use std::fmt::Display;

/// What the harness itself needs and does not get ends the test.
pub(crate) fn must<T, E: Display>(result: Result<T, E>, what: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the harness cannot {what}: {error}"),
    }
}
