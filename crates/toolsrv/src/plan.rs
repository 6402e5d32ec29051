//! From a tool call to what is done.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use ninep_rs::Refusal;
use ollie_exec::Command;
use ollie_protocol::{Asked, Enforced, Octets, Parallel, Run, ShellArgs, ToolCall, auth, limits};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::call_file::refused;
use crate::native::Native;
use crate::session::{Confinement, Session};
use crate::tool::Tool;

/// The longest value of `OLLIE_ARG_<NAME>`, in bytes; the kernel takes 128 KiB
/// (execve(2)).
const VARIABLE_MAX: usize = 64 * 1024;
/// All of them together.
const VARIABLES_MAX: usize = 512 * 1024;

/// A call that has been understood: its arguments fit, and what it runs can be
/// run here.
pub(crate) struct Plan {
    /// Which variant of the tool it is.
    pub(crate) variant: usize,
    /// The most bytes of output in its result.
    pub(crate) content_max: usize,
    /// The command, for explanations; a tool of toolsrv itself has its name.
    pub(crate) argv: Vec<Octets>,
    pub(crate) cwd: Octets,
    /// After which time it is ended.
    pub(crate) timeout: Option<Duration>,
    /// Whether and how it waits for its turn.
    pub(crate) turn: Option<Parallel>,
    pub(crate) input: Input,
    /// What the person is asked before it runs.
    pub(crate) asked: Option<Question>,
}

/// What a person has to see of a call.
pub(crate) struct Question {
    /// An [`Asked`], JSON.
    pub(crate) call: String,
    /// SHA-256 of it.
    pub(crate) digest: String,
}

/// Where standard input comes from.
pub(crate) enum Input {
    /// `/dev/null`.
    None,
    /// The client writes it.
    Client,
    /// It is known.
    Given(Bytes),
}

/// What is done.
pub(crate) enum Work {
    /// A command is run; the descriptor is that of a pinned directory.
    Process(Box<Command>, Option<OwnedFd>),
    /// Nothing, as a call that would have asked has no directory to run in.
    Nowhere(Errno),
    /// toolsrv does it itself.
    Native(Native),
}

impl Plan {
    /// Understands a call of `tool`.
    pub(crate) async fn new(
        session: &Session,
        tool: &Tool,
        call: &ToolCall,
        background: bool,
    ) -> Result<(Self, Work), Refusal> {
        let confinement = session.decided().await.confinement()?;
        let args = tool
            .spec
            .arguments(&call.args)
            .map_err(|error| refused(&error))?;
        let choice = tool.choice(session).await;
        let Some(variant) = choice.variant else {
            return Err(Refusal::new(format!(
                "the tool {} cannot be used on this host: {}",
                tool.spec.name, choice.reason
            )));
        };
        let mut plan = Self {
            variant,
            content_max: tool.spec.content_max(),
            argv: vec![tool.spec.name.as_str().into()],
            cwd: session.directory(call.cwd.as_ref()),
            timeout: (call.timeout_ms.map(Duration::from_millis))
                .or(tool.spec.timeout_s.map(Duration::from_secs)),
            turn: (call.queue && !background).then_some(tool.spec.parallel),
            input: Input::None,
            asked: None,
        };
        let run = tool.spec.variants.get(variant).map(|it| &it.run);
        let Some(run) = run else {
            return Err(Refusal::new("the tool has no variants"));
        };
        let shell = matches!(run, Run::Native(name) if name == "shell");
        if call.bypass.is_some() && !shell {
            return Err(Refusal::new(
                "bypass: of all tools shell alone can ask to run outside of the sandbox",
            ));
        }
        if let Run::Native(name) = run {
            if shell {
                return plan.shell(session, confinement, call, &args);
            }
            if call.stdin {
                return Err(takes_no_input(&tool.spec.name));
            }
            // What only looks at processes waits for nobody: a tool that
            // writes may be just what it looks at.
            plan.turn = None;
            let native = Native::parse(name, args, call)?;
            return Ok((plan, Work::Native(native)));
        }
        if call.stdin {
            return Err(takes_no_input(&tool.spec.name));
        }
        plan.argv = program(session, tool, run)?;
        let mut env = environment(session, confinement, &plan.cwd, call);
        env.extend(variables(&args));
        let input = serde_json::to_vec(&args)
            .map_err(|error| Refusal::new(format!("the arguments are no JSON: {error}")))?;
        plan.input = Input::Given(input.into());
        let command = plan.command(confinement, env, call);
        Ok((plan, Work::Process(command, None)))
    }

    /// Understands a call of `shell` that toolsrv makes itself: it goes on in
    /// the background.
    pub(crate) fn of_shell(session: &Session, call: &ToolCall) -> Result<(Self, Work), Refusal> {
        let plan = Self {
            variant: 0,
            content_max: limits::CONTENT_MAX,
            argv: Vec::new(),
            cwd: session.directory(call.cwd.as_ref()),
            timeout: None,
            turn: None,
            input: Input::None,
            asked: None,
        };
        let sandbox = session.sandbox().ok_or(Refusal::new("no policy yet"))?;
        plan.shell(session, sandbox.confinement()?, call, &call.args)
    }

    fn shell(
        mut self,
        session: &Session,
        confinement: &Confinement,
        call: &ToolCall,
        args: &Map<String, Value>,
    ) -> Result<(Self, Work), Refusal> {
        let args = ShellArgs::parse(args).map_err(|error| refused(&error))?;
        self.argv = args.argv().map_err(|error| refused(&error))?;
        if let Some(cwd) = &args.cwd {
            if cwd.as_bytes().is_empty() || cwd.as_bytes().contains(&0) {
                return Err(Refusal::new(
                    "shell: argument cwd: an empty path or one with a NUL byte",
                ));
            }
            let base = PathBuf::from(session.directory(call.cwd.as_ref()).as_os_str());
            self.cwd = base.join(cwd.as_os_str()).into_os_string().into();
        }
        if call.timeout_ms.is_none()
            && let Some(seconds) = args.timeout_s
        {
            self.timeout = Duration::try_from_secs_f64(seconds).ok();
        }
        self.input = match args.stdin {
            None if call.stdin => Input::Client,
            None => Input::None,
            Some(_) if call.stdin => {
                return Err(Refusal::new(
                    "shell: argument stdin: the call has a standard input of its own already",
                ));
            }
            Some(text) => Input::Given(text.into()),
        };
        // Without a sandbox there is nothing to ask for.
        let confined = confinement.report.enforced != Enforced::None;
        let reason = call.bypass.as_ref().filter(|_| confined);
        let directory = match reason.map(|_| self.pin()).transpose() {
            Ok(directory) => directory,
            Err(errno) => {
                self.turn = None;
                return Ok((self, Work::Nowhere(errno)));
            }
        };
        let env = environment(session, confinement, &self.cwd, call);
        if let Some(reason) = reason {
            self.asked = Some(self.ask(call, reason, &env)?);
        }
        let mut command = self.command(confinement, env, call);
        command.pinned = directory.is_some();
        Ok((self, Work::Process(command, directory)))
    }

    /// Opens the working directory, so that none but the one that is shown is
    /// entered, and calls it by its own name.
    fn pin(&mut self) -> Result<OwnedFd, Errno> {
        // To find `.` in it takes the right to enter it.
        let within = Path::new(self.cwd.as_os_str()).join(".");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(within, flags, Mode::empty())?;
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        self.cwd = rustix::fs::readlink(link, Vec::new())?.into_bytes().into();
        Ok(directory)
    }

    /// What a person has to see of it.
    fn ask(&self, call: &ToolCall, reason: &str, env: &[Octets]) -> Result<Question, Refusal> {
        let stdin = match &self.input {
            Input::None => None,
            Input::Given(data) => Some(String::from_utf8_lossy(data).into_owned()),
            Input::Client => {
                return Err(Refusal::new(
                    "bypass: give standard input in the argument stdin, so that the person sees it",
                ));
            }
        };
        if call.env.contains_key("PWD") {
            return Err(Refusal::new(
                "bypass: PWD is the working directory, which the person sees: leave it out of env",
            ));
        }
        let name = |entry: &Octets| {
            let name = entry.as_bytes().split(|&byte| byte == b'=').next();
            Octets::from(name.unwrap_or_default().to_vec())
        };
        let asked = Asked {
            id: call.id.clone(),
            reason: reason.to_owned(),
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            stdin,
            env: env.iter().map(name).collect(),
            set: call.env.keys().cloned().collect(),
        };
        // It has no map with keys that are not text, which is the one thing
        // that cannot be written.
        let call = serde_json::to_string(&asked).unwrap_or_default();
        if call.len() > limits::ASK_MAX {
            return Err(Refusal::new(
                "bypass: over 32 KiB, which is more than a person would read: ask for less",
            ));
        }
        let digest = auth::to_hex(&Sha256::digest(&call));
        Ok(Question { call, digest })
    }

    fn command(
        &self,
        confinement: &Confinement,
        env: Vec<Octets>,
        call: &ToolCall,
    ) -> Box<Command> {
        let grace = call.grace_ms.map_or(limits::GRACE.as_millis(), u128::from);
        Box::new(Command {
            argv: self.argv.clone(),
            env,
            cwd: self.cwd.clone(),
            pinned: false,
            policy: confinement.policy,
            grace_ms: u64::try_from(grace).unwrap_or(u64::MAX),
        })
    }
}

fn takes_no_input(tool: &str) -> Refusal {
    Refusal::new(format!(
        "{tool} gets its arguments on standard input: leave stdin out"
    ))
}

/// What a variant runs. No argument of the call is in it.
fn program(session: &Session, tool: &Tool, run: &Run) -> Result<Vec<Octets>, Refusal> {
    let words = |words: &[String]| words.iter().map(|word| word.as_str().into()).collect();
    match run {
        Run::Native(_) => Ok(Vec::new()),
        Run::Command(argv) => Ok(words(argv)),
        Run::Builtin(argv) => {
            let own = session.program.as_ref().ok_or(Refusal::new(
                "toolsrv does not know where it lies, so it cannot run its own tools",
            ))?;
            let mut all = vec![Octets::from(own.clone().into_os_string()), "builtin".into()];
            all.extend(words(argv));
            Ok(all)
        }
        Run::Script { sha256, args } => {
            let store = session.registry.store()?;
            let path = match (store.find(sha256), tool.scripts.get(sha256)) {
                (Some(path), _) => path,
                (None, Some(bytes)) => store
                    .put(sha256, bytes.as_bytes())
                    .map_err(|error| Refusal::new(format!("cannot keep a script: {error}")))?,
                (None, None) => {
                    return Err(Refusal::new(format!(
                        "the script of {} is not kept any more, or was changed: define the tool \
                         again",
                        tool.spec.name
                    )));
                }
            };
            let mut all = Vec::new();
            // Without a first line that names its interpreter the kernel
            // does not run it (execve(2)); shells then take it for their own.
            if !begins_with_interpreter(&path) {
                all.push("sh".into());
            }
            all.push(path.into_os_string().into());
            all.extend(words(args));
            Ok(all)
        }
    }
}

fn begins_with_interpreter(script: &Path) -> bool {
    let mut start = [0; 2];
    let read = std::fs::File::open(script)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"#!"
}

/// What a process of the call finds in its environment.
fn environment(
    session: &Session,
    confinement: &Confinement,
    cwd: &Octets,
    call: &ToolCall,
) -> Vec<Octets> {
    let mut env = confinement.env.clone();
    let dropped = session.sandbox().is_some_and(|it| it.policy.drops("PWD"));
    if !dropped {
        env.extend(pwd(Path::new(cwd.as_os_str())));
    }
    for (name, value) in &call.env {
        let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
        env.retain(|known| !known.as_bytes().starts_with(&entry[..=name.len()]));
        env.push(entry.into());
    }
    env
}

/// `PWD=` as a shell would have it: absolute and without `.` or `..`
/// (environ(7)). A `..` may lead anywhere, by a link, so with one in the path
/// there is no `PWD`.
fn pwd(cwd: &Path) -> Option<Octets> {
    if cwd.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let mut entry = OsString::from("PWD=");
    entry.push(cwd.components().collect::<PathBuf>());
    Some(entry.into())
}

/// `OLLIE_ARG_<NAME>=value` of each argument: text as it is, everything else
/// as JSON. What is too long, or holds a NUL byte, stands on standard input
/// alone.
fn variables(args: &Map<String, Value>) -> Vec<Octets> {
    let mut total = 0;
    args.iter()
        .filter_map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone().into_bytes(),
                Value::Object(_) => match serde_json::from_value::<Octets>(value.clone()) {
                    Ok(octets) => octets.as_bytes().to_vec(),
                    Err(_) => value.to_string().into_bytes(),
                },
                other => other.to_string().into_bytes(),
            };
            let name = format!("OLLIE_ARG_{}=", name.to_ascii_uppercase());
            let entry = [name.as_bytes(), &text].concat();
            let fits = text.len() <= VARIABLE_MAX && !text.contains(&0);
            if !fits || total + entry.len() > VARIABLES_MAX {
                return None;
            }
            total += entry.len();
            Some(entry.into())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pwd_has_neither_dots_nor_double_slashes() {
        for (cwd, expected) in [
            ("/home/u/project", Some("PWD=/home/u/project")),
            ("/home//u/./project/.", Some("PWD=/home/u/project")),
            ("/", Some("PWD=/")),
            ("/home/u/../v", None),
        ] {
            assert_eq!(pwd(cwd.as_ref()), expected.map(Into::into), "{cwd}");
        }
    }

    #[test]
    fn arguments_become_variables_as_they_are_or_as_json() {
        let args = serde_json::json!({
            "path": "a b\n", "count": 3, "list": [1], "octets": {"base64": "/w=="},
            "object": {"a": "b"}, "nul": "a\u{0}b", "long": "x".repeat(VARIABLE_MAX + 1),
        });
        let entries = variables(args.as_object().unwrap());
        let entries: Vec<_> = entries.iter().map(Octets::as_bytes).collect();
        for expected in [
            &b"OLLIE_ARG_PATH=a b\n"[..],
            b"OLLIE_ARG_COUNT=3",
            b"OLLIE_ARG_LIST=[1]",
            b"OLLIE_ARG_OCTETS=\xff",
            b"OLLIE_ARG_OBJECT={\"a\":\"b\"}",
        ] {
            assert!(entries.contains(&expected));
        }
        assert_eq!(entries.len(), 5);
    }
}
