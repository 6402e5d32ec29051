//! The harness of the integration tests: real binaries, a real kernel.
//!
//! A test makes a [`World`]: a home, a project and every other directory that
//! ollie uses, for one [`User`], in a place that no other test shares. From it
//! come commands, [`World::ollie`] first of all, whose environment is cleared
//! and whose time is limited: a test that hangs fails by itself and says what
//! it had seen. A command is either run to its end ([`Finished`]) or watched
//! while it runs ([`Running`]). When a world is dropped, no process and no
//! directory of a session may be left in it; that holds for every test, also
//! for those that are about something else.
//!
//! A host that ssh reaches is a [`Devbox`]: a real sshd on loopback.
//!
//! A [`Toolsrv`] is one that the test starts by itself and speaks to, message
//! by message if it likes.
//!
//! The attempts of the escape suite are data: [`attempts`].
//!
//! The binaries are those of the directory that `OLLIE_DIST` names
//! ([`Dist`]). What cannot be tested here is never passed over in silence:
//! [`gap`].

pub mod attempts;
mod devbox;
mod dist;
mod gap;
mod invocation;
mod leftovers;
mod must;
mod person;
mod piped;
mod processes;
mod raw;
mod raw_dice;
mod raw_link;
mod raw_peer;
mod relay;
mod running;
mod served;
mod tap;
mod toolchain;
mod tree;
mod user;
mod watchdog;
mod wire;
mod world;

pub use devbox::{Devbox, DevboxBuilder};
pub use dist::{Dist, workspace};
pub use gap::gap;
pub use invocation::Invocation;
pub use person::at_a_terminal;
pub use piped::Piped;
pub use processes::{Process, await_that};
pub use raw::{Toolsrv, shell_call};
pub use raw_dice::Dice;
pub use raw_link::delayed;
pub use raw_peer::{Peer, flush, read, write};
pub use relay::Relay;
pub use running::{Finished, Running};
pub use served::Served;
pub use tree::Tree;
pub use user::User;
pub use wire::Wire;
pub use world::World;
