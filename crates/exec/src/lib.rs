//! Run one command inside a compiled policy, and end everything it started.
//!
//! Three kinds of process share the work, all of one binary:
//!
//! ```text
//! server ──────── companion ──────── supervisor ──────── the command
//! tokio, 9P       single thread,      one for each call,  its own session,
//! [`Spawner`]     forks supervisors,  subreaper of the    confined
//!                 owns the litter     call's whole tree
//! ```
//!
//! * The **companion** ([`Companion::fork`]) is forked before the server has
//!   threads or secrets. A process with one small thread can fork in tens of
//!   microseconds and may do anything after it. It keeps one supervisor ahead.
//! * Each call has its own **supervisor**. It is a subreaper
//!   (`PR_SET_CHILD_SUBREAPER`, prctl(2)), so whatever the command leaves
//!   behind, by `&`, `nohup`, `setsid` or a double fork, becomes its child:
//!   `wait` returning ECHILD is the proof that the tree is gone.
//! * Whoever dies, the others end the tree. A supervisor whose server is gone
//!   reads end-of-file and kills; a companion whose supervisor is gone
//!   inherits the orphans and kills; the server is a subreaper as well and
//!   inherits from the companion.
//!
//! Unsafe code is in the module `sys` alone.

mod channel;
mod command;
mod companion;
mod error;
mod kin;
mod litter;
mod recruit;
mod spawner;
mod supervisor;
mod sys;
mod tree;
mod usage;

pub use command::Command;
pub use companion::Companion;
pub use error::Error;
pub use litter::{Litter, remove_tree};
pub use spawner::{Control, Running, Spawner};
pub use supervisor::{Order, Report, Step};
pub use tree::{end_descendants, is_descendant, wait_for};
pub use usage::Exceeded;
