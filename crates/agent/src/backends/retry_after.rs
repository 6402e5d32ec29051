use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How long a server asks to wait: `retry-after-ms` (milliseconds, sent by
/// OpenAI beside the standard header because it is finer) or `Retry-After`
/// (RFC 9110, section 10.2.3: seconds or a date). Nothing if neither can be
/// read. A date in the past is a wait of zero.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(ms) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(text) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_milliseconds_and_nonsense() {
        // The example date of RFC 9110, section 5.6.7: 784111777 in Unix time.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        let seconds = |n| Some(Duration::from_secs(n));
        for (name, value, expected) in [
            ("retry-after", "120", seconds(120)),
            ("retry-after", " 0 ", seconds(0)),
            ("retry-after", "1.5", Some(Duration::from_millis(1500))),
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", seconds(7)),
            ("retry-after", "Sunday, 06-Nov-94 08:49:37 GMT", seconds(7)),
            ("retry-after", "Sun Nov  6 08:49:37 1994", seconds(7)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT", seconds(0)),
            ("retry-after", "soon", None),
            ("retry-after", "-3", None),
            ("retry-after", "nan", None),
            ("retry-after", "inf", None),
            ("retry-after-ms", "250", Some(Duration::from_millis(250))),
            ("x-other", "250", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            assert_eq!(retry_after(&headers, now), expected, "{name}: {value}");
        }
    }
}
