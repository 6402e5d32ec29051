//! The sandbox on this kernel: a child is confined between fork and exec, as a
//! tool is, and then tries what it must not be able to do.
//!
//! Every case runs as the user of the test and, where that is root, as an
//! ordinary user as well. The binary runs itself again for attempts that no
//! shell can make.
#![expect(
    unsafe_code,
    reason = "attempts are raw system calls, and pre_exec is unsafe by nature"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test with its own main is not known as one to clippy"
)]

mod attempt;
mod attempt_pair;
mod attempt_socket;
mod cases;
mod gate;
mod work;
mod world;

use libtest_mimic::{Arguments, Trial};
use world::Who;

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("attempt") {
        let words: Vec<String> = args.collect();
        std::process::exit(attempt::run(&words));
    }
    let keep = tempfile::tempdir().unwrap();
    let program = world::copy_program(keep.path());
    let mut trials = Vec::new();
    for who in Who::possible() {
        for (name, case) in cases::ALL.iter().chain(gate::ALL).chain(work::ALL) {
            let name = format!("{} as {who}", name.replace('_', " "));
            let program = program.clone();
            trials.push(Trial::test(name, move || {
                case(&world::World::new(who, &program));
                Ok(())
            }));
        }
    }
    trials.push(Trial::test("cargo builds a crate", move || {
        work::cargo(&world::World::new(Who::Myself, &program));
        Ok(())
    }));
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // Exiting runs no destructors.
    drop(keep);
    conclusion.exit();
}
