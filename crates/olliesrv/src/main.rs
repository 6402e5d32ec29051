//! olliesrv: the brain stays on this machine, the hands go where the work is.
//!
//! This binary is the command line. [`options`] says what can be asked for,
//! one module for each command does it, [`setup`] is the one place that knows
//! where a session's toolsrv runs, and [`exit`] maps every end to a number.

#![forbid(unsafe_code)]

mod answer;
mod arrival;
mod askpass;
mod backends;
mod call;
mod chat;
mod chat_view;
mod config;
mod daemon;
mod deploy;
mod doctor;
mod doorway;
mod error;
mod events;
mod exec;
mod exit;
mod explain;
mod floor;
mod fs;
mod house;
mod lasting;
mod line;
mod manual;
mod options;
mod output;
mod paths;
mod pieces;
mod policy;
mod policy_file;
mod printable;
mod project;
mod remotes;
mod serve;
mod session;
mod setup;
mod signals;
mod stdin;
mod tools;
mod trust;
mod turned_away;
mod usage;
mod user_tools;
mod verbose;

use std::process::ExitCode;

use clap::Parser as _;

use crate::options::{Command, ConfigCommand, Options, PolicyCommand};

fn main() -> ExitCode {
    // ssh calls this program with a question as its argument.
    if let Some(socket) = std::env::var_os(askpass::VARIABLE) {
        let question = std::env::args().nth(1).unwrap_or_default();
        let answered = askpass::ask(socket.as_ref(), &question, askpass::kind().as_deref());
        return ExitCode::from(u8::from(!answered));
    }
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return usage::wrong(&error, std::env::args_os()),
    };
    let runtime = match runtime(&options.command) {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&error::Error::Runtime(error)),
    };
    let result = runtime.block_on(async {
        match &options.command {
            Command::Exec(exec) => exec::run(exec).await,
            Command::Call(call) => call::run(call).await,
            Command::Policy(command) => match command {
                PolicyCommand::Show(show) => policy::show(show).await,
                PolicyCommand::Trust(trust) => policy_file::trust(trust).await,
                PolicyCommand::Diff(diff) => policy_file::diff(diff).await,
                PolicyCommand::Check(check) => policy_file::check(check).await,
                PolicyCommand::Why(why) => policy_file::why(why).await,
                PolicyCommand::Schema => policy_file::schema(),
            },
            Command::Doctor(doctor) => doctor::run(doctor).await,
            Command::Deploy(deploy) => deploy::run(deploy).await,
            Command::Reattach(reattach) => lasting::reattach(reattach).await,
            Command::Remotes(remotes) => remotes::list(remotes),
            Command::Tools(tools) => tools::run(tools).await,
            Command::Config(ConfigCommand::Check) => remotes::check(),
            Command::Serve(serve) => serve::run(serve).await,
            Command::Chat(chat) => chat::run(chat).await,
            Command::Session(command) => session::run(command).await,
            Command::Fs(command) => fs::run(command).await,
            Command::Completions(options) => manual::completions(options.shell),
            Command::Man(options) => manual::pages(options),
        }
    });
    let code = match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => exit::failed(&error),
    };
    // A thread may be waiting for standard input for ever.
    runtime.shutdown_background();
    code
}

/// One thread is enough for waiting; whoever keeps sessions also writes to a
/// disk, for which others must not wait.
fn runtime(command: &Command) -> std::io::Result<tokio::runtime::Runtime> {
    use tokio::runtime::Builder;
    let mut builder = match command {
        Command::Serve(_) | Command::Chat(_) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
        _ => Builder::new_current_thread(),
    };
    builder.enable_all().build()
}
