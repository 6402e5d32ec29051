//! An agent between a model and hands that follow a script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod length;
mod skills;
mod trouble;
mod turn;
mod world;
