use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ninep_rs::{ClientConfig, Direction, Trace};
use ollie_deploy::Step;

use crate::options::SessionOptions;
use crate::output;
use crate::printable::printable;

/// What `--verbose` and `--trace-9p` show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verbose {
    steps: bool,
    messages: bool,
    began: Instant,
}

impl Verbose {
    pub(crate) fn new(options: &SessionOptions) -> Self {
        Self {
            steps: options.verbose,
            messages: options.trace_9p,
            began: Instant::now(),
        }
    }

    /// Tells of a step, with the milliseconds since the start.
    pub(crate) fn step(&self, text: &str) {
        if self.steps {
            let ms = self.began.elapsed().as_secs_f64() * 1000.0;
            output::note(&format!("[{ms:8.2} ms] {}", printable(text)));
        }
    }

    /// Tells of a step on the way to a host. One that takes seconds and is not
    /// the host's is told on a terminal in any case, once.
    pub(crate) fn on_the_way(&self, step: &Step) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if self.steps {
            self.step(&step.to_string());
        } else if *step == Step::Packing
            && std::io::stderr().is_terminal()
            && !SAID.swap(true, Ordering::Relaxed)
        {
            output::note(&step.to_string());
        }
    }

    /// Whether steps are told.
    pub(crate) fn is_on(&self) -> bool {
        self.steps
    }

    /// A client that shows its messages if that was asked for.
    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        if self.messages {
            config.trace = Some(trace(self.began));
        }
        config
    }
}

fn trace(began: Instant) -> Trace {
    Trace::new(move |direction, message| {
        let ms = began.elapsed().as_secs_f64() * 1000.0;
        let arrow = match direction {
            Direction::Out => "->",
            Direction::In => "<-",
        };
        let text = printable(&message.to_string());
        output::note(&format!("[{ms:8.2} ms] {arrow} {text}"));
    })
}
