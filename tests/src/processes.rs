use std::path::Path;
use std::time::{Duration, Instant};

/// One process, as /proc shows it (proc(5)).
#[derive(Debug, Clone)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its real user.
    pub uid: u32,
    /// The letter of its state; `Z` is a zombie.
    pub state: char,
    /// Its arguments, each followed by a NUL byte.
    pub cmdline: Vec<u8>,
    /// Its first environment, where it may be read.
    pub environ: Vec<u8>,
}

impl Process {
    /// Every process of the machine that lives.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let Ok(list) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        list.flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(Self::read)
            .collect()
    }

    /// One that lives.
    #[must_use]
    pub fn read(pid: u32) -> Option<Self> {
        let at = format!("/proc/{pid}");
        let status = std::fs::read_to_string(format!("{at}/status")).ok()?;
        let first = |name: &str| field(&status, name)?.split_whitespace().next();
        let state = first("State")?.chars().next()?;
        let threads: u32 = first("Threads")?.parse().ok()?;
        if state == 'X' || state == 'Z' && threads < 2 {
            return None;
        }
        let mut process = Self {
            pid,
            parent: first("PPid")?.parse().ok()?,
            uid: first("Uid")?.parse().ok()?,
            state,
            cmdline: std::fs::read(format!("{at}/cmdline")).unwrap_or_default(),
            environ: std::fs::read(format!("{at}/environ")).unwrap_or_default(),
        };
        if process.cmdline.is_empty() && threads > 1 {
            process.ask_threads(&at);
        }
        Some(process)
    }

    /// A process whose first thread has ended shows its arguments through the
    /// others only.
    fn ask_threads(&mut self, at: &str) {
        let tasks = std::fs::read_dir(format!("{at}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |file| std::fs::read(task.path().join(file)).unwrap_or_default();
            self.cmdline.extend(read("cmdline"));
            self.environ.extend(read("environ"));
        }
    }

    /// Whether its arguments or its environment contain this text.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        [&self.cmdline, &self.environ]
            .into_iter()
            .any(|bytes| contains(bytes, text.as_bytes()))
    }

    /// Whether these are its arguments.
    #[must_use]
    pub fn has_args(&self, args: &[&str]) -> bool {
        let text: String = args.iter().map(|arg| format!("{arg}\0")).collect();
        self.cmdline == text.as_bytes()
    }

    /// Its arguments as a line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let text = String::from_utf8_lossy(&self.cmdline).replace('\0', " ");
        format!(
            "{} (parent {}, {}) {}",
            self.pid,
            self.parent,
            self.state,
            text.trim_end()
        )
    }

    /// The most memory it has ever had resident, in bytes (`VmHWM`).
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let kib: u64 = field(&status, "VmHWM")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()?;
        Some(kib * 1024)
    }
}

/// The value of a line `Name:<tab>value`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// Whether `bytes` hold `part` somewhere.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Waits until something holds that no event tells of; whether it did in time.
pub fn await_that(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The entries of a directory, by name; none if it is not there.
pub(crate) fn entries(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .collect()
}
