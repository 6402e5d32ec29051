//! The binary: `toolsrv serve`, started by ollie with its standard input and
//! output as the channel, and `toolsrv builtin`, which it starts of itself for
//! a file tool.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
toolsrv: runs ollie's tools on this host, inside a sandbox

usage: toolsrv serve      one session: a boot record, then 9P, on standard input and output
                          --lasting: its socket is where a logout does not remove it
       toolsrv attach SOCKET MARK
                          carries standard input and output to a session that lives on
       toolsrv builtin NAME
                          one of the file tools: its arguments as JSON on standard input
       toolsrv --version  the release of ollie it belongs to
       toolsrv --build-id the SHA-256 of this very file
       toolsrv --help     this text

It is started by olliesrv, over ssh or on the same machine, and needs nothing installed.
";

fn main() -> ExitCode {
    match command() {
        Ok(Command::Serve { lasting }) => {
            done(toolsrv::start(std::env::vars_os().collect(), lasting))
        }
        Ok(Command::Attach { socket, mark }) => done(toolsrv::attach(&socket, &mark)),
        Ok(Command::Builtin { name }) => ExitCode::from(ollie_builtins::run(
            &name,
            &mut std::io::stdin().lock(),
            &mut std::io::stdout().lock(),
            &mut std::io::stderr().lock(),
        )),
        Ok(Command::Version) => {
            say(&format!("toolsrv {}\n", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        // Stage 0 asks where the host has no program that could tell.
        Ok(Command::BuildId) => {
            say(&format!("{}\n", toolsrv::build_id()));
            ExitCode::SUCCESS
        }
        Ok(Command::Help) => {
            say(HELP);
            ExitCode::SUCCESS
        }
        Err(error) => complain(&format!("{error}; see toolsrv --help"), 2),
    }
}

enum Command {
    Serve { lasting: bool },
    Attach { socket: PathBuf, mark: String },
    Builtin { name: String },
    Version,
    BuildId,
    Help,
}

fn command() -> Result<Command, lexopt::Error> {
    use lexopt::ValueExt as _;
    use lexopt::prelude::{Long, Short, Value};
    let mut arguments = lexopt::Parser::from_env();
    let command = match arguments.next()? {
        Some(Long("version") | Short('V')) => Command::Version,
        Some(Long("build-id")) => Command::BuildId,
        Some(Long("help") | Short('h')) => Command::Help,
        Some(Value(word)) if word == "serve" => {
            let lasting = match arguments.next()? {
                None => false,
                Some(Long("lasting")) => true,
                Some(other) => return Err(other.unexpected()),
            };
            Command::Serve { lasting }
        }
        Some(Value(word)) if word == "attach" => Command::Attach {
            socket: arguments.value()?.into(),
            mark: arguments.value()?.string()?,
        },
        Some(Value(word)) if word == "builtin" => Command::Builtin {
            name: arguments.value()?.string()?,
        },
        Some(other) => return Err(other.unexpected()),
        None => return Err("a command is missing".into()),
    };
    match arguments.next()? {
        None => Ok(command),
        Some(other) => Err(other.unexpected()),
    }
}

fn done(result: Result<(), toolsrv::Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.chain(), 1),
    }
}

/// Standard output may be gone; then there is nobody to tell.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn complain(text: &str, status: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "toolsrv: {text}");
    ExitCode::from(status)
}
