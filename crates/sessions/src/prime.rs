use std::path::Path;
use std::time::SystemTime;

use ollie_agent::Variables;

use crate::Settings;
use crate::link::About;

/// What a prompt is told of the place where tools run, as the tool host said
/// it itself.
pub(crate) fn told(about: &About) -> Variables {
    Variables::new(&about.host, &date(SystemTime::now()))
}

/// The same before the tool host was asked. Nothing is run to find it out.
pub(crate) fn guessed(settings: &Settings) -> Variables {
    let cwd = settings.cwd.clone().unwrap_or_else(|| "~".to_owned());
    let is_git_repo = settings.remote.is_none()
        && Path::new(&cwd)
            .ancestors()
            .any(|directory| directory.join(".git").exists());
    Variables {
        cwd,
        platform: "linux".to_owned(),
        is_git_repo,
        date: date(SystemTime::now()),
    }
}

/// The day, UTC, as `2026-12-01`.
fn date(now: SystemTime) -> String {
    let seconds = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    // Days to a date of the proleptic Gregorian calendar, counted from the
    // first of March of the year 0, so that a leap day is the last of a year.
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_those_of_date_1() {
        // `date -u -d @N +%F`
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_796_083_200, "2026-12-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(date(moment), day, "{seconds}");
        }
    }
}
