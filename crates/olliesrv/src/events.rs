//! A session's events, as a client reads them.

use bytes::Bytes;
use ninep_rs::{Handle, OpenMode, Pending};
use ollie_agent::{Event, TurnEnd};

use crate::daemon::Daemon;
use crate::error::Error;

/// Reads the file `events` from where it ended when this was made.
pub(crate) struct Events {
    file: Handle,
    most: u32,
    at: u64,
    buffer: Vec<u8>,
    reading: Option<Pending<Bytes>>,
}

impl Events {
    /// What happens from now on.
    pub(crate) async fn from_now(daemon: &Daemon, session: &str) -> Result<Self, Error> {
        let path = format!("session/{session}/events");
        let file = daemon.open(&path, OpenMode::READ).await?;
        let at = file.stat().await.map_err(Error::Daemon)?.length;
        Ok(Self {
            file,
            most: daemon.max_data(),
            at,
            buffer: Vec::new(),
            reading: None,
        })
    }

    /// The next event; `None` when the session is gone. Nothing is lost if
    /// this is dropped while it waits. What this version does not know is
    /// passed over.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.buffered() {
                return Ok(Some(event));
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// What happened until now and was not given yet.
    pub(crate) async fn so_far(&mut self) -> Result<Vec<Event>, Error> {
        let length = self.file.stat().await.map_err(Error::Daemon)?.length;
        let mut events = Vec::new();
        loop {
            while let Some(event) = self.buffered() {
                events.push(event);
            }
            if self.at >= length || !self.read().await? {
                return Ok(events);
            }
        }
    }

    fn buffered(&mut self) -> Option<Event> {
        while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice(&line) {
                return Some(event);
            }
        }
        None
    }

    /// Whether more came; else the session is gone.
    async fn read(&mut self) -> Result<bool, Error> {
        let (file, at, most) = (&self.file, self.at, self.most);
        let reading = self.reading.get_or_insert_with(|| file.read(at, most));
        let piece = reading.await;
        self.reading = None;
        let piece = piece.map_err(Error::Daemon)?;
        self.at += piece.len() as u64;
        self.buffer.extend_from_slice(&piece);
        Ok(!piece.is_empty())
    }

    /// Waits for the turn of this prompt, and for its end.
    pub(crate) async fn end_of(&mut self, prompt: &str) -> Result<TurnEnd, Error> {
        let mut begun = false;
        while let Some(event) = self.next().await? {
            match event {
                Event::User { text } if text == prompt => begun = true,
                Event::Turn { outcome } if begun => return Ok(outcome),
                _ => {}
            }
        }
        Err(Error::SessionGone)
    }
}
