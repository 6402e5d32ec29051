use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{Lifeline, Pending};
use crate::{Error, Fid, MAX_WALK, OpenMode, Qid, Rmessage, Stat, Tmessage};

const UNEXPECTED: Error = Error::Protocol("an answer of another type than its request");

/// A fid of a client: a file on the server. Dropping it clunks it.
///
/// Methods that return a [`Pending`] have queued their request already, so that several may be called before the first
/// is awaited: `walk`, `open`, `write` and `read` of a file cost one round trip.
pub struct Handle {
    lifeline: Arc<Lifeline>,
    fid: Fid,
    clunked: bool,
}

impl Handle {
    pub(super) fn new(lifeline: &Arc<Lifeline>) -> Self {
        Handle {
            fid: lifeline.0.take_fid(),
            lifeline: Arc::clone(lifeline),
            clunked: false,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub fn fid(&self) -> Fid {
        self.fid
    }

    fn submit<T>(
        &self,
        message: &Tmessage,
        asked: u32,
        understand: fn(Rmessage, u32) -> Result<T, Error>,
    ) -> Pending<T> {
        self.lifeline.submit(message, asked, understand)
    }

    /// `Twalk`: the file that `names` lead to from here, at most 16 of them; none is another handle of this file.
    ///
    /// The new handle may be used before the answer is here. If the answer is an error, it names nothing.
    pub fn walk<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> (Handle, Pending<Vec<Qid>>) {
        let target = Handle::new(&self.lifeline);
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let wanted = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let message = Tmessage::Walk {
            fid: self.fid,
            newfid: target.fid,
            names,
        };
        let pending = self.submit(&message, wanted, |answer, wanted| match answer {
            Rmessage::Walk { qids } if qids.len() == wanted as usize => Ok(qids),
            Rmessage::Walk { qids } if qids.len() < wanted as usize => Err(Error::WalkStopped {
                walked: qids.len(),
                wanted: wanted as usize,
            }),
            _ => Err(UNEXPECTED),
        });
        (target, pending)
    }

    /// Walks a path with any number of elements, separated by `/`, and waits for it.
    ///
    /// # Errors
    /// [`Error::Remote`] or [`Error::WalkStopped`] if it is not there.
    pub async fn walk_path(&self, path: &str) -> Result<Handle, Error> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut steps = names.chunks(MAX_WALK);
        let (mut at, walked) = self.walk(steps.next().unwrap_or_default().iter().copied());
        walked.await?;
        for step in steps {
            let (next, walked) = at.walk(step.iter().copied());
            walked.await?;
            at = next;
        }
        Ok(at)
    }

    /// `Topen`: the qid and the most bytes that one read or write moves; zero means [`Client::max_data`].
    ///
    /// [`Client::max_data`]: crate::Client::max_data
    pub fn open(&self, mode: OpenMode) -> Pending<(Qid, u32)> {
        let message = Tmessage::Open {
            fid: self.fid,
            mode: mode.to_wire(),
        };
        self.submit(&message, 0, |answer, _| match answer {
            Rmessage::Open { qid, iounit } => Ok((qid, iounit)),
            _ => Err(UNEXPECTED),
        })
    }

    /// `Tcreate`: makes a file in this directory; the handle names it from then on, open.
    pub fn create(&self, name: &str, perm: u32, mode: OpenMode) -> Pending<(Qid, u32)> {
        let message = Tmessage::Create {
            fid: self.fid,
            name: name.to_owned(),
            perm,
            mode: mode.to_wire(),
        };
        self.submit(&message, 0, |answer, _| match answer {
            Rmessage::Create { qid, iounit } => Ok((qid, iounit)),
            _ => Err(UNEXPECTED),
        })
    }

    /// `Tread`: at most `count` bytes from `offset`, and never more than [`Client::max_data`]; none is the end.
    ///
    /// Many may be outstanding at once. To cancel one without losing what it had read, use [`Pending::cancel`].
    ///
    /// [`Client::max_data`]: crate::Client::max_data
    pub fn read(&self, offset: u64, count: u32) -> Pending<Bytes> {
        let message = Tmessage::Read {
            fid: self.fid,
            offset,
            count,
        };
        self.submit(&message, count, |answer, count| match answer {
            Rmessage::Read { data } if data.len() <= count as usize => Ok(data),
            Rmessage::Read { .. } => Err(Error::Protocol("Rread with more than was asked for")),
            _ => Err(UNEXPECTED),
        })
    }

    /// `Twrite`: how many bytes of `data` were taken. More than [`Client::max_data`] is [`Error::TooLong`].
    ///
    /// [`Client::max_data`]: crate::Client::max_data
    pub fn write(&self, offset: u64, data: impl Into<Bytes>) -> Pending<u32> {
        let data = data.into();
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let message = Tmessage::Write {
            fid: self.fid,
            offset,
            data,
        };
        self.submit(&message, length, |answer, length| match answer {
            Rmessage::Write { count } if count <= length => Ok(count),
            Rmessage::Write { .. } => Err(Error::Protocol("Rwrite of more than was sent")),
            _ => Err(UNEXPECTED),
        })
    }

    /// `Tstat`
    pub fn stat(&self) -> Pending<Stat> {
        self.submit(
            &Tmessage::Stat { fid: self.fid },
            0,
            |answer, _| match answer {
                Rmessage::Stat { stat } => Ok(stat),
                _ => Err(UNEXPECTED),
            },
        )
    }

    /// `Twstat`: see [`Stat::untouched`].
    pub fn wstat(&self, stat: Stat) -> Pending<()> {
        let message = Tmessage::Wstat {
            fid: self.fid,
            stat,
        };
        self.submit(&message, 0, |answer, _| match answer {
            Rmessage::Wstat => Ok(()),
            _ => Err(UNEXPECTED),
        })
    }

    /// `Tclunk`: what dropping does, with an answer. Requests on this fid that wait are cancelled by the server.
    pub fn clunk(mut self) -> Pending<()> {
        self.clunked = true;
        let message = Tmessage::Clunk { fid: self.fid };
        self.lifeline
            .submit_last(&message, self.fid, |answer, _| match answer {
                Rmessage::Clunk => Ok(()),
                _ => Err(UNEXPECTED),
            })
    }

    /// `Tremove`: the handle is gone even if the file stays.
    pub fn remove(mut self) -> Pending<()> {
        self.clunked = true;
        let message = Tmessage::Remove { fid: self.fid };
        self.lifeline
            .submit_last(&message, self.fid, |answer, _| match answer {
                Rmessage::Remove => Ok(()),
                _ => Err(UNEXPECTED),
            })
    }

    /// Reads an open file from `offset` to its end.
    ///
    /// # Errors
    /// Those of the reads, and [`Error::TooLong`] if it is longer than `limit` bytes.
    pub async fn read_to_end(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        let count = self.lifeline.0.max_data();
        let mut content = BytesMut::new();
        loop {
            let data = self.read(offset + content.len() as u64, count).await?;
            if data.is_empty() {
                return Ok(content.freeze());
            }
            if content.len() + data.len() > limit {
                return Err(Error::TooLong("file"));
            }
            content.extend_from_slice(&data);
        }
    }

    /// Writes all of `data` to an open file, one message after the other.
    ///
    /// # Errors
    /// Those of the writes; a server that takes nothing is [`Error::Protocol`].
    pub async fn write_all(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        let mut data = data.into();
        let mut at = offset;
        while !data.is_empty() {
            self.lifeline.ready().await?;
            let most = data.len().min(self.lifeline.0.max_data() as usize);
            let taken = self.write(at, data.slice(..most)).await?;
            if taken == 0 {
                return Err(Error::Protocol("Rwrite of nothing"));
            }
            let _taken = data.split_to(taken as usize);
            at += u64::from(taken);
        }
        Ok(())
    }

    /// The entries of an open directory.
    ///
    /// # Errors
    /// Those of the reads, [`Error::Malformed`], and [`Error::TooLong`] over 16 MiB.
    pub async fn read_directory(&self) -> Result<Vec<Stat>, Error> {
        Stat::decode_all(self.read_to_end(0, 16 * 1024 * 1024).await?)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.clunked {
            self.lifeline.clunk(self.fid);
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({})", self.fid)
    }
}
