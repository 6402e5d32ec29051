//! `olliesrv chat`: a person and an agent, on a terminal or between pipes.

use std::sync::Arc;

use ninep_rs::OpenMode;
use ollie_agent::{Event, TurnEnd};
use ollie_deploy::Connections;
use ollie_protocol::CallId;
use ollie_sessions::{SessionId, Sessions, Settings, Tree};
use tokio::time::{Duration, timeout};

use crate::answer::Answer;
use crate::askpass::{Asker, Restored};
use crate::chat_view::View;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::events::Events;
use crate::floor::Floor;
use crate::line::{Line, Lines};
use crate::options::ChatOptions;
use crate::signals::{Signals, Wish};
use crate::{exit, house, line, output, session, setup};

/// How long what was stopped may take to say so.
const PATIENCE: Duration = Duration::from_secs(5);

/// What lines that begin with a slash do.
const HELP: &str = "/quit leaves; /stop, /clear, /compact, /model M and every other word of the \
                    session's ctl; // begins a prompt with a slash";

/// Talks until the person leaves.
pub(crate) async fn run(options: &ChatOptions) -> Result<u8, Error> {
    let mut signals = Signals::new()?;
    // Also where a signal leaves the editor behind.
    let _restored = Restored::new(std::io::stdin()).ok();
    let floor = Arc::new(Floor::default());
    let (daemon, own) = match Daemon::find().await? {
        Some(daemon) => (daemon, None),
        None => {
            let own = Own::new(options, Arc::clone(&floor))?;
            (own.daemon().await?, Some(own))
        }
    };
    let (name, fresh) = match &options.session {
        Some(name) => {
            match daemon.walk(&format!("session/{name}")).await {
                Err(Error::NoFile(path)) => return Err(session::no_session(&daemon, &path).await),
                found => found?,
            };
            (name.clone(), false)
        }
        None => (daemon.make(session::settings(&options.new)?).await?, true),
    };
    let mut chat = Chat::open(&daemon, name, !fresh, floor).await?;
    let talked = chat.talk(&mut signals).await;
    chat.floor.close().await;
    let unused = fresh && !chat.spoken;
    if unused {
        // Nobody comes back to a session in which nothing was said.
        if let Ok(directory) = daemon.walk(&format!("session/{}", chat.session)).await {
            let _ = directory.remove().await;
        }
    }
    if let Some(own) = own {
        tokio::select! {
            () = own.sessions.end() => {}
            _ = signals.next() => {}
        }
        own.connections.close();
    }
    let status = talked?;
    if !unused && chat.view.is_terminal() {
        output::note(&format!(
            "the session is kept: olliesrv chat --session {}",
            chat.session
        ));
    }
    Ok(status)
}

/// Sessions of this process, where no daemon serves.
struct Own {
    sessions: Arc<Sessions>,
    connections: Arc<Connections>,
    /// It lives as long as ssh may have questions.
    _asker: Option<Asker>,
}

impl Own {
    fn new(options: &ChatOptions, floor: Arc<Floor>) -> Result<Self, Error> {
        let asker = Asker::on(&setup::own_paths()?.runtime, floor)?;
        let askpass = asker.as_ref().map(Asker::askpass);
        let connections = house::connections()?;
        let shared = Arc::clone(&connections);
        let house = house::house(
            &options.ground,
            Settings::default(),
            askpass,
            shared,
            line::is_terminal(),
        )?;
        let sessions = Sessions::new(house);
        if let Some(name) = &options.session {
            let id = SessionId::new(name.as_str()).map_err(Error::Sessions)?;
            sessions.restore_one(&id).map_err(|error| match error {
                ollie_sessions::Error::Unknown(session) => Error::UnknownSession {
                    session,
                    there: sessions.names().unwrap_or_default(),
                },
                error => Error::Sessions(error),
            })?;
        }
        Ok(Self {
            sessions,
            connections,
            _asker: asker,
        })
    }

    async fn daemon(&self) -> Result<Daemon, Error> {
        Daemon::own(Tree::new(Arc::clone(&self.sessions))).await
    }
}

/// The answer to what was asked, if anything was.
async fn yes(asked: &mut Option<Asked>) -> Result<bool, Error> {
    match asked {
        Some(asked) => asked.answer.is_yes().await,
        None => std::future::pending().await,
    }
}

/// What was shown, and waits for its answer.
struct Asked {
    id: CallId,
    digest: String,
    answer: Answer,
}

impl Asked {
    fn order(&self, yes: bool) -> String {
        let Self { id, digest, .. } = self;
        match yes {
            true => format!("approve {id} {digest}"),
            false => format!("deny {id}"),
        }
    }
}

/// One conversation.
struct Chat<'d> {
    daemon: &'d Daemon,
    session: String,
    events: Events,
    view: View,
    /// Whether a prompt was given.
    spoken: bool,
    /// Open while nobody reads lines.
    floor: Arc<Floor>,
    /// What is shown as soon as ssh asks nothing.
    next: Option<Option<Event>>,
}

impl<'d> Chat<'d> {
    async fn open(
        daemon: &'d Daemon,
        session: String,
        resumed: bool,
        floor: Arc<Floor>,
    ) -> Result<Self, Error> {
        let events = Events::from_now(daemon, &session).await?;
        let settings = daemon.text(&format!("session/{session}/cfg")).await?;
        let remote = settings
            .lines()
            .find_map(|line| line.strip_prefix("remote="))
            .filter(|remote| !remote.is_empty());
        let view = View::new(remote.is_some());
        if settings.lines().any(|line| line == "yolo=true") {
            output::note("this session's tools run without a sandbox (yolo)");
        }
        if resumed && view.is_terminal() {
            view.last(&daemon.text(&format!("session/{session}/chat")).await?)?;
        }
        // Of a new one it is told as soon as the host is there.
        if let (true, Some(remote)) = (resumed, remote) {
            let env = daemon.text(&format!("session/{session}/env")).await?;
            let cwd = env.lines().find_map(|line| line.strip_prefix("PRIME_CWD="));
            let there = format!("tools run on {remote} in {}", cwd.unwrap_or("~"));
            output::note(&crate::printable::printable(&there));
        }
        if view.is_terminal() {
            output::note("/help tells what else there is; Ctrl-D leaves");
        }
        Ok(Self {
            daemon,
            session,
            events,
            view,
            spoken: false,
            floor,
            next: None,
        })
    }

    async fn talk(&mut self, signals: &mut Signals) -> Result<u8, Error> {
        if let Some(wish) = self.settle(signals).await? {
            return Ok(exit::of_wish(wish));
        }
        let mut lines = Lines::start(&setup::own_paths()?.state)?;
        let mut status = 0;
        loop {
            let text = match self.line(&mut lines, signals).await? {
                Line::Wish(wish) => return Ok(exit::of_wish(wish)),
                Line::Text(text) => text,
                Line::End => return Ok(status),
                Line::NotText => {
                    output::complain("that is not UTF-8 text: the line was not taken");
                    continue;
                }
            };
            match text.strip_prefix('/') {
                Some("quit") => return Ok(status),
                Some("help") => output::note(HELP),
                Some("resume") => {
                    if self.order("ctl", "resume").await? {
                        status = self.follow(None, signals).await?;
                    }
                }
                Some(prompt) if prompt.starts_with('/') => {
                    status = self.turn(prompt.to_owned(), signals).await?;
                }
                Some(command) => {
                    if self.order("ctl", command).await? {
                        if let Some(name) = command.strip_prefix("rename ") {
                            name.clone_into(&mut self.session);
                        }
                        if let Some(wish) = self.settle(signals).await? {
                            return Ok(exit::of_wish(wish));
                        }
                    }
                }
                None if text.trim().is_empty() => {}
                None => status = self.turn(text, signals).await?,
            }
            if status == exit::LEFT {
                return Ok(exit::INTERRUPTED);
            }
        }
    }

    /// What the person gives next. At a terminal one Ctrl-C alone does not
    /// leave: it may have been meant for the turn that has just ended.
    async fn line(&mut self, lines: &mut Lines, signals: &mut Signals) -> Result<Line, Error> {
        let mut again = !self.view.is_terminal();
        loop {
            let line = tokio::select! {
                line = lines.next() => line?,
                wish = signals.next() => Line::Wish(wish),
            };
            match line {
                Line::Wish(Wish::Interrupt) if !again => {
                    again = true;
                    output::note("Ctrl-C again, or Ctrl-D, leaves");
                }
                line => return Ok(line),
            }
        }
    }

    /// Waits until another host is connected, because ssh may ask something.
    /// Ctrl-C gives up its question, or else the wait.
    async fn settle(&mut self, signals: &mut Signals) -> Result<Option<Wish>, Error> {
        self.floor.open();
        let wish = self.connected(signals).await;
        self.floor.close().await;
        wish
    }

    async fn connected(&mut self, signals: &mut Signals) -> Result<Option<Wish>, Error> {
        let path = format!("session/{}", self.session);
        let wait = self
            .daemon
            .open(&format!("{path}/wait"), OpenMode::READ)
            .await?;
        while self.daemon.text(&format!("{path}/state")).await?.trim() == "connecting" {
            if !self.floor.is_taken() {
                self.view.state("connecting")?;
            }
            tokio::select! {
                changed = wait.read(0, 256) => { changed.map_err(Error::Daemon)?; }
                wish = signals.next() => match wish {
                    Wish::Interrupt if self.floor.is_taken() => self.floor.close().await,
                    Wish::Interrupt => break,
                    wish => return Ok(Some(wish)),
                }
            }
        }
        // What was told meanwhile.
        for event in self.events.so_far().await? {
            self.view.show(&event)?;
        }
        Ok(None)
    }

    /// The next event, once ssh has no question on the terminal. Nothing is
    /// lost if this is dropped while it waits.
    async fn event(&mut self) -> Result<Option<Event>, Error> {
        if self.next.is_none() {
            self.next = Some(self.events.next().await?);
        }
        self.floor.quiet().await;
        Ok(self.next.take().flatten())
    }

    /// Writes an order, and whether it was taken; a refusal is for the person
    /// and no end.
    async fn order(&mut self, file: &str, text: &str) -> Result<bool, Error> {
        let path = format!("session/{}/{file}", self.session);
        match self.daemon.write(&path, text.to_owned().into()).await {
            Ok(_) => Ok(true),
            Err(Error::Daemon(ninep_rs::Error::Remote(refused))) => {
                output::complain(&crate::printable::printable(&refused));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// One prompt and everything up to its end.
    async fn turn(&mut self, prompt: String, signals: &mut Signals) -> Result<u8, Error> {
        if !self.order("prompt", &prompt).await? {
            return Ok(exit::TURN_FAILED);
        }
        self.spoken = true;
        self.follow(Some(&prompt), signals).await
    }

    /// Everything up to the end of a turn, in which ssh may ask.
    async fn follow(&mut self, prompt: Option<&str>, signals: &mut Signals) -> Result<u8, Error> {
        self.floor.open();
        let status = self.until_end(prompt, signals).await;
        self.floor.give_back();
        self.floor.close().await;
        status
    }

    /// Everything up to the end of a turn, which begins with its `prompt`; of
    /// one that goes on, from now. The first Ctrl-C stops it, the second
    /// leaves.
    async fn until_end(
        &mut self,
        prompt: Option<&str>,
        signals: &mut Signals,
    ) -> Result<u8, Error> {
        let mut begun = prompt.is_none();
        let mut stopped = false;
        let mut asked = None;
        loop {
            let event = tokio::select! {
                event = self.event() => event?,
                yes = yes(&mut asked) => {
                    self.view.answered();
                    self.floor.give_back();
                    if let Some(asked) = asked.take() {
                        self.order("ctl", &asked.order(yes?)).await?;
                    }
                    continue;
                }
                wish = signals.next() => {
                    if stopped || wish != Wish::Interrupt {
                        return Ok(exit::LEFT);
                    }
                    stopped = true;
                    self.floor.close().await;
                    self.stop().await?;
                    continue;
                }
            };
            let Some(event) = event else {
                return Err(Error::SessionGone);
            };
            match event {
                Event::User { text } if Some(text.as_str()) == prompt && !begun => begun = true,
                event => {
                    self.view.show(&event)?;
                    match &event {
                        Event::Ask { call, digest, .. } => {
                            asked = self.ask(&call.id, digest).await?;
                        }
                        Event::Ruling { .. } => {
                            asked = None;
                            self.floor.give_back();
                        }
                        _ => {}
                    }
                    if let (Event::Turn { outcome }, true) = (&event, begun) {
                        return Ok(exit::of_turn(*outcome));
                    }
                    // It was stopped before it had begun.
                    if let (
                        Event::Turn {
                            outcome: TurnEnd::Stopped,
                        },
                        true,
                    ) = (&event, stopped)
                    {
                        return Ok(exit::INTERRUPTED);
                    }
                }
            }
        }
    }

    /// Asks the person, where there is one, about what was just shown.
    async fn ask(&mut self, id: &CallId, digest: &str) -> Result<Option<Asked>, Error> {
        if !line::is_terminal() {
            output::note("there is no terminal on which somebody could be asked");
            self.order("ctl", &format!("deny {id}")).await?;
            return Ok(None);
        }
        self.floor.lend().await;
        // In this order: whoever sees the prompt is heard.
        let answer = Answer::await_one().await?;
        self.view
            .prompt("Run this outside of the sandbox? [y/N] ")?;
        Ok(Some(Asked {
            id: id.clone(),
            digest: digest.to_owned(),
            answer,
        }))
    }

    async fn stop(&mut self) -> Result<(), Error> {
        let stopping = self.order("ctl", "stop");
        // A daemon that does not answer must not keep the person here.
        match timeout(PATIENCE, stopping).await {
            Ok(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}
