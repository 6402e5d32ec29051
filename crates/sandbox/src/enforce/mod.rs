//! The side that runs tools: a policy compiled for this kernel.

mod compile;
mod degraded;
mod doorman;
mod enforcement;
mod gate;
mod identity;
mod parts;
mod probe;
mod rights;
mod ruleset;
mod sys;

pub use compile::compile;
pub use enforcement::{Enforcement, Entered, Step, TreeLimits};
pub use gate::{Gate, Listener};
pub use probe::probe;
