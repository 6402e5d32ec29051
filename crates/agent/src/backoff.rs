//! How long to wait before a request is made again.

use std::time::Duration;

use crate::{BackendError, Limits};

/// The wait before repetition number `attempt`, counted from 1, or `None` if
/// there is to be none. `jitter`, from 0 to 1, spreads those that failed at
/// the same moment: half of the wait is fixed, the other half is drawn.
pub(crate) fn wait(
    limits: &Limits,
    error: &BackendError,
    attempt: u32,
    jitter: f64,
) -> Option<Duration> {
    if !error.is_retryable() || attempt > limits.retries {
        return None;
    }
    let doublings = attempt.saturating_sub(1).min(30);
    let whole = limits
        .backoff_first
        .saturating_mul(1 << doublings)
        .min(limits.backoff_most);
    let drawn = whole.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    match error.retry_after() {
        Some(asked) if asked > limits.retry_after_most => None,
        // The provider's word is the least, and a little of our own on top so
        // that not everybody comes back at once.
        Some(asked) => Some(asked.saturating_add(drawn.min(limits.backoff_first))),
        None => Some(drawn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(retry_after: Option<u64>) -> BackendError {
        BackendError::Server {
            status: 503,
            retry_after: retry_after.map(Duration::from_secs),
            message: String::new(),
        }
    }

    #[test]
    fn each_wait_is_twice_the_last_up_to_the_cap() {
        let limits = Limits {
            retries: 9,
            ..Limits::default()
        };
        let waits: Vec<_> = (1..=10)
            .map(|attempt| wait(&limits, &server(None), attempt, 1.0).map(|it| it.as_secs()))
            .collect();
        let expected = [1, 2, 4, 8, 16, 32, 60, 60, 60].map(Some);
        assert_eq!(waits[..9], expected);
        assert_eq!(waits[9], None);
        assert_eq!(
            wait(&limits, &server(None), 3, 0.0),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn the_providers_word_is_kept() {
        let limits = Limits::default();
        let asked = wait(&limits, &server(Some(30)), 1, 1.0).unwrap();
        assert_eq!(asked, Duration::from_secs(31));
        // Ten minutes are the most.
        assert!(wait(&limits, &server(Some(600)), 1, 0.0).is_some());
        assert_eq!(wait(&limits, &server(Some(601)), 1, 0.0), None);
    }

    #[test]
    fn what_cannot_get_better_is_not_tried_again() {
        let limits = Limits::default();
        for error in [
            BackendError::Authentication { message: "".into() },
            BackendError::Refused {
                status: 400,
                message: "".into(),
            },
            BackendError::Exhausted,
        ] {
            assert_eq!(wait(&limits, &error, 1, 0.0), None, "{error}");
        }
    }
}
