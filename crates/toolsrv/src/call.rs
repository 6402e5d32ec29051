use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{BufMut as _, Bytes, BytesMut};
use ninep_rs::Refusal;
use ollie_exec::{Control, Order, Running, Step};
use ollie_protocol::{
    CallId, CallState, CallStatus, Enforced, EventFormat, Exit, Failure, FailureKind, Octets,
    SandboxReport, Stream, ToolCall, ToolResult, Truncation, limits,
};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::log::Log;
use crate::pace::Pace;
use crate::plan::{Input, Plan, Question};
use crate::project::Watched;
use crate::session::Sandbox;
use crate::stdin::Stdin;

/// Qid paths of a call's directory and its files.
pub(crate) const PATHS: u64 = 16;

/// How much output is taken at once when nobody reads it.
const PUMP: usize = 64 * 1024;

/// How much of standard error is looked at for denials.
const STDERR_TAIL: usize = 8 * 1024;

/// One call, from its start until it is forgotten.
pub(crate) struct Call {
    spec: ToolCall,
    plan: Plan,
    held: Held,
    /// The line to its supervisor, until it is finished.
    control: Mutex<Option<Control>>,
    /// Whether it goes on without a reader of its events.
    background: AtomicBool,
    /// Whether nobody reads its events, so that its output has to be read all
    /// the same.
    unread: watch::Sender<bool>,
    /// Whether somebody has asked for its end.
    asked_to_end: watch::Sender<bool>,
    stdin: Option<Arc<Stdin>>,
    /// Whether the person approved of its running outside of the sandbox.
    let_out: AtomicBool,
    output: Mutex<Output>,
    phase: watch::Sender<Phase>,
    /// The process, once it runs: it may have ended before anybody looks.
    pid: OnceLock<u32>,
    /// Sent whenever there is more to see in the logs.
    grown: watch::Sender<()>,
    /// First of the qid paths of its directory.
    path: u64,
    began: OnceLock<Instant>,
    started_at: SystemTime,
    ended: Mutex<Ended>,
    result: OnceLock<ToolResult>,
}

/// What a call is held to.
pub(crate) struct Held {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) report: SandboxReport,
}

/// How far a call is. It only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The person does not let it out, so it is not started.
    Denied,
    /// It waits for the person's answer.
    Asking,
    /// It waits for its turn.
    Queued,
    /// The supervisor has not said yet whether it runs.
    Starting,
    /// It runs as this process.
    Running(u32),
    /// No process of it is left, as far as is known.
    Ended,
}

/// What has been read of the output so far, and where the rest comes from.
struct Output {
    /// Standard output and error, each until its end.
    pipes: [Option<Arc<pipe::Receiver>>; 2],
    both: Log,
    stdout: Log,
    stderr: Log,
    /// What toolsrv itself says.
    said: [Bytes; 2],
    /// Where output is read into, and again once its answer has gone: fresh
    /// memory for each piece costs more than to copy it.
    buffer: BytesMut,
    /// Whose turn it is, so that neither stream starves the other.
    turn: usize,
}

/// What is learned about the end on the way there.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) exit: Option<Exit>,
    pub(crate) failure: Option<Failure>,
    pub(crate) timed_out: bool,
    pub(crate) cancelled: bool,
    pub(crate) tree_ended: bool,
    pub(crate) survivors: u32,
    pub(crate) duration: Duration,
}

impl Call {
    /// `path` is the first of [`PATHS`] fresh qid paths.
    pub(crate) fn new(
        path: u64,
        spec: ToolCall,
        mut plan: Plan,
        held: Held,
        background: bool,
    ) -> Arc<Self> {
        let stdin = match std::mem::replace(&mut plan.input, Input::None) {
            Input::None => None,
            Input::Client => Some(Stdin::new()),
            Input::Given(data) => Some(Stdin::given(data)),
        };
        let phase = match plan.asked {
            Some(_) => Phase::Asking,
            None => Phase::Queued,
        };
        Arc::new(Self {
            spec,
            plan,
            held,
            control: Mutex::new(None),
            background: AtomicBool::new(background),
            unread: watch::Sender::new(background),
            asked_to_end: watch::Sender::new(false),
            stdin,
            let_out: AtomicBool::new(false),
            output: Mutex::new(Output {
                pipes: [None, None],
                both: Log::default(),
                stdout: Log::default(),
                stderr: Log::default(),
                said: Default::default(),
                buffer: BytesMut::new(),
                turn: 0,
            }),
            phase: watch::Sender::new(phase),
            pid: OnceLock::new(),
            grown: watch::Sender::new(()),
            path,
            began: OnceLock::new(),
            started_at: SystemTime::now(),
            ended: Mutex::default(),
            result: OnceLock::new(),
        })
    }

    /// What the person is asked, if anything: an event.
    pub(crate) fn ask(&self) -> Option<Vec<u8>> {
        let Question { call, digest } = self.plan.asked.as_ref()?;
        let asked = self.started_at.elapsed().unwrap_or_default();
        let left = match self.phase() {
            Phase::Asking => limits::ASK.saturating_sub(asked).as_millis(),
            _ => 0,
        };
        let line = format!(
            "{{\"type\":\"ask\",\"left_ms\":{left},\"digest\":\"{digest}\",\"call\":{call}}}\n"
        );
        Some(line.into_bytes())
    }

    /// Whether it may run outside of the sandbox: what is said first holds.
    pub(crate) fn rule(&self, approved: bool) -> Result<(), Refusal> {
        let ruled = self.phase.send_if_modified(|phase| {
            let asks = *phase == Phase::Asking;
            if asks {
                self.let_out.store(approved, Ordering::Relaxed);
                *phase = if approved {
                    Phase::Queued
                } else {
                    Phase::Denied
                };
            }
            asks
        });
        match ruled {
            true => Ok(()),
            false => Err(Refusal::new("this is decided already, or its time is up")),
        }
    }

    /// Waits for the person's answer; a no if there is none in time.
    pub(crate) async fn ruled(&self) -> bool {
        let mut phases = self.phases();
        let asks = self.phase() == Phase::Asking;
        if asks && timeout(limits::ASK, phases.changed()).await.is_err() {
            let _ = self.rule(false);
        }
        self.is_let_out()
    }

    /// Whether the person approved of its running outside of the sandbox.
    pub(crate) fn is_let_out(&self) -> bool {
        self.let_out.load(Ordering::Relaxed)
    }

    /// Its turn has come.
    pub(crate) fn begin(&self) {
        self.began.get_or_init(Instant::now);
        self.set_phase(Phase::Starting);
    }

    /// It has a process, or will have one in a moment.
    pub(crate) fn attach(&self, running: Running) {
        self.output().pipes = [Some(running.stdout.into()), Some(running.stderr.into())];
        if let (Some(stdin), Some(pipe)) = (&self.stdin, running.stdin) {
            stdin.feed(pipe);
        }
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        *control = Some(running.control);
    }

    /// What toolsrv itself says in the place of a command.
    pub(crate) fn say(&self, stream: Stream, text: String) {
        let index = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        self.output().said[index] = text.into();
    }

    /// Whether it has a standard input, whoever writes that.
    pub(crate) fn has_stdin(&self) -> bool {
        self.stdin.is_some()
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn id(&self) -> &CallId {
        &self.spec.id
    }

    pub(crate) fn path(&self) -> u64 {
        self.path
    }

    pub(crate) fn spec(&self) -> &ToolCall {
        &self.spec
    }

    pub(crate) fn events(&self) -> EventFormat {
        self.spec.events
    }

    /// The line to its supervisor; none once it is finished.
    pub(crate) fn control(&self) -> Option<Control> {
        let control = self.control.lock();
        control.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For how long it has run.
    pub(crate) fn duration(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// From now on it goes on when its reader goes away.
    pub(crate) fn detach(&self) {
        self.background.store(true, Ordering::Relaxed);
    }

    /// Its reader has gone away. Whether it goes on all the same.
    pub(crate) fn lose_reader(&self) -> bool {
        let goes_on = self.background.load(Ordering::Relaxed);
        if goes_on {
            self.unread.send_replace(true);
        }
        goes_on
    }

    /// Whether nobody reads its events.
    pub(crate) fn is_unread(&self) -> bool {
        *self.unread.borrow()
    }

    /// Whether it goes on without a reader.
    pub(crate) fn is_background(&self) -> bool {
        self.background.load(Ordering::Relaxed)
    }

    /// What the files `proc/index` and `status` say of it.
    pub(crate) fn status(&self) -> CallStatus {
        let (state, pid) = match self.phase() {
            _ if self.is_finished() => (CallState::Finished, None),
            Phase::Asking => (CallState::Asking, None),
            Phase::Queued => (CallState::Queued, None),
            Phase::Starting => (CallState::Starting, None),
            Phase::Running(pid) => (CallState::Running, Some(pid)),
            Phase::Denied | Phase::Ended => (CallState::Ended, None),
        };
        let since_epoch = self.started_at.duration_since(SystemTime::UNIX_EPOCH);
        CallStatus {
            id: self.spec.id.clone(),
            tool: self.spec.tool.clone(),
            state,
            background: self.is_background(),
            started: since_epoch.map_or(0, |since| since.as_secs()),
            pid,
            exit: self.result().and_then(|result| result.exit),
            logs: None,
            result: None,
        }
    }

    pub(crate) fn grace(&self) -> Duration {
        self.spec
            .grace_ms
            .map_or(limits::GRACE, Duration::from_millis)
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// A receiver that sees every later phase.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// The process of the command, if it has ever run.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid.get().copied()
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        if let Phase::Running(pid) = phase {
            self.pid.get_or_init(|| pid);
        }
        self.phase.send_replace(phase);
    }

    pub(crate) fn ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the call: asks the supervisor to end the tree, or sees to it that
    /// nothing is started.
    pub(crate) async fn end(&self, grace: Duration) {
        self.asked_to_end.send_replace(true);
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        // An order that cannot be delivered finds nobody to obey it, and then
        // the driver learns of the supervisor's death.
        if let Some(control) = self.control() {
            let _ = control.order(Order::End { grace_ms }).await;
        }
    }

    /// Whether somebody has asked for its end.
    pub(crate) fn was_asked_to_end(&self) -> bool {
        *self.asked_to_end.borrow()
    }

    /// Returns when somebody has asked for its end.
    pub(crate) async fn asked_to_end(&self) {
        let mut asked = self.asked_to_end.subscribe();
        // The sender lives as long as `self`.
        let _ = asked.wait_for(|asked| *asked).await;
    }

    /// Its standard input, if the client writes that.
    pub(crate) fn stdin(&self) -> Result<&Stdin, Refusal> {
        let stdin = self.stdin.as_deref().filter(|_| self.spec.stdin);
        stdin.ok_or(Refusal::new(
            "this call takes no standard input: set stdin in the tool call",
        ))
    }

    /// There will be no process that reads it.
    pub(crate) fn give_up_stdin(&self) {
        if let Some(stdin) = &self.stdin {
            stdin.give_up();
        }
    }

    /// Ends standard input.
    pub(crate) fn end_stdin(&self) {
        if let Some(stdin) = &self.stdin {
            stdin.end();
        }
    }

    /// Takes what a stream has ready, at most `count` bytes, and keeps a copy
    /// in the logs. `front` bytes before it are free for a header. `None`:
    /// nothing now.
    pub(crate) fn take_output(&self, front: usize, count: usize) -> Option<(Stream, BytesMut)> {
        let mut guard = self.output();
        let output = &mut *guard;
        for (index, stream) in [(0, Stream::Stdout), (1, Stream::Stderr)] {
            let length = output.said[index].len().min(count);
            if length > 0 {
                let said = output.said[index].split_to(length);
                self.keep(output, stream, &said);
                let mut data = BytesMut::zeroed(front);
                data.extend_from_slice(&said);
                return Some((stream, data));
            }
        }
        let first = output.turn;
        for index in [first, 1 - first] {
            let Some(pipe) = output.pipes[index].clone() else {
                continue;
            };
            let name = match index {
                0 => Stream::Stdout,
                _ => Stream::Stderr,
            };
            // As much room as there are bytes: the buffer is not cleared
            // first and not too large for a short line.
            let waiting = rustix::io::ioctl_fionread(&*pipe).unwrap_or(0);
            let room = usize::try_from(waiting).unwrap_or(count).clamp(1, count);
            output.buffer.clear();
            output.buffer.reserve(front + room);
            output.buffer.resize(front, 0);
            match pipe.try_read_buf(&mut (&mut output.buffer).limit(room)) {
                Ok(0) => output.pipes[index] = None,
                Ok(_) => {
                    let data = output.buffer.split();
                    self.keep(output, name, &data[front..]);
                    output.turn = 1 - index;
                    return Some((name, data));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => output.pipes[index] = None,
            }
        }
        if output.pipes.iter().all(Option::is_none) {
            output.buffer = BytesMut::new();
        }
        None
    }

    fn keep(&self, output: &mut Output, stream: Stream, data: &[u8]) {
        output.both.push(data);
        match stream {
            Stream::Stdout => output.stdout.push(data),
            Stream::Stderr => output.stderr.push(data),
        }
        self.grown.send_replace(());
    }

    /// Returns when output may be ready, or a stream has ended. For ever if
    /// both have.
    pub(crate) async fn output_ready(&self) {
        let [stdout, stderr] = self.output().pipes.clone();
        let wait = async |pipe: Option<Arc<pipe::Receiver>>| match pipe {
            Some(pipe) if pipe.readable().await.is_ok() => {}
            _ => std::future::pending().await,
        };
        tokio::select! {
            () = wait(stdout) => {}
            () = wait(stderr) => {}
        }
    }

    /// A future that is ready once the logs have grown, or the call has
    /// finished, after this was called.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut grown = self.grown.subscribe();
        async move {
            // The sender lives as long as the call, whose logs are being read.
            let _ = grown.changed().await;
        }
    }

    /// Reads the output into the logs for ever, once nobody else does: without
    /// it the call would stop at the first full pipe.
    pub(crate) async fn pump(&self) {
        let mut unread = self.unread.subscribe();
        // Both senders live as long as `self`.
        let _ = unread.wait_for(|unread| *unread).await;
        let mut phases = self.phases();
        let mut pace = Pace::new(Instant::now());
        loop {
            let phase = *phases.borrow_and_update();
            while let Some((_, data)) = self.take_output(0, PUMP) {
                // A command that never stops writing must not keep everything
                // else from running.
                match pace.after(data.len(), Instant::now()) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => tokio::task::yield_now().await,
                }
            }
            tokio::select! {
                _ = phases.changed() => {}
                () = self.output_ready(), if phase > Phase::Starting => {}
            }
        }
    }

    /// Reads the rest of the output into the logs, for a call that nobody
    /// reads from any more.
    pub(crate) fn drain(&self) {
        while self.take_output(0, PUMP).is_some() {}
    }

    /// One of the logs.
    pub(crate) fn with_log<T>(&self, which: Option<Stream>, read: impl FnOnce(&Log) -> T) -> T {
        let output = self.output();
        read(match which {
            None => &output.both,
            Some(Stream::Stdout) => &output.stdout,
            Some(Stream::Stderr) => &output.stderr,
        })
    }

    /// Bytes of output kept in memory.
    pub(crate) fn kept(&self) -> usize {
        let output = self.output();
        output.both.kept() + output.stdout.kept() + output.stderr.kept()
    }

    /// Whether the result is there.
    pub(crate) fn is_finished(&self) -> bool {
        self.result.get().is_some()
    }

    /// The result, if it is there.
    pub(crate) fn result(&self) -> Option<&ToolResult> {
        self.result.get()
    }

    /// Makes the result, once: the tree has ended and its output was read.
    pub(crate) fn finish(&self) -> &ToolResult {
        let result = self.result.get_or_init(|| {
            let ended = std::mem::take(&mut *self.ended());
            let output = self.output();
            let ok = ended.exit == Some(Exit::Code(0))
                && ended.failure.is_none()
                && !ended.timed_out
                && !ended.cancelled;
            let (content, truncation) = match self.spec.events {
                EventFormat::Raw if !self.is_unread() => (String::new(), None),
                EventFormat::Raw | EventFormat::Json => {
                    let (text, kept) = output.both.text(self.plan.content_max, self.id());
                    let total = output.both.total();
                    let truncation = (kept < total).then(|| Truncation {
                        kept,
                        total,
                        rest: format!("proc/{}/output", self.spec.id),
                    });
                    (text, truncation)
                }
            };
            let mut sandbox = self.held.report.clone();
            if self.is_let_out() {
                sandbox.enforced = Enforced::None;
                sandbox.approved = true;
                sandbox.degraded.clear();
                sandbox.notes.clear();
            }
            sandbox.project_changed = self
                .held
                .sandbox
                .watched
                .as_ref()
                .is_some_and(Watched::changed);
            let failed_by_itself = !ended.timed_out && !ended.cancelled && !ok;
            if failed_by_itself && sandbox.enforced != Enforced::None {
                let explained = self.held.sandbox.policy.denials(
                    &self.plan.argv,
                    Path::new(self.plan.cwd.as_os_str()),
                    &output.stderr.last(STDERR_TAIL),
                );
                sandbox.denied = explained.denials;
                sandbox.unexplained = explained.unexplained;
            }
            ToolResult {
                id: self.spec.id.clone(),
                tool: self.spec.tool.clone(),
                variant: self.plan.variant,
                host: self.held.sandbox.hostname.clone(),
                ok,
                exit: ended.exit,
                failure: ended.failure,
                content,
                truncation,
                duration_ms: u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX),
                timed_out: ended.timed_out,
                cancelled: ended.cancelled,
                tree_ended: ended.tree_ended,
                survivors: ended.survivors,
                sandbox,
            }
        });
        // What is finished is remembered for long, and holds no descriptors.
        self.output().pipes = [None, None];
        self.give_up_stdin();
        let control = self.control.lock();
        control.unwrap_or_else(PoisonError::into_inner).take();
        self.grown.send_replace(());
        result
    }

    /// What a start that failed means to the caller.
    pub(crate) fn failure(&self, step: Step, errno: i32) -> Failure {
        let program = self.plan.argv.first().map(Octets::to_string_lossy);
        let program = program.unwrap_or_default();
        let reason = std::io::Error::from_raw_os_error(errno);
        let not_found = rustix::io::Errno::NOENT.raw_os_error() == errno
            || rustix::io::Errno::NOTDIR.raw_os_error() == errno;
        let stale = rustix::io::Errno::STALE.raw_os_error() == errno;
        let (kind, message) = match step {
            Step::Cwd if self.plan.asked.is_some() && stale => (
                FailureKind::WorkingDirectory,
                "not started: the working directory is another one than the person was shown"
                    .to_owned(),
            ),
            Step::Cwd => (
                FailureKind::WorkingDirectory,
                format!("cannot enter {}: {reason}", self.plan.cwd.to_string_lossy()),
            ),
            Step::Exec if not_found => (
                FailureKind::NotFound,
                format!(
                    "{program}: no such program on {}",
                    self.held.sandbox.hostname
                ),
            ),
            Step::Exec => (
                FailureKind::NotExecutable,
                format!("cannot execute {program}: {reason}"),
            ),
            Step::Sandbox => (
                FailureKind::NoSandbox,
                format!("the sandbox could not be applied, so nothing was started: {reason}"),
            ),
            _ => (
                FailureKind::System,
                format!("cannot start {program} ({step:?}): {reason}"),
            ),
        };
        Failure { kind, message }
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
