use bytes::{Buf, Bytes};

use super::ids::{Fid, Tag};
use super::message::{MAX_WALK, Rmessage, Tmessage, kind};
use super::qid::Qid;
use super::stat::Stat;
use crate::Error;

/// Takes fields off the front of a frame. Every take looks at what is left before it reads or allocates.
pub(super) struct Cursor {
    rest: Bytes,
}

impl Cursor {
    pub(super) fn new(rest: Bytes) -> Self {
        Cursor { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn need(&self, bytes: usize) -> Result<(), Error> {
        if self.rest.len() < bytes {
            return Err(Error::Malformed("it ends inside a field"));
        }
        Ok(())
    }

    fn u8(&mut self) -> Result<u8, Error> {
        self.need(1)?;
        Ok(self.rest.get_u8())
    }

    fn u16(&mut self) -> Result<u16, Error> {
        self.need(2)?;
        Ok(self.rest.get_u16_le())
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.need(4)?;
        Ok(self.rest.get_u32_le())
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.need(8)?;
        Ok(self.rest.get_u64_le())
    }

    fn fid(&mut self) -> Result<Fid, Error> {
        self.u32().map(Fid)
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, Error> {
        self.need(bytes)?;
        Ok(self.rest.split_to(bytes))
    }

    fn string(&mut self) -> Result<String, Error> {
        let length = usize::from(self.u16()?);
        self.need(length)?;
        let text = std::str::from_utf8(&self.rest[..length])
            .map_err(|_| Error::Malformed("a string is not UTF-8"))?;
        // intro(5): "The NUL character is illegal in all text strings".
        if text.contains('\0') {
            return Err(Error::Malformed("a string holds a NUL"));
        }
        let text = text.to_owned();
        self.rest.advance(length);
        Ok(text)
    }

    fn data(&mut self) -> Result<Bytes, Error> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn qid(&mut self) -> Result<Qid, Error> {
        Ok(Qid {
            kind: self.u8()?,
            version: self.u32()?,
            path: self.u64()?,
        })
    }

    pub(super) fn stat(&mut self) -> Result<Stat, Error> {
        let length = usize::from(self.u16()?);
        let mut entry = Cursor::new(self.take(length)?);
        let stat = Stat {
            kind: entry.u16()?,
            dev: entry.u32()?,
            qid: entry.qid()?,
            mode: entry.u32()?,
            atime: entry.u32()?,
            mtime: entry.u32()?,
            length: entry.u64()?,
            name: entry.string()?,
            uid: entry.string()?,
            gid: entry.string()?,
            muid: entry.string()?,
        };
        entry.end(stat)
    }

    /// `stat[n]`: a second length goes before the entry's own (stat(5), BUGS).
    fn wrapped_stat(&mut self) -> Result<Stat, Error> {
        let length = usize::from(self.u16()?);
        let mut wrapped = Cursor::new(self.take(length)?);
        let stat = wrapped.stat()?;
        wrapped.end(stat)
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let items = usize::from(self.u16()?);
        if items > MAX_WALK {
            return Err(Error::Malformed("more than 16 elements in one walk"));
        }
        (0..items).map(|_| item(self)).collect()
    }

    fn end<T>(self, value: T) -> Result<T, Error> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(Error::Malformed("bytes follow its last field"))
        }
    }

    /// Past `size[4]`, to the type and the tag.
    fn open_frame(frame: Bytes) -> Result<(u8, Tag, Self), Error> {
        let mut cursor = Cursor::new(frame);
        let size = cursor.u32()? as usize;
        if size != cursor.rest.len() + 4 {
            return Err(Error::Malformed("its size is not the frame's"));
        }
        let kind = cursor.u8()?;
        let tag = Tag(cursor.u16()?);
        Ok((kind, tag, cursor))
    }
}

impl Tmessage {
    /// Reads one whole frame, `size[4]` included.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a frame that is not what its type says, [`Error::UnknownType`] for a type that is no
    /// request.
    pub fn decode(frame: Bytes) -> Result<(Tag, Self), Error> {
        let (kind, tag, mut f) = Cursor::open_frame(frame)?;
        let message = match kind {
            kind::TVERSION => Tmessage::Version {
                msize: f.u32()?,
                version: f.string()?,
            },
            kind::TAUTH => Tmessage::Auth {
                afid: f.fid()?,
                uname: f.string()?,
                aname: f.string()?,
            },
            kind::TATTACH => Tmessage::Attach {
                fid: f.fid()?,
                afid: f.fid()?,
                uname: f.string()?,
                aname: f.string()?,
            },
            kind::TFLUSH => Tmessage::Flush {
                oldtag: Tag(f.u16()?),
            },
            kind::TWALK => Tmessage::Walk {
                fid: f.fid()?,
                newfid: f.fid()?,
                names: f.list(Cursor::string)?,
            },
            kind::TOPEN => Tmessage::Open {
                fid: f.fid()?,
                mode: f.u8()?,
            },
            kind::TCREATE => Tmessage::Create {
                fid: f.fid()?,
                name: f.string()?,
                perm: f.u32()?,
                mode: f.u8()?,
            },
            kind::TREAD => Tmessage::Read {
                fid: f.fid()?,
                offset: f.u64()?,
                count: f.u32()?,
            },
            kind::TWRITE => Tmessage::Write {
                fid: f.fid()?,
                offset: f.u64()?,
                data: f.data()?,
            },
            kind::TCLUNK => Tmessage::Clunk { fid: f.fid()? },
            kind::TREMOVE => Tmessage::Remove { fid: f.fid()? },
            kind::TSTAT => Tmessage::Stat { fid: f.fid()? },
            kind::TWSTAT => Tmessage::Wstat {
                fid: f.fid()?,
                stat: f.wrapped_stat()?,
            },
            unknown => return Err(Error::UnknownType(unknown)),
        };
        f.end((tag, message))
    }
}

impl Rmessage {
    /// Reads one whole frame, `size[4]` included.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a frame that is not what its type says, [`Error::UnknownType`] for a type that is no
    /// answer.
    pub fn decode(frame: Bytes) -> Result<(Tag, Self), Error> {
        let (kind, tag, mut f) = Cursor::open_frame(frame)?;
        let message = match kind {
            kind::RVERSION => Rmessage::Version {
                msize: f.u32()?,
                version: f.string()?,
            },
            kind::RAUTH => Rmessage::Auth { aqid: f.qid()? },
            kind::RATTACH => Rmessage::Attach { qid: f.qid()? },
            kind::RERROR => Rmessage::Error { ename: f.string()? },
            kind::RFLUSH => Rmessage::Flush,
            kind::RWALK => Rmessage::Walk {
                qids: f.list(Cursor::qid)?,
            },
            kind::ROPEN => Rmessage::Open {
                qid: f.qid()?,
                iounit: f.u32()?,
            },
            kind::RCREATE => Rmessage::Create {
                qid: f.qid()?,
                iounit: f.u32()?,
            },
            kind::RREAD => Rmessage::Read { data: f.data()? },
            kind::RWRITE => Rmessage::Write { count: f.u32()? },
            kind::RCLUNK => Rmessage::Clunk,
            kind::RREMOVE => Rmessage::Remove,
            kind::RSTAT => Rmessage::Stat {
                stat: f.wrapped_stat()?,
            },
            kind::RWSTAT => Rmessage::Wstat,
            unknown => return Err(Error::UnknownType(unknown)),
        };
        f.end((tag, message))
    }
}
