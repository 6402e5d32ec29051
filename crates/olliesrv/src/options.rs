use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ollie_agent::duration;
use ollie_deploy::{Target, Transport};

/// Runs tools where the work is, inside a sandbox that the kernel there
/// enforces.
#[derive(Debug, Parser)]
#[command(name = "olliesrv", version, max_term_width = 100, after_help = crate::exit::HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one command in the sandbox: streamed, its exit status kept
    Exec(ExecOptions),
    /// Call one tool and print its result
    Call(CallOptions),
    /// List the tools, and which variant of each runs here or on another host
    Tools(ToolsOptions),
    /// Look at the sandbox policy
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Check that tools can run here or on other hosts, step by step
    Doctor(DoctorOptions),
    /// Put toolsrv on hosts, many at once
    Deploy(DeployOptions),
    /// Go on with a command that was started with exec --lease, or list them
    Reattach(ReattachOptions),
    /// List the hosts of the configuration
    Remotes(RemotesOptions),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Serve sessions of agents as a tree of files, until a signal
    Serve(ServeOptions),
    /// Talk to an agent
    Chat(ChatOptions),
    /// Sessions of the olliesrv that serves
    #[command(subcommand)]
    Session(SessionCommand),
    /// The tree of files of the olliesrv that serves
    #[command(subcommand)]
    Fs(FsCommand),
    /// Print the completions of a shell, to be loaded by its start file
    Completions(CompletionsOptions),
    /// Print the manual page, or write the pages of all commands into a directory
    Man(ManOptions),
}

/// What every session needs to know.
#[derive(Debug, Args)]
pub(crate) struct SessionOptions {
    /// Directory to work in [default: the present one; on another host, the home directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Profile that the policy starts from [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Grant what the project's .ollie-sandbox.yaml asks for, for this session, if the SHA-256 of
    /// the file is this one
    #[arg(long, value_name = "SHA256")]
    pub(crate) trust_project: Option<String>,
    /// Run without any sandbox: every command may do what you may do
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Which way 9P goes to another host: stdio (the exec channel), forward (a forwarded socket,
    /// where sshd allows it), auto (what is best, today stdio) [default: auto]
    #[arg(long, value_name = "WAY")]
    pub(crate) transport: Option<Transport>,
    #[command(flatten)]
    pub(crate) ground: GroundOptions,
    /// Tell on standard error what is done, with milliseconds
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show every 9P message on standard error, without the data they carry
    #[arg(long = "trace-9p")]
    pub(crate) trace_9p: bool,
}

/// How a session reaches its toolsrv.
#[derive(Debug, Clone, Args)]
pub(crate) struct GroundOptions {
    /// How long another host may take to answer, passwords included [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) answer_timeout: Option<Duration>,
    /// The ssh program
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "OLLIE_SSH",
        hide_env_values = true,
        default_value = "ssh"
    )]
    pub(crate) ssh: PathBuf,
    /// Bundle with the toolsrv to start [default: beside olliesrv, or in ../share/ollie]
    #[arg(
        long,
        value_name = "FILE",
        env = "OLLIE_BUNDLE",
        hide_env_values = true
    )]
    pub(crate) bundle: Option<PathBuf>,
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    pub(crate) ground: GroundOptions,
    /// Back end of sessions that name none [default: that of config.yaml]
    #[arg(long, value_name = "NAME|replay:FILE")]
    pub(crate) backend: Option<String>,
    /// Model of sessions that name none [default: that of the back end]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

/// What a new session is set to.
#[derive(Debug, Args)]
pub(crate) struct NewSessionOptions {
    /// Its name [default: a fresh one]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Directory to work in [default: the present one; on another host, the home directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Where its tools run: [user@]host[:port], an alias of ssh_config, or a remote of config.yaml
    /// [default: this machine]
    #[arg(long, value_name = "HOST")]
    pub(crate) remote: Option<String>,
    /// Model back end, or a recording [default: that of config.yaml]
    #[arg(long, value_name = "NAME|replay:FILE")]
    pub(crate) backend: Option<String>,
    /// Model [default: that of the back end]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Agent: a file of the directory agents, without .json [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Profile that the policy starts from [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Which way 9P goes to another host: auto, stdio, forward [default: auto]
    #[arg(long, value_name = "WAY")]
    pub(crate) transport: Option<String>,
    /// Grant what the project's .ollie-sandbox.yaml asks for, if the SHA-256 of the file is this one
    #[arg(long, value_name = "SHA256")]
    pub(crate) trust_project: Option<String>,
    /// Run without any sandbox: every command may do what you may do
    #[arg(long)]
    pub(crate) yolo: bool,
}

/// Options of `chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatOptions {
    #[command(flatten)]
    pub(crate) new: NewSessionOptions,
    #[command(flatten)]
    pub(crate) ground: GroundOptions,
    /// Go on with this session instead of making one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "cwd", "remote", "backend",
        "model", "agent", "profile", "transport", "trust_project", "yolo"])]
    pub(crate) session: Option<String>,
}

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Make a session and print its name
    New(NewSessionOptions),
    /// List sessions: name, state, directory, back end, model, host
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a session a prompt
    Send {
        /// Its name
        session: String,
        /// The prompt, words joined by spaces [default: standard input]
        prompt: Vec<String>,
        /// Print the chat until the turn is over; status 215 if it failed, 130 if it was stopped
        #[arg(short, long)]
        wait: bool,
    },
    /// Print what is said in a session, as it is said
    Tail {
        /// Its name
        session: String,
        /// From the beginning
        #[arg(long)]
        from_start: bool,
    },
    /// Stop what a session does; what is finished stays
    Stop {
        /// Its name
        session: String,
    },
    /// End sessions and forget them
    Rm {
        /// Their names
        #[arg(required = true)]
        sessions: Vec<String>,
    },
}

/// What can be done with files of the tree.
#[derive(Debug, Subcommand)]
pub(crate) enum FsCommand {
    /// List a directory
    Ls {
        /// With modes and lengths
        #[arg(short, long)]
        long: bool,
        /// The directory [default: the root]
        path: Option<String>,
    },
    /// Print a file; of a log, what is there now
    Read {
        /// The file
        path: String,
    },
    /// Write a file in one piece, and print what it answers
    Write {
        /// The file
        path: String,
        /// What to write [default: standard input]
        text: Option<String>,
    },
    /// Print what is added to a file, as it is added
    Tail {
        /// The file
        path: String,
        /// From the beginning
        #[arg(long)]
        from_start: bool,
    },
    /// Print what is known of a file
    Stat {
        /// The file
        path: String,
    },
    /// Remove a session's directory, which ends it
    Rm {
        /// The directory
        path: String,
    },
    /// Rename a session's directory
    Mv {
        /// The directory
        path: String,
        /// Its new name
        name: String,
    },
}

/// How a call is run.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// End the command's whole process tree after this time: 90, 1.5s, 200ms, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Set a variable for the command; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,
}

/// Options of `exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Print events as JSON lines, the result last, instead of the output
    #[arg(long)]
    pub(crate) json: bool,
    /// Give the command /dev/null as its standard input
    #[arg(short = 'n', long)]
    pub(crate) no_stdin: bool,
    /// Let the command live on for so long without a connection: one that drops is found again, and
    /// `reattach` goes on after this program has ended. Its standard input is /dev/null
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) lease: Option<Duration>,
    /// Where to run it: [user@]host[:port], or an alias of ssh_config [default: this machine]
    #[arg(value_name = "HOST")]
    pub(crate) host: Option<Target>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Options of `call`.
#[derive(Debug, Args)]
pub(crate) struct CallOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Print the whole result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to run it: [user@]host[:port], or an alias of ssh_config [default: this machine]
    #[arg(long = "on", value_name = "HOST")]
    pub(crate) host: Option<Target>,
    /// The tool, for example: call shell code='ls -l'
    pub(crate) tool: String,
    /// Its arguments: one JSON object, or any number of NAME=VALUE, where a VALUE that is JSON is
    /// taken as JSON and any other as text
    #[arg(value_name = "JSON|NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
}

/// What can be asked about the policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the policy as it holds here: each rule, where it comes from, what is enforced
    Show(ShowOptions),
    /// Grant what the project's .ollie-sandbox.yaml asks for, as it is now
    Trust(TrustOptions),
    /// Print what the project's .ollie-sandbox.yaml asks for, and whether it has it
    Diff(ProjectOptions),
    /// Read policy files as a session would, and say what is wrong
    Check(CheckOptions),
    /// Say whether something is allowed here, and which rule decides; status 1 if it is not
    Why(WhyOptions),
    /// Print the JSON schema of policy files, for editors
    Schema,
}

/// Which project.
#[derive(Debug, Args)]
pub(crate) struct ProjectOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    /// The host where it lies [default: this machine]
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<Target>,
}

/// Options of `policy trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustOptions {
    #[command(flatten)]
    pub(crate) project: ProjectOptions,
    /// What the file's SHA-256 must be, for who has looked at it before; then nothing is asked
    #[arg(value_name = "SHA256")]
    pub(crate) digest: Option<String>,
    /// Grant what it asks for, whatever that is, and do not ask
    #[arg(long, conflicts_with = "digest")]
    pub(crate) yes: bool,
}

/// Options of `policy check`.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) project: ProjectOptions,
    /// Files on this machine, as sandbox.yaml [default: the project's .ollie-sandbox.yaml]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Options of `policy why`.
#[derive(Debug, Args)]
pub(crate) struct WhyOptions {
    #[command(flatten)]
    pub(crate) project: ProjectOptions,
    /// read, write, create, remove, execute, connect or bind
    #[arg(value_name = "OPERATION")]
    pub(crate) operation: String,
    /// A file, directory or socket; to connect or bind also a TCP address, HOST:PORT or :PORT
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

/// Options of `policy show`.
#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print also the rules about what is not on this host
    #[arg(long)]
    pub(crate) all: bool,
    /// Where it shall hold [default: this machine]
    #[arg(value_name = "HOST")]
    pub(crate) host: Option<Target>,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The hosts to look at, one after the other [default: this machine]
    #[arg(value_name = "HOST")]
    pub(crate) hosts: Vec<Target>,
}

/// Options of `deploy`.
#[derive(Debug, Args)]
pub(crate) struct DeployOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The hosts
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<Target>,
}

/// Options of `reattach`.
#[derive(Debug, Args)]
pub(crate) struct ReattachOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    /// Print events as JSON lines, the result last, instead of the output; or the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End the session and its command instead
    #[arg(long, requires = "name")]
    pub(crate) end: bool,
    /// The session [default: list them]
    #[arg(value_name = "SESSION")]
    pub(crate) name: Option<String>,
}

/// Options of `tools`.
#[derive(Debug, Args)]
pub(crate) struct ToolsOptions {
    #[command(flatten)]
    pub(crate) session: SessionOptions,
    /// Print JSON: one line for each tool, as in `tools/index`
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a page for people, Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) doc: bool,
    /// Print what a model is told, in the format of OpenAI's API
    #[arg(long, conflicts_with_all = ["json", "doc"])]
    pub(crate) openai: bool,
    /// Print what a model is told, in the format of Anthropic's API
    #[arg(long, conflicts_with_all = ["json", "doc", "openai"])]
    pub(crate) anthropic: bool,
    /// Where they shall run: [user@]host[:port], or an alias of ssh_config [default: this machine]
    #[arg(value_name = "HOST")]
    pub(crate) host: Option<Target>,
}

/// Options of `remotes`.
#[derive(Debug, Args)]
pub(crate) struct RemotesOptions {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be asked about the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read config.yaml and sandbox.yaml as every command does, and say what is wrong
    Check,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// The page of one command, such as `exec` or `policy show` [default: that of olliesrv]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Vec<String>,
    /// Where to write olliesrv.1 and a page for each command
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_options_do_not_contradict_each_other() {
        super::Options::command().debug_assert();
    }
}
