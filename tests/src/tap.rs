use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A stream that is read as it comes, so that its writer never waits.
#[derive(Debug)]
pub(crate) struct Tap {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Seen {
    bytes: Vec<u8>,
    ended: bool,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap {
    pub(crate) fn new(mut from: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let filled = Arc::clone(&shared);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            // An error is an end as well.
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                filled.seen().bytes.extend_from_slice(&buffer[..read]);
                filled.grown.notify_all();
            }
            filled.seen().ended = true;
            filled.grown.notify_all();
        });
        Self {
            shared,
            reader: Some(reader),
        }
    }

    /// Waits until `enough` of what has come; whether that was so in time and
    /// before the end.
    pub(crate) fn wait(&self, limit: Duration, enough: impl Fn(&[u8]) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut seen = self.shared.seen();
        loop {
            if enough(&seen.bytes) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if seen.ended || left.is_zero() {
                return false;
            }
            seen = match self.shared.grown.wait_timeout(seen, left) {
                Ok((seen, _)) => seen,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// What has come so far.
    pub(crate) fn so_far(&self) -> Vec<u8> {
        self.shared.seen().bytes.clone()
    }

    /// Everything, once the stream has ended.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            // It has nothing that panics.
            let _ = reader.join();
        }
        std::mem::take(&mut self.shared.seen().bytes)
    }
}
