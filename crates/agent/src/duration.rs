//! Times as a configuration file and a command line write them.

use std::time::Duration;

/// Reads a time as timeout(1) does, `90`, `1.5s`, `10m`, `2h`, and also in
/// `ms`. Zero is refused: it would end everything before it begins.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit:?} is no unit: use ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "expected a number and a unit, such as 90, 1.5s or 200ms".to_owned())?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(time) if time >= Duration::from_millis(1) => Ok(time),
        Ok(_) => Err("shorter than a millisecond".to_owned()),
        Err(_) => Err("longer than can be counted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_timeout_does() {
        for (text, ms) in [
            ("90", 90_000),
            ("1.5s", 1500),
            ("200ms", 200),
            ("2h", 7_200_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "s",
            "-1",
            "1d",
            "1.2.3",
            "0",
            "inf",
            "nan",
            "99999999999999999999999h",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
