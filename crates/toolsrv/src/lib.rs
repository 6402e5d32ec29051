//! toolsrv: the hands. It runs where the tools run, started by ollie over ssh
//! or on this machine, and serves one session over 9P.
//!
//! A start goes through the modules in this order:
//!
//! 1. [`start`] makes the private directories ([`places`]), forks the
//!    companion while there is one thread and no secret, reads the boot
//!    record, compiles the policy and prints the ready line.
//! 2. [`serve`] speaks 9P on standard input and output and on the session's
//!    socket, until the first of the two ends. Each connection waits in the
//!    [`lobby`], proves itself ([`door`]) and then sees the files of [`tree`].
//!    Where there is a project's policy file, no call runs before the file
//!    `project` was written ([`project`]).
//! 3. Writing to `proc/new` makes a [`call`]. Its tool comes from the
//!    [`registry`], which knows what of it runs here ([`variants`]); a [`plan`]
//!    is made of its arguments. Then it waits for its turn ([`turns`]),
//!    [`driver`] follows its supervisor, [`stream`] hands its output on as fast as the reader takes
//!    it, [`log`] keeps a bounded copy. Calls of `proc/new.bg` have no reader
//!    and go on by themselves.
//!
//! [`attach`] is the other way in: it carries standard input and output to the
//! socket of a session that lives on.
//!
//! This process executes nothing itself: facts about the host and about git
//! are read from files ([`facts`], [`git`]).

#![forbid(unsafe_code)]

mod attach;
mod call;
mod call_file;
mod call_tree;
mod calls;
mod collect;
mod directory_lock;
mod door;
mod doorbook;
mod driver;
mod error;
mod facts;
mod git;
mod ground;
mod live;
mod lobby;
mod log;
mod log_file;
mod logind;
mod native;
mod pace;
mod places;
mod plan;
mod project;
mod registry;
mod serve;
mod session;
mod stale;
mod start;
mod stdin;
mod stdio;
mod store;
mod stream;
mod tool;
mod tool_tree;
mod tree;
mod turns;
mod unfinished;
mod used_ids;
mod variants;
mod why;

pub use attach::attach;
pub use error::Error;
pub use session::build_id;
pub use start::start;
