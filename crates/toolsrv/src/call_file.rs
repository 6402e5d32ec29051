use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Refusal};
use ollie_exec::Command;
use ollie_protocol::{CallReader, Octets, ShellArgs, ToolCall, limits};
use tokio::sync::{Notify, watch};

use crate::call::{Call, Held, PATHS};
use crate::driver;
use crate::session::Session;
use crate::stream::EventStream;

/// The open half of `proc/new` and of `proc/new.bg`: takes a tool call, then
/// standard input. From the first come events, and dropping it cancels the
/// call; from the second comes the call's id, and the call goes on.
///
/// The write that completes the call takes no more than the call: its count
/// says where the standard input begins that came with it.
pub(crate) struct CallFile {
    session: Arc<Session>,
    background: bool,
    state: Mutex<State>,
    /// True once the call has begun or was refused.
    ready: watch::Sender<bool>,
}

enum State {
    /// A call that is not complete yet.
    Collecting(CallReader),
    /// A write is starting the call.
    Starting,
    /// The call runs, or ran.
    Begun(Begun),
    /// The call was refused; every later request says why.
    Refused(Refusal),
}

#[derive(Clone)]
enum Begun {
    Foreground(Arc<EventStream>),
    Background(Arc<Call>),
}

impl Begun {
    fn call(&self) -> &Arc<Call> {
        match self {
            Self::Foreground(stream) => stream.call(),
            Self::Background(call) => call,
        }
    }
}

impl CallFile {
    pub(crate) fn new(session: &Arc<Session>, background: bool) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            background,
            state: Mutex::new(State::Collecting(CallReader::default())),
            ready: watch::Sender::new(false),
        })
    }

    async fn take(self: Arc<Self>, data: Bytes) -> Result<u32, Refusal> {
        let whole = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if let Some(begun) = self.begun()? {
            let call = begun.call();
            if data.is_empty() {
                call.end_stdin();
                return Ok(0);
            }
            // The newline that ends a line of JSON may come in a write of its own.
            if !call.spec().stdin && data.iter().all(u8::is_ascii_whitespace) {
                return Ok(whole);
            }
            return call.stdin()?.write(data).await;
        }
        // Nothing is taken before that, so a flush leaves the file as it was.
        self.session.decided().await;
        let Some((call, taken)) = self.collect(&data)? else {
            return Ok(whole);
        };
        // A task of its own: a flush of this write must not leave a call that
        // has half begun.
        tokio::spawn(Arc::clone(&self).begin(call));
        self.wait().await;
        self.begun().map(|_| taken)
    }

    /// Adds to the JSON. Once it is complete: the call, and how many bytes of
    /// `data` belong to it.
    fn collect(&self, data: &[u8]) -> Result<Option<(ToolCall, u32)>, Refusal> {
        let mut state = self.state();
        let State::Collecting(reader) = &mut *state else {
            return Err(Refusal::new("the call is being started"));
        };
        match reader.push(data) {
            Ok(None) => Ok(None),
            Ok(Some((call, taken))) => {
                *state = State::Starting;
                Ok(Some((call, u32::try_from(taken).unwrap_or(u32::MAX))))
            }
            Err(error) => {
                let refusal = refused(&error);
                *state = State::Refused(refusal.clone());
                drop(state);
                self.ready.send_replace(true);
                Err(refusal)
            }
        }
    }

    async fn begin(self: Arc<Self>, call: ToolCall) {
        let state = match self.start(call).await {
            Ok(begun) => State::Begun(begun),
            Err(refusal) => State::Refused(refusal),
        };
        *self.state() = state;
        self.ready.send_replace(true);
    }

    async fn start(&self, call: ToolCall) -> Result<Begun, Refusal> {
        let call = start(&self.session, call, self.background).await?;
        Ok(if self.background {
            tokio::spawn(driver::drive_alone(Arc::clone(&call)));
            Begun::Background(call)
        } else {
            let gone = Arc::new(Notify::new());
            tokio::spawn(driver::drive(Arc::clone(&call), Arc::clone(&gone)));
            Begun::Foreground(Arc::new(EventStream::new(call, gone)))
        })
    }

    /// Returns when the call has begun or was refused.
    async fn wait(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as `self`.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// The call if it has begun.
    fn begun(&self) -> Result<Option<Begun>, Refusal> {
        match &*self.state() {
            State::Begun(begun) => Ok(Some(begun.clone())),
            State::Refused(refusal) => Err(refusal.clone()),
            State::Collecting(_) | State::Starting => Ok(None),
        }
    }

    async fn give(self: Arc<Self>, offset: u64, count: u32) -> Result<Bytes, Refusal> {
        self.wait().await;
        match self.begun()? {
            Some(Begun::Foreground(stream)) => stream.read(count).await,
            Some(Begun::Background(call)) => {
                let line = Bytes::from(format!("{}\n", call.id()));
                let start = usize::try_from(offset).map_or(line.len(), |at| at.min(line.len()));
                let end = start.saturating_add(count as usize).min(line.len());
                Ok(line.slice(start..end))
            }
            None => Ok(Bytes::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for CallFile {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(self.give(offset, count))
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(self.take(data))
    }
}

/// An error with its cause, as the text of an answer.
fn refused(error: &dyn std::error::Error) -> Refusal {
    let cause = error.source().map(|cause| format!(": {cause}"));
    Refusal::new(format!("{error}{}", cause.unwrap_or_default()))
}

/// Starts a call of the one tool there is.
async fn start(
    session: &Arc<Session>,
    call: ToolCall,
    background: bool,
) -> Result<Arc<Call>, Refusal> {
    if call.tool != "shell" {
        return Err(Refusal::new(format!(
            "no tool named {:?} here: there is shell",
            call.tool
        )));
    }
    let argv = ShellArgs::parse(&call.args).map_err(|error| refused(&error))?;
    let sandbox = session.decided().await;
    let confinement = sandbox
        .confinement
        .as_ref()
        .map_err(|reason| Refusal::new(format!("no call is run without a sandbox: {reason}")))?;
    let cwd = match &call.cwd {
        None => session.cwd.clone(),
        Some(cwd) => session.cwd.join(Path::new(cwd.as_os_str())),
    };
    let mut env = confinement.env.clone();
    if !sandbox.policy.drops("PWD") {
        env.extend(pwd(&cwd));
    }
    let cwd = Octets::from(cwd.into_os_string());
    for (name, value) in &call.env {
        let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
        env.retain(|known| !known.as_bytes().starts_with(&entry[..=name.len()]));
        env.push(entry.into());
    }
    let grace = call.grace_ms.map_or(limits::GRACE.as_millis(), u128::from);
    let command = Command {
        argv: argv.clone(),
        env,
        cwd: cwd.clone(),
        policy: confinement.policy,
        grace_ms: u64::try_from(grace).unwrap_or(u64::MAX),
    };
    // Before anything is started: a second call of this id must not run, not
    // even for a moment.
    let claim = session.calls.claim(&call.id)?;
    let running = session
        .spawner
        .spawn(&command, call.stdin)
        .await
        .map_err(|error| refused(&error))?;
    let held = Held {
        sandbox: Arc::clone(sandbox),
        report: confinement.report.clone(),
    };
    let path = session.fresh_paths(PATHS);
    let call = Call::new(path, call, argv, cwd, held, running, background);
    claim.redeem(&call);
    Ok(call)
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

#[cfg(test)]
mod tests {
    use super::pwd;

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
}
