//! Prints what ollie's hot paths cost, each beside a reference that is
//! measured in turn with it, so that a noisy machine disturbs both alike. Only
//! the ratio counts.
//!
//! The first argument is the number of rounds, the second one of the parts
//! `spawn`, `call`, `grep` and `ssh`.
//!
//! `OLLIE_DIST` names the directory with the bundle (`cargo xtask build`).

#![expect(clippy::print_stdout, reason = "a program whose output is its purpose")]

mod call;
mod figures;
mod grep;
mod spawn;
mod ssh;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 300,
    };
    let part = std::env::args().nth(2);
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    // The companion is forked while there is one thread.
    let bench = spawn::Bench::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        println!("{rounds} rounds, medians; the machine's other work disturbs both sides alike\n");
        if wanted("spawn") {
            bench.run(rounds).await?;
        }
        if wanted("call") {
            call::run(rounds).await?;
        }
        if wanted("grep") {
            grep::run(rounds).await?;
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    // Threads of its own, and nobody's runtime.
    if wanted("ssh") {
        ssh::run(rounds)?;
    }
    Ok(())
}
