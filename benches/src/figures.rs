use std::time::Duration;

/// The durations of one measure.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Duration>);

impl Figures {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

/// Prints a measure beside its reference.
pub(crate) fn compare(what: &str, measure: &Figures, of: &str, reference: &Figures, target: f64) {
    let (measure, reference) = (measure.median(), reference.median());
    let ratio = measure.as_secs_f64() / reference.as_secs_f64();
    let verdict = if ratio <= target { "ok" } else { "OVER" };
    println!(
        "{what:<44} {:>9.1} us\n  {of:<42} {:>9.1} us   ratio {ratio:.2}, target {target:.2}  \
         {verdict}",
        measure.as_secs_f64() * 1e6,
        reference.as_secs_f64() * 1e6,
    );
}

/// Prints somebody else's measure beside a reference; there is no target.
pub(crate) fn beside(what: &str, measure: &Figures, of: &str, reference: &Figures) {
    let (measure, reference) = (measure.median(), reference.median());
    println!(
        "{what:<44} {:>9.1} us\n  {of:<42} {:>9.1} us   ratio {:.2}",
        measure.as_secs_f64() * 1e6,
        reference.as_secs_f64() * 1e6,
        measure.as_secs_f64() / reference.as_secs_f64(),
    );
}
