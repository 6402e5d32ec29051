//! An agent between a model and hands that follow a script, on paused time:
//! a wait of an hour takes no time, and its length can be asserted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use ollie_agent::{
    Agent, Backend, BackendError, CallEnd, Checkpoint, Chunk, Config, Delta, DeltaStream, Entry,
    Event, Handle, Hands, HandsError, Hooks, Limits, Model, ModelCall, Notice, Outcome, Parallel,
    Request, Sampling, ShellEnd, StopReason, ToolDef, TurnEnd, Visible,
};
use ollie_protocol::Stream;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// One step of a scripted stream.
#[derive(Debug)]
pub(crate) enum Step {
    Delta(Delta),
    Wait(Duration),
    Fail(BackendError),
    Forever(Delta),
}

/// What a request gets.
#[derive(Debug)]
pub(crate) enum Answer {
    Stream(Vec<Step>),
    Refuse(BackendError),
}

pub(crate) fn text(text: &str) -> Step {
    Step::Delta(Delta::Text(text.into()))
}

pub(crate) fn stop(reason: StopReason) -> Step {
    Step::Delta(Delta::Stop(reason))
}

/// A reply that says this and is done.
pub(crate) fn says(it: &str) -> Answer {
    Answer::Stream(vec![text(it), stop(StopReason::End)])
}

/// A reply that makes these calls: name and arguments.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Answer {
    let steps = calls
        .iter()
        .zip(0..)
        .flat_map(|((name, arguments), index)| {
            [
                Step::Delta(Delta::CallStart {
                    index,
                    id: String::new(),
                    name: (*name).into(),
                }),
                Step::Delta(Delta::CallArguments {
                    index,
                    fragment: (*arguments).into(),
                }),
            ]
        });
    let end = [stop(StopReason::ToolCalls)];
    Answer::Stream(steps.chain(end).collect())
}

/// What was asked: system prompt, entries, names of tools.
pub(crate) type Asked = (String, Vec<Entry>, Vec<String>);

#[derive(Debug, Default)]
pub(crate) struct Model1 {
    script: Mutex<VecDeque<Answer>>,
    pub(crate) asked: Mutex<Vec<Asked>>,
}

impl Backend for Model1 {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn stream<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<DeltaStream, BackendError>> {
        assert!(request.history.awaits_reply(), "{:?}", request.history);
        self.asked.lock().unwrap().push((
            request.system.to_owned(),
            request.history.entries().cloned().collect(),
            request.tools.iter().map(|tool| tool.name.clone()).collect(),
        ));
        let answer = self.script.lock().unwrap().pop_front();
        async move {
            let steps = match answer {
                None => return Err(BackendError::Exhausted),
                Some(Answer::Refuse(error)) => return Err(error),
                Some(Answer::Stream(steps)) => steps,
            };
            let stream = stream::iter(steps).flat_map(|step| match step {
                Step::Delta(delta) => stream::iter([Ok(delta)]).boxed(),
                Step::Fail(error) => stream::iter([Err(error)]).boxed(),
                Step::Forever(delta) => stream::repeat_with(move || Ok(delta.clone())).boxed(),
                Step::Wait(time) => sleep(time)
                    .into_stream()
                    .filter_map(|()| async { None })
                    .boxed(),
            });
            Ok(stream.boxed())
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, BackendError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

/// Tools that take as many seconds as their argument `s` says: `look` only
/// reads, `touch` writes, `fail` fails, `flood` writes megabytes.
#[derive(Debug, Default)]
pub(crate) struct Hands1 {
    /// Begin and end of each call: name, arguments, seconds since the start.
    pub(crate) log: Mutex<Vec<(String, f32)>>,
    pub(crate) hooks: Mutex<Vec<(String, String)>>,
    pub(crate) lists_after: Duration,
    pub(crate) start: Mutex<Option<Instant>>,
}

impl Hands1 {
    fn note(&self, what: String) {
        let start = *self.start.lock().unwrap().get_or_insert_with(Instant::now);
        let at = start.elapsed().as_secs_f32();
        self.log.lock().unwrap().push((what, at));
    }
}

struct Cancelled<'a>(&'a Hands1, Option<String>);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(what) = self.1.take() {
            self.0.note(format!("cancel {what}"));
        }
    }
}

pub(crate) fn tool(name: &str, parallel: Parallel) -> ToolDef {
    ToolDef {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        parallel,
    }
}

impl Hands for Hands1 {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<ToolDef>, HandsError>> {
        async {
            if !self.lists_after.is_zero() {
                sleep(self.lists_after).await;
            }
            Ok(vec![
                tool("look", Parallel::Read),
                tool("touch", Parallel::Write),
                tool("fail", Parallel::Read),
                tool("flood", Parallel::Write),
                tool("hidden", Parallel::Read),
            ])
        }
        .boxed()
    }

    fn call<'a>(
        &'a self,
        call: &'a ModelCall,
        output: &'a mut (dyn FnMut(Chunk) + Send),
    ) -> BoxFuture<'a, CallEnd> {
        async move {
            let arguments = call.object().unwrap();
            let seconds = arguments.get("s").and_then(serde_json::Value::as_u64);
            let seconds = seconds.unwrap_or(0);
            let what = format!("{} {}", call.name, call.arguments);
            self.note(format!("begin {what}"));
            let mut cancelled = Cancelled(self, Some(what.clone()));
            let mut say = |text: &str| {
                output(Chunk {
                    stream: Stream::Stdout,
                    data: Bytes::copy_from_slice(text.as_bytes()),
                });
            };
            if call.name == "flood" {
                for _ in 0..4096 {
                    say(&"x".repeat(1024));
                }
            } else {
                say(&format!("<{}>", call.name));
            }
            sleep(Duration::from_secs(seconds)).await;
            cancelled.1 = None;
            self.note(format!("end {what}"));
            if call.name == "fail" {
                Outcome::error("it failed").into()
            } else {
                Outcome::ok(format!("result of {what}")).into()
            }
        }
        .boxed()
    }

    fn shell<'a>(
        &'a self,
        command: &'a str,
        stdin: Bytes,
        _limit: Duration,
    ) -> BoxFuture<'a, Result<ShellEnd, HandsError>> {
        let stdin = String::from_utf8(stdin.to_vec()).unwrap();
        self.hooks.lock().unwrap().push((command.into(), stdin));
        // "STATUS TEXT": the text comes on standard error if it blocks.
        let (status, said) = command.split_once(' ').unwrap();
        let status: u8 = status.parse().unwrap();
        let (stdout, stderr) = if status == 0 { (said, "") } else { ("", said) };
        let end = ShellEnd {
            status: (status != 255).then_some(status),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        async { Ok(end) }.boxed()
    }
}

pub(crate) struct World {
    pub(crate) model: Arc<Model1>,
    pub(crate) hands: Arc<Hands1>,
    pub(crate) agent: Handle,
    notices: mpsc::UnboundedReceiver<Notice>,
    /// Everything that was told so far.
    pub(crate) events: Vec<Event>,
    pub(crate) saved: Checkpoint,
}

pub(crate) fn config() -> Config {
    Config {
        session: "s1".into(),
        agent: "default".into(),
        model: "m".into(),
        system: "You help.".into(),
        tools: Visible::Only(["look", "touch", "fail", "flood"].map(str::to_owned).into()),
        sampling: Sampling::default(),
        context_window: None,
        hooks: Hooks::default(),
        limits: Limits::default(),
    }
}

impl World {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::with(script, config(), Checkpoint::default(), Duration::ZERO)
    }

    pub(crate) fn with(
        script: impl IntoIterator<Item = Answer>,
        config: Config,
        from: Checkpoint,
        lists_after: Duration,
    ) -> Self {
        let model = Arc::new(Model1 {
            script: Mutex::new(script.into_iter().collect()),
            asked: Mutex::default(),
        });
        let hands = Arc::new(Hands1 {
            lists_after,
            ..Hands1::default()
        });
        let (sender, notices) = mpsc::unbounded_channel();
        let agent = Agent::spawn(model.clone(), hands.clone(), config, from, move |notice| {
            let _ = sender.send(notice);
        });
        Self {
            model,
            hands,
            agent,
            notices,
            events: Vec::new(),
            saved: Checkpoint::default(),
        }
    }

    /// Waits for the next event, at most a day of paused time.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let day = Duration::from_secs(86_400);
            match timeout(day, self.notices.recv()).await {
                Ok(Some(Notice::Checkpoint(checkpoint))) => self.saved = checkpoint,
                Ok(Some(Notice::Event(event))) => {
                    self.events.push(event.clone());
                    return event;
                }
                Ok(None) => panic!("the agent ended: {:#?}", self.events),
                Err(_) => panic!("nothing happens any more: {:#?}", self.events),
            }
        }
    }

    pub(crate) async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next().await;
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Gives a prompt and waits for the end of its turn.
    pub(crate) async fn turn(&mut self, prompt: &str) -> TurnEnd {
        self.agent.prompt(prompt).unwrap();
        self.turn_end().await
    }

    pub(crate) async fn turn_end(&mut self) -> TurnEnd {
        match self.until(|it| matches!(it, Event::Turn { .. })).await {
            Event::Turn { outcome } => outcome,
            _ => unreachable!(),
        }
    }

    /// The history, in words.
    pub(crate) fn history(&self) -> Vec<String> {
        self.agent.history().entries().flat_map(words).collect()
    }

    /// What was told in sentences, and errors.
    pub(crate) fn told(&self) -> String {
        let told = self.events.iter().filter_map(|event| match event {
            Event::Info { text } | Event::Error { text } => Some(text.as_str()),
            Event::Retry { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        told.collect::<Vec<_>>().join("\n")
    }

    /// What the person has seen of the replies since the last repetition.
    pub(crate) fn seen(&self) -> String {
        let again = |event: &Event| matches!(event, Event::Retry { .. });
        let from = self.events.iter().rposition(again).unwrap_or(0);
        let texts = self
            .events
            .iter()
            .skip(from)
            .filter_map(|event| match event {
                Event::Assistant { text } => Some(text.as_str()),
                _ => None,
            });
        texts.collect()
    }
}

fn words(entry: &Entry) -> Vec<String> {
    match entry {
        Entry::User { text } => vec![format!("user: {text}")],
        Entry::Note { text } => vec![format!("note: {text}")],
        Entry::Summary { text } => vec![format!("summary: {text}")],
        Entry::Reply(reply) => {
            let text = (!reply.text.is_empty()).then(|| format!("reply: {}", reply.text));
            let calls = reply.calls.iter().map(|it| {
                let mark = if it.outcome.is_error { "!" } else { "" };
                format!("{} -> {mark}{}", it.call.name, it.outcome.content)
            });
            text.into_iter().chain(calls).collect()
        }
    }
}
