//! Prints what ollie's hot paths cost, each beside a reference that is
//! measured in turn with it, so that a noisy machine disturbs both alike. Only
//! the ratio counts.
//!
//! `OLLIE_DIST` names the directory with the bundle (`cargo xtask build`).

#![expect(clippy::print_stdout, reason = "a program whose output is its purpose")]

mod call;
mod figures;
mod spawn;
mod ssh;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 300,
    };
    // The companion is forked while there is one thread.
    let bench = spawn::Bench::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        println!("{rounds} rounds, medians; the machine's other work disturbs both sides alike\n");
        bench.run(rounds).await?;
        call::run(rounds).await
    })?;
    ssh::run(rounds)
}
