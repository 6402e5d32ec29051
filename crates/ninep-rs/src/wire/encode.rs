use bytes::{BufMut, Bytes, BytesMut};

use super::ids::{Fid, Tag};
use super::message::{MAX_WALK, Rmessage, Tmessage, kind};
use super::qid::Qid;
use super::stat::Stat;
use crate::Error;

/// Appends fields to a buffer and takes them back unless [`Builder::keep`] is reached, so that a message which turns
/// out not to fit leaves nothing behind.
pub(super) struct Builder<'a> {
    to: &'a mut BytesMut,
    start: usize,
    kept: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(to: &'a mut BytesMut) -> Self {
        let start = to.len();
        Builder {
            to,
            start,
            kept: false,
        }
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }

    fn frame(to: &'a mut BytesMut, kind: u8, tag: Tag) -> Self {
        let builder = Self::new(to);
        builder.to.put_u32_le(0);
        builder.to.put_u8(kind);
        builder.to.put_u16_le(tag.0);
        builder
    }

    /// Writes `size[4]`, counting `payload` bytes that the caller sends after what is here.
    fn finish(self, payload: usize) -> Result<(), Error> {
        let size = u32::try_from(self.to.len() - self.start + payload)
            .map_err(|_| Error::TooLong("message"))?;
        self.to[self.start..self.start + 4].copy_from_slice(&size.to_le_bytes());
        self.keep();
        Ok(())
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.to.put_u8(value);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.to.put_u16_le(value);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.to.put_u32_le(value);
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.to.put_u64_le(value);
        self
    }

    fn fid(&mut self, fid: Fid) -> &mut Self {
        self.u32(fid.0)
    }

    fn string(&mut self, text: &str) -> Result<&mut Self, Error> {
        if text.contains('\0') {
            return Err(Error::Malformed("a string holds a NUL"));
        }
        let length = u16::try_from(text.len()).map_err(|_| Error::TooLong("string"))?;
        self.u16(length);
        self.to.put_slice(text.as_bytes());
        Ok(self)
    }

    fn qid(&mut self, qid: &Qid) -> &mut Self {
        self.u8(qid.kind).u32(qid.version).u64(qid.path)
    }

    fn list_length(&mut self, items: usize) -> Result<&mut Self, Error> {
        match u16::try_from(items) {
            Ok(length) if items <= MAX_WALK => Ok(self.u16(length)),
            _ => Err(Error::TooLong("walk")),
        }
    }

    fn data_length(&mut self, data: &Bytes) -> Result<&mut Self, Error> {
        let length = u32::try_from(data.len()).map_err(|_| Error::TooLong("message"))?;
        Ok(self.u32(length))
    }

    /// Runs `body` behind a `u16` that says how long it was.
    fn sized(&mut self, body: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let at = self.to.len();
        self.u16(0);
        body(self)?;
        let length =
            u16::try_from(self.to.len() - at - 2).map_err(|_| Error::TooLong("directory entry"))?;
        self.to[at..at + 2].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    pub(super) fn stat(&mut self, stat: &Stat) -> Result<(), Error> {
        self.sized(|out| {
            out.u16(stat.kind).u32(stat.dev).qid(&stat.qid);
            out.u32(stat.mode).u32(stat.atime).u32(stat.mtime);
            out.u64(stat.length);
            out.string(&stat.name)?.string(&stat.uid)?;
            out.string(&stat.gid)?.string(&stat.muid)?;
            Ok(())
        })
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.to.truncate(self.start);
        }
    }
}

impl Tmessage {
    /// Appends the whole frame.
    ///
    /// # Errors
    /// [`Error::TooLong`] for a string over 65535 bytes or a walk over 16 names, [`Error::Malformed`] for a NUL in a
    /// string; nothing is appended then.
    pub fn encode(&self, tag: Tag, to: &mut BytesMut) -> Result<(), Error> {
        if let Some(data) = self.encode_head(tag, to)? {
            to.extend_from_slice(data);
        }
        Ok(())
    }

    /// Appends the frame up to its data, which is returned: it is last in the frame and need not be copied.
    pub(crate) fn encode_head(&self, tag: Tag, to: &mut BytesMut) -> Result<Option<&Bytes>, Error> {
        let mut out = Builder::frame(to, self.kind(), tag);
        match self {
            Tmessage::Version { msize, version } => {
                out.u32(*msize).string(version)?;
            }
            Tmessage::Auth { afid, uname, aname } => {
                out.fid(*afid).string(uname)?.string(aname)?;
            }
            Tmessage::Attach {
                fid,
                afid,
                uname,
                aname,
            } => {
                out.fid(*fid).fid(*afid).string(uname)?.string(aname)?;
            }
            Tmessage::Flush { oldtag } => {
                out.u16(oldtag.0);
            }
            Tmessage::Walk { fid, newfid, names } => {
                out.fid(*fid).fid(*newfid).list_length(names.len())?;
                for name in names {
                    out.string(name)?;
                }
            }
            Tmessage::Open { fid, mode } => {
                out.fid(*fid).u8(*mode);
            }
            Tmessage::Create {
                fid,
                name,
                perm,
                mode,
            } => {
                out.fid(*fid).string(name)?.u32(*perm).u8(*mode);
            }
            Tmessage::Read { fid, offset, count } => {
                out.fid(*fid).u64(*offset).u32(*count);
            }
            Tmessage::Write { fid, offset, data } => {
                out.fid(*fid).u64(*offset).data_length(data)?;
                out.finish(data.len())?;
                return Ok(Some(data));
            }
            Tmessage::Clunk { fid } | Tmessage::Remove { fid } | Tmessage::Stat { fid } => {
                out.fid(*fid);
            }
            Tmessage::Wstat { fid, stat } => {
                out.fid(*fid).sized(|out| out.stat(stat))?;
            }
        }
        out.finish(0)?;
        Ok(None)
    }

    fn kind(&self) -> u8 {
        match self {
            Tmessage::Version { .. } => kind::TVERSION,
            Tmessage::Auth { .. } => kind::TAUTH,
            Tmessage::Attach { .. } => kind::TATTACH,
            Tmessage::Flush { .. } => kind::TFLUSH,
            Tmessage::Walk { .. } => kind::TWALK,
            Tmessage::Open { .. } => kind::TOPEN,
            Tmessage::Create { .. } => kind::TCREATE,
            Tmessage::Read { .. } => kind::TREAD,
            Tmessage::Write { .. } => kind::TWRITE,
            Tmessage::Clunk { .. } => kind::TCLUNK,
            Tmessage::Remove { .. } => kind::TREMOVE,
            Tmessage::Stat { .. } => kind::TSTAT,
            Tmessage::Wstat { .. } => kind::TWSTAT,
        }
    }
}

impl Rmessage {
    /// Appends the whole frame.
    ///
    /// # Errors
    /// [`Error::TooLong`] for a string over 65535 bytes or a walk over 16 qids, [`Error::Malformed`] for a NUL in a
    /// string; nothing is appended then.
    pub fn encode(&self, tag: Tag, to: &mut BytesMut) -> Result<(), Error> {
        if let Some(data) = self.encode_head(tag, to)? {
            to.extend_from_slice(data);
        }
        Ok(())
    }

    /// Appends the frame up to its data, which is returned: it is last in the frame and need not be copied.
    pub(crate) fn encode_head(&self, tag: Tag, to: &mut BytesMut) -> Result<Option<&Bytes>, Error> {
        let mut out = Builder::frame(to, self.kind(), tag);
        match self {
            Rmessage::Version { msize, version } => {
                out.u32(*msize).string(version)?;
            }
            Rmessage::Auth { aqid: qid } | Rmessage::Attach { qid } => {
                out.qid(qid);
            }
            Rmessage::Error { ename } => {
                out.string(ename)?;
            }
            Rmessage::Walk { qids } => {
                out.list_length(qids.len())?;
                for qid in qids {
                    out.qid(qid);
                }
            }
            Rmessage::Open { qid, iounit } | Rmessage::Create { qid, iounit } => {
                out.qid(qid).u32(*iounit);
            }
            Rmessage::Read { data } => {
                out.data_length(data)?;
                out.finish(data.len())?;
                return Ok(Some(data));
            }
            Rmessage::Write { count } => {
                out.u32(*count);
            }
            Rmessage::Stat { stat } => out.sized(|out| out.stat(stat))?,
            Rmessage::Flush | Rmessage::Clunk | Rmessage::Remove | Rmessage::Wstat => {}
        }
        out.finish(0)?;
        Ok(None)
    }

    fn kind(&self) -> u8 {
        match self {
            Rmessage::Version { .. } => kind::RVERSION,
            Rmessage::Auth { .. } => kind::RAUTH,
            Rmessage::Attach { .. } => kind::RATTACH,
            Rmessage::Error { .. } => kind::RERROR,
            Rmessage::Flush => kind::RFLUSH,
            Rmessage::Walk { .. } => kind::RWALK,
            Rmessage::Open { .. } => kind::ROPEN,
            Rmessage::Create { .. } => kind::RCREATE,
            Rmessage::Read { .. } => kind::RREAD,
            Rmessage::Write { .. } => kind::RWRITE,
            Rmessage::Clunk => kind::RCLUNK,
            Rmessage::Remove => kind::RREMOVE,
            Rmessage::Stat { .. } => kind::RSTAT,
            Rmessage::Wstat => kind::RWSTAT,
        }
    }
}
