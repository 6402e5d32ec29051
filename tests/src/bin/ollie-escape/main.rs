//! Attempts to get out of a sandbox that no shell can make, and a sandbox
//! with one mechanism left out.
//!
//! ```text
//! ollie-escape WORDS...                   one attempt
//! ollie-escape without PART... -- COMMAND the default policy but for PART
//! ollie-escape no-landlock ERRNO -- COMMAND a kernel without Landlock
//! ollie-escape attempts                   the attempts of the suite, as JSON
//! ollie-escape outside DIRECTORY NAME     servers that may not be reached
//! ```
//!
//! An attempt's exit status is 0 when it got through, 1 when it was refused,
//! with the error on standard error, and 99 for words that are not understood.
#![expect(unsafe_code, reason = "attempts are raw system calls")]
#![expect(clippy::print_stderr, reason = "it says which error refused it")]

mod attempt;
#[path = "../../../../crates/sandbox/tests/confined/attempt_pair.rs"]
mod attempt_pair;
#[path = "../../../../crates/sandbox/tests/confined/attempt_socket.rs"]
mod attempt_socket;
mod calls;
mod no_landlock;
mod outside;
mod without;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["without", rest @ ..] = words.as_slice() {
        std::process::exit(without::run(rest).unwrap_or_else(|error| {
            eprintln!("{error}");
            125
        }));
    }
    if words == ["attempts"] {
        return outside::attempts();
    }
    let answer = attempt::run(&words)
        .or_else(|| calls::run(&words))
        .or_else(|| no_landlock::run(&words))
        .or_else(|| outside::run(&words))
        .or_else(|| attempt_socket::attempt(&words))
        .or_else(|| attempt_pair::attempt(&words));
    let status = match answer {
        None => 99,
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            eprintln!("{error}");
            i32::from(is_refusal(&error))
        }
    };
    std::process::exit(status);
}

/// Whether an error says that something may not be done. Any other one means
/// that the kernel went on to look at the arguments, which are nonsense.
fn is_refusal(error: &std::io::Error) -> bool {
    match error.raw_os_error() {
        Some(errno) => [
            libc::EPERM,
            libc::EACCES,
            libc::ENOSYS,
            libc::EXDEV,
            libc::EAFNOSUPPORT,
            libc::EPROTONOSUPPORT,
        ]
        .contains(&errno),
        None => true,
    }
}
