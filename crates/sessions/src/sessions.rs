use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::record::Record;
use crate::session::Session;
use crate::settings::{Key, pairs};
use crate::{Error, House, SessionId};

/// All sessions of this process, by their names.
#[derive(Debug)]
pub struct Sessions {
    house: Arc<House>,
    all: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    /// Numbers for their files in the tree.
    numbers: AtomicU64,
}

impl Sessions {
    /// None yet.
    #[must_use]
    pub fn new(house: House) -> Arc<Self> {
        Arc::new(Self {
            house: Arc::new(house),
            all: Mutex::default(),
            numbers: AtomicU64::new(0),
        })
    }

    /// Brings back what is stored. Nothing is started or connected. What had
    /// to be left out is told, and ends nothing.
    ///
    /// # Errors
    /// [`Error::File`] if the store cannot be read at all.
    pub fn restore(&self) -> Result<(), Error> {
        let (records, told) = self.house.store.records()?;
        told.iter().for_each(|told| (self.house.tell)(told));
        for (id, record) in records {
            match self.adopt(&id, record) {
                Ok(()) => {}
                Err(error) => (self.house.tell)(&format!("session {id} is left out: {error}")),
            }
        }
        Ok(())
    }

    /// Brings back one session that is stored.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none, [`Error::InUse`] if another
    /// olliesrv has it, [`Error::Damaged`].
    pub fn restore_one(&self, id: &SessionId) -> Result<(), Error> {
        let record = self.house.store.record(id)?;
        self.adopt(id, record.ok_or_else(|| Error::Unknown(id.to_string()))?)
    }

    /// The names of all that are kept.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn names(&self) -> Result<Vec<String>, Error> {
        self.house.store.names()
    }

    fn adopt(&self, id: &SessionId, record: Record) -> Result<(), Error> {
        // Its logs are mended: nobody else may have them.
        let held = self.house.store.hold(id)?;
        let session = Session::new(&self.house, self.number(), id.clone(), record)?;
        session.mend(&held);
        self.map().insert(id.clone(), session);
        Ok(())
    }

    /// Makes a session of `key=value` pairs. It is there at once; a connection
    /// to another host is made meanwhile.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Name`] or [`Error::Taken`].
    pub fn create(&self, text: &str) -> Result<Arc<Session>, Error> {
        let mut said = pairs(text)?;
        let id = match name(&mut said)? {
            Some(name) => name,
            None => SessionId::fresh()?,
        };
        let settings = self.house.filled(&said, None)?;
        let settings = self.house.checked(&id, settings)?;
        let record = Record::new(settings);
        self.house.store.create(&id, &record)?;
        let session = Session::new(&self.house, self.number(), id.clone(), record)?;
        self.map().insert(id, Arc::clone(&session));
        session.begin();
        Ok(session)
    }

    /// The session of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Session>> {
        let id = SessionId::new(name).ok()?;
        self.map().get(&id).map(Arc::clone)
    }

    /// Every session, in the order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.map().values().map(Arc::clone).collect()
    }

    /// The file `idx`.
    pub(crate) fn index(&self) -> String {
        self.map()
            .values()
            .map(|session| session.index_line())
            .collect()
    }

    /// Gives a session another name.
    pub(crate) fn rename(&self, session: &Arc<Session>, to: SessionId) -> Result<(), Error> {
        let mut all = self.map();
        let from = session.id();
        if from == to {
            return Ok(());
        }
        if all.contains_key(&to) {
            return Err(Error::Taken(to.to_string()));
        }
        session.rename(to.clone())?;
        all.remove(&from);
        all.insert(to, Arc::clone(session));
        Ok(())
    }

    /// Ends a session and forgets it.
    pub(crate) fn remove(&self, session: &Arc<Session>) -> Result<(), Error> {
        session.remove()?;
        self.map().remove(&session.id());
        Ok(())
    }

    /// Does what lines of `ctl` say, one after the other; the first that
    /// cannot be done is the last.
    pub(crate) async fn command(&self, session: &Arc<Session>, text: &str) -> Result<(), Error> {
        let lines = text.lines().filter(|line| !line.is_empty());
        for line in lines {
            match line.split_once(' ') {
                Some(("rename", name)) => self.rename(session, SessionId::new(name)?)?,
                Some((word, rest)) => session.command(word, rest).await?,
                None => session.command(line, "").await?,
            }
        }
        Ok(())
    }

    /// Changes settings: all of them or none.
    pub(crate) fn configure(&self, session: &Arc<Session>, text: &str) -> Result<(), Error> {
        let mut said = pairs(text)?;
        let name = name(&mut said)?;
        let change = session.prepare(&said)?;
        if let Some(name) = name {
            self.rename(session, name)?;
        }
        session.apply(change)
    }

    /// Stops what runs, saves, and ends every toolsrv.
    pub async fn end(&self) {
        let sessions = self.all();
        let mut ending = tokio::task::JoinSet::new();
        for session in sessions {
            ending.spawn(async move { session.end().await });
        }
        ending.join_all().await;
    }

    pub(crate) fn house(&self) -> &House {
        &self.house
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Session>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the name out of settings.
fn name(said: &mut Vec<(Key, String)>) -> Result<Option<SessionId>, Error> {
    let at = said.iter().position(|(key, _)| *key == Key::Name);
    at.map(|at| SessionId::new(said.remove(at).1)).transpose()
}
