//! The system calls that Landlock does not cover, refused.
//!
//! A filter is a program of classic BPF that the kernel runs on each system
//! call (seccomp(2)). [`table`] says what is refused and why, [`assembler`]
//! turns jumps to labels into offsets, [`filter`] puts both together.
//!
//! Nothing here makes a system call, and both processors' filters are built
//! and interpreted by the tests on either.

mod assembler;
mod filter;
#[cfg(test)]
mod machine;
mod table;

pub(crate) use assembler::Instruction;
pub(crate) use filter::{Gated, Processor, Rules, filter};
