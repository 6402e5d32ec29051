use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::answers::Order;
use super::connection::{Connection, LEAST_MSIZE};
use super::fids::{Named, Place};
use super::lane::{Operation, at_most};
use super::ready::{LaneKey, Way};
use super::service::Service;
use super::shield::shielded;
use crate::{
    Fid, IO_HEADER, OpenMode, Qid, Refusal, Rmessage, Stat, Tag, Tmessage, VERSION, ename,
};

/// What `Rread` needs beside its data: `size[4] Rread tag[2] count[4]`.
const READ_HEADER: u32 = 11;

impl<S: Service, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<S, R, W> {
    /// Answers a request, or puts it into its lane.
    ///
    /// All but reads and writes are answered here and now: so they happen in the order in which they came, and a
    /// client need not wait for one before it sends the next.
    pub(super) fn dispatch(&mut self, tag: Tag, message: Tmessage) {
        if let Tmessage::Version { msize, version } = message {
            let answer = self.version(msize, &version);
            return self.answer(tag, answer);
        }
        if let Err(refusal) = self.acceptable(tag) {
            return self.answer(tag, Err(refusal));
        }
        let order = match message {
            Tmessage::Auth { .. }
            | Tmessage::Attach { .. }
            | Tmessage::Walk { .. }
            | Tmessage::Open { .. }
            | Tmessage::Create { .. }
            | Tmessage::Write { .. }
            | Tmessage::Stat { .. }
            | Tmessage::Wstat { .. } => Order::Ahead,
            Tmessage::Version { .. }
            | Tmessage::Flush { .. }
            | Tmessage::Read { .. }
            | Tmessage::Clunk { .. }
            | Tmessage::Remove { .. } => Order::Behind,
        };
        let answer = match message {
            Tmessage::Version { .. } => return,
            Tmessage::Auth { afid, uname, aname } => self.auth(afid, uname, aname),
            Tmessage::Attach {
                fid,
                afid,
                uname,
                aname,
            } => self.attach(fid, afid, &uname, &aname),
            Tmessage::Flush { oldtag } => {
                if let Some(lane) = self.fids.cancel(oldtag) {
                    self.schedule(lane);
                }
                Ok(Rmessage::Flush)
            }
            Tmessage::Walk { fid, newfid, names } => self.walk(fid, newfid, &names),
            Tmessage::Open { fid, mode } => self.open(fid, mode),
            Tmessage::Create {
                fid,
                name,
                perm,
                mode,
            } => self.create(fid, &name, perm, mode),
            Tmessage::Read { fid, offset, count } => {
                let count = count.min(self.msize - READ_HEADER);
                match self.fids.get(fid) {
                    Ok(Named::Auth { file, .. }) => shielded(|| file.read(count))
                        .and_then(|data| at_most(data.len(), count, Rmessage::Read { data })),
                    _ => return self.transfer(tag, fid, Operation::Read { offset, count }),
                }
            }
            Tmessage::Write { fid, offset, data } => match self.fids.get(fid) {
                Ok(Named::Auth { file, .. }) => {
                    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                    shielded(|| file.write(&data)).and_then(|count| {
                        at_most(count as usize, length, Rmessage::Write { count })
                    })
                }
                _ => return self.transfer(tag, fid, Operation::Write { offset, data }),
            },
            Tmessage::Clunk { fid } => self.forget(fid).map(|()| Rmessage::Clunk),
            Tmessage::Remove { fid } => self.remove(fid),
            Tmessage::Stat { fid } => self.stat(fid),
            Tmessage::Wstat { fid, stat } => self.wstat(fid, &stat),
        };
        self.answer_in(order, tag, answer);
    }

    fn acceptable(&self, tag: Tag) -> Result<(), Refusal> {
        if self.msize == 0 {
            return Err(Refusal::new(ename::VERSION_FIRST));
        }
        if tag == Tag::NONE {
            return Err(Refusal::new(ename::NO_TAG));
        }
        if self.fids.is_waiting(tag) {
            return Err(Refusal::new(ename::TAG_IN_USE));
        }
        Ok(())
    }

    /// version(5): a new session; whatever was before is aborted and every fid clunked.
    fn version(&mut self, msize: u32, version: &str) -> Result<Rmessage, Refusal> {
        for tag in self.fids.clear() {
            self.answer(tag, Err(Refusal::new(ename::INTERRUPTED)));
        }
        self.msize = 0;
        if msize < LEAST_MSIZE {
            return Err(Refusal::new(ename::MSIZE_TOO_SMALL));
        }
        let agreed = msize.min(self.config.msize);
        // version(5): what follows the first period may be stripped, for a protocol that is upward compatible.
        let known = version.split('.').next() == Some(VERSION);
        if known {
            self.msize = agreed;
        }
        Ok(Rmessage::Version {
            msize: agreed,
            version: if known { VERSION } else { "unknown" }.to_owned(),
        })
    }

    fn auth(&mut self, afid: Fid, uname: String, aname: String) -> Result<Rmessage, Refusal> {
        self.fids.free(afid)?;
        let file = shielded(|| self.service.auth(&uname, &aname))?;
        self.fids.insert(afid, Named::Auth { file, uname, aname });
        Ok(Rmessage::Auth {
            aqid: Qid::auth(u64::from(afid.0)),
        })
    }

    fn attach(
        &mut self,
        fid: Fid,
        afid: Fid,
        uname: &str,
        aname: &str,
    ) -> Result<Rmessage, Refusal> {
        self.fids.free(fid)?;
        let auth = match afid {
            Fid::NONE => None,
            afid => match self.fids.get(afid) {
                Ok(Named::Auth {
                    file,
                    uname: for_uname,
                    aname: for_aname,
                }) if for_uname == uname && for_aname == aname => Some(&**file),
                _ => return Err(Refusal::closing(ename::AUTH_MISMATCH)),
            },
        };
        let service = &self.service;
        let (root, qid) = shielded(|| {
            let root = service.attach(uname, aname, auth)?;
            let qid = root.qid();
            Ok((root, qid))
        })?;
        let place = Place::root(root);
        self.fids.insert(fid, Named::File { place, open: None });
        self.admit();
        Ok(Rmessage::Attach { qid })
    }

    fn walk(&mut self, fid: Fid, newfid: Fid, names: &[String]) -> Result<Rmessage, Refusal> {
        let mut place = Arc::clone(self.fids.closed_place(fid)?);
        if newfid != fid {
            self.fids.free(newfid)?;
        }
        let mut qids = Vec::with_capacity(names.len());
        for name in names {
            match shielded(|| step(&place, name)) {
                Ok((next, qid)) => {
                    place = next;
                    qids.push(qid);
                }
                // walk(5): only the first step can be refused; later ones end the walk where they stand.
                Err(refusal) if qids.is_empty() => return Err(refusal),
                Err(_) => return Ok(Rmessage::Walk { qids }),
            }
        }
        self.fids.insert(newfid, Named::File { place, open: None });
        Ok(Rmessage::Walk { qids })
    }

    fn open(&mut self, fid: Fid, mode: u8) -> Result<Rmessage, Refusal> {
        let mode = OpenMode::from_wire(mode).map_err(|_| Refusal::new(ename::OPEN_MODE))?;
        let place = Arc::clone(self.fids.closed_place(fid)?);
        let (file, qid) = shielded(|| {
            let stat = place.node.stat();
            if stat.qid.is_dir() && mode != OpenMode::READ {
                return Err(Refusal::new(ename::IS_A_DIRECTORY));
            }
            if !mode.permitted_by(stat.mode) {
                return Err(Refusal::denied());
            }
            Ok((place.node.open(mode)?, place.node.qid()))
        })?;
        self.fids.set_open(fid, place, mode, file);
        Ok(Rmessage::Open {
            qid,
            iounit: self.msize - IO_HEADER,
        })
    }

    fn create(&mut self, fid: Fid, name: &str, perm: u32, mode: u8) -> Result<Rmessage, Refusal> {
        let mode = OpenMode::from_wire(mode).map_err(|_| Refusal::new(ename::OPEN_MODE))?;
        let directory = Arc::clone(self.fids.closed_place(fid)?);
        if name == ".." || !walkable(name) {
            return Err(Refusal::new(ename::BAD_NAME));
        }
        if perm & Stat::DIR != 0 && mode != OpenMode::READ {
            return Err(Refusal::new(ename::IS_A_DIRECTORY));
        }
        let (place, file, qid) = shielded(|| {
            if !directory.node.qid().is_dir() {
                return Err(Refusal::new(ename::NOT_A_DIRECTORY));
            }
            let (node, file) = directory.node.create(name, perm, mode)?;
            let qid = node.qid();
            Ok((directory.child(node)?, file, qid))
        })?;
        self.fids.set_open(fid, place, mode, file);
        Ok(Rmessage::Create {
            qid,
            iounit: self.msize - IO_HEADER,
        })
    }

    /// Puts a read or write into its lane and polls it once if it is first there: what can be answered at once is.
    ///
    /// A read whose answer has no room is put off, so that the requests behind it are still seen.
    fn transfer(&mut self, tag: Tag, fid: Fid, operation: Operation) {
        let way = operation.way();
        let key = LaneKey { fid, way };
        let allowed = self.fids.open_mode(fid).and_then(|mode| match way {
            Way::Read if !mode.reads() => Err(Refusal::new(ename::NOT_OPEN_FOR_READING)),
            Way::Write if !mode.writes() => Err(Refusal::new(ename::NOT_OPEN_FOR_WRITING)),
            _ if self.fids.waiting() >= self.config.requests => {
                Err(Refusal::new(ename::TOO_MANY_REQUESTS))
            }
            _ => Ok(()),
        });
        if let Err(refusal) = allowed {
            return self.answer_lane(key, tag, Err(refusal));
        }
        let now = self.has_room_for(operation.size());
        let Some(lane) = self.fids.lane(key) else {
            return self.answer_lane(key, tag, Err(Refusal::new(ename::FID_NOT_OPEN)));
        };
        if now {
            match lane.submit(tag, operation) {
                Some(answer) => self.answer_lane(key, tag, answer),
                None => self.fids.wait(tag, key),
            }
        } else {
            lane.put_off(tag, operation);
            self.fids.wait(tag, key);
            self.schedule(key);
        }
    }

    /// Clunks a fid. Requests that wait on it are answered first, so that none stays without an answer.
    fn forget(&mut self, fid: Fid) -> Result<(), Refusal> {
        for tag in self.fids.remove(fid)? {
            self.answer(tag, Err(Refusal::new(ename::INTERRUPTED)));
        }
        Ok(())
    }

    /// remove(5): the fid is clunked whether or not the file goes.
    fn remove(&mut self, fid: Fid) -> Result<Rmessage, Refusal> {
        let place = self.fids.place(fid).map(Arc::clone);
        self.forget(fid)?;
        let place = place?;
        shielded(|| place.node.remove())?;
        Ok(Rmessage::Remove)
    }

    fn stat(&self, fid: Fid) -> Result<Rmessage, Refusal> {
        let place = self.fids.place(fid)?;
        let stat = shielded(|| Ok(place.node.stat()))?;
        Ok(Rmessage::Stat { stat })
    }

    fn wstat(&self, fid: Fid, change: &Stat) -> Result<Rmessage, Refusal> {
        let place = self.fids.place(fid)?;
        if !change.name.is_empty() && (change.name == ".." || !walkable(&change.name)) {
            return Err(Refusal::new(ename::BAD_NAME));
        }
        shielded(|| place.node.wstat(change))?;
        Ok(Rmessage::Wstat)
    }
}

fn step(from: &Arc<Place>, name: &str) -> Result<(Arc<Place>, Qid), Refusal> {
    if !from.node.qid().is_dir() {
        return Err(Refusal::new(ename::NOT_A_DIRECTORY));
    }
    let next = if name == ".." {
        from.parent()
    } else if walkable(name) {
        from.child(from.node.walk(name)?)?
    } else {
        return Err(Refusal::new(ename::BAD_NAME));
    };
    let qid = next.node.qid();
    Ok((next, qid))
}

/// The codec refuses NUL already.
fn walkable(name: &str) -> bool {
    !name.is_empty() && name != "." && !name.contains('/')
}
