use std::time::{Duration, Instant};

/// How fast the output of a background call is read, of which nothing but the
/// beginning and the end is kept: 1 MiB in 10 ms, about 100 MB a second.
///
/// A command that has more to say waits at its full pipe, as it does for a
/// slow reader of a foreground call. Without that `yes` would cost two
/// processors for nothing.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When the present window began.
    begun: Instant,
    /// Bytes read in it.
    spent: usize,
}

const WINDOW: Duration = Duration::from_millis(10);
const IN_A_WINDOW: usize = 1 << 20;

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            begun: now,
            spent: 0,
        }
    }

    /// Takes note of `bytes` that were read; how long to wait before the next.
    pub(crate) fn after(&mut self, bytes: usize, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.begun);
        if passed >= WINDOW {
            *self = Self::new(now);
        }
        self.spent = self.spent.saturating_add(bytes);
        let left = (self.begun + WINDOW).saturating_duration_since(now);
        (self.spent >= IN_A_WINDOW).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mebibyte_in_ten_milliseconds_and_no_more() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut pace = Pace::new(begun);
        assert_eq!(pace.after(600 << 10, at(1)), None);
        let pause = Some(Duration::from_millis(7));
        assert_eq!(pace.after(600 << 10, at(3)), pause);
        assert_eq!(pace.after(600 << 10, at(10)), None, "the next window");
        assert_eq!(pace.after(600 << 10, at(25)), None, "and the one after it");
        assert_eq!(pace.after(600 << 10, at(25)), Some(WINDOW));
    }
}
