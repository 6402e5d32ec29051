use bytes::Bytes;

use super::ids::{Fid, Tag};
use super::qid::Qid;
use super::stat::Stat;

/// The protocol version this crate speaks.
pub const VERSION: &str = "9P2000";

/// `MAXWELEM`: names in one Twalk, and qids in one Rwalk (walk(5)).
pub const MAX_WALK: usize = 16;

/// `IOHDRSZ`: what a message with data needs beside the data, rounded up as Plan 9 does; `iounit` is msize less this.
pub const IO_HEADER: u32 = 24;

/// A request, client to server. The lines are those of section 5 of Plan 9's manual.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tmessage {
    /// `size[4] Tversion tag[2] msize[4] version[s]`
    Version {
        /// The longest message the client takes, all of it counted.
        msize: u32,
        /// `9P2000`.
        version: String,
    },
    /// `size[4] Tauth tag[2] afid[4] uname[s] aname[s]`
    Auth {
        /// Names the authentication file from now on.
        afid: Fid,
        /// Who.
        uname: String,
        /// Which tree.
        aname: String,
    },
    /// `size[4] Tattach tag[2] fid[4] afid[4] uname[s] aname[s]`
    Attach {
        /// Names the root from now on.
        fid: Fid,
        /// The authentication file, or [`Fid::NONE`].
        afid: Fid,
        /// Who.
        uname: String,
        /// Which tree.
        aname: String,
    },
    /// `size[4] Tflush tag[2] oldtag[2]`
    Flush {
        /// The request nobody waits for any longer.
        oldtag: Tag,
    },
    /// `size[4] Twalk tag[2] fid[4] newfid[4] nwname[2] nwname*(wname[s])`
    Walk {
        /// Where the walk starts.
        fid: Fid,
        /// Names its end; may be `fid` itself.
        newfid: Fid,
        /// At most [`MAX_WALK`]; none makes `newfid` a copy of `fid`.
        names: Vec<String>,
    },
    /// `size[4] Topen tag[2] fid[4] mode[1]`
    Open {
        /// What to open.
        fid: Fid,
        /// The byte of [`OpenMode::to_wire`](crate::OpenMode::to_wire).
        mode: u8,
    },
    /// `size[4] Tcreate tag[2] fid[4] name[s] perm[4] mode[1]`
    Create {
        /// The directory; afterwards the new file.
        fid: Fid,
        /// The new file's name.
        name: String,
        /// Its permissions, and [`Stat::DIR`] for a directory.
        perm: u32,
        /// How it is opened.
        mode: u8,
    },
    /// `size[4] Tread tag[2] fid[4] offset[8] count[4]`
    Read {
        /// What to read.
        fid: Fid,
        /// From where, bytes.
        offset: u64,
        /// At most so many bytes.
        count: u32,
    },
    /// `size[4] Twrite tag[2] fid[4] offset[8] count[4] data[count]`
    Write {
        /// What to write.
        fid: Fid,
        /// To where, bytes.
        offset: u64,
        /// What; shares the memory of the frame it came in.
        data: Bytes,
    },
    /// `size[4] Tclunk tag[2] fid[4]`
    Clunk {
        /// What to forget.
        fid: Fid,
    },
    /// `size[4] Tremove tag[2] fid[4]`
    Remove {
        /// What to remove; forgotten even if that fails.
        fid: Fid,
    },
    /// `size[4] Tstat tag[2] fid[4]`
    Stat {
        /// Of what.
        fid: Fid,
    },
    /// `size[4] Twstat tag[2] fid[4] stat[n]`
    Wstat {
        /// Of what.
        fid: Fid,
        /// What to change: see [`Stat::untouched`].
        stat: Stat,
    },
}

/// An answer, server to client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rmessage {
    /// `size[4] Rversion tag[2] msize[4] version[s]`
    Version {
        /// The smaller of both ends' limits.
        msize: u32,
        /// `9P2000`, or `unknown`.
        version: String,
    },
    /// `size[4] Rauth tag[2] aqid[13]`
    Auth {
        /// Of type [`Qid::AUTH`].
        aqid: Qid,
    },
    /// `size[4] Rattach tag[2] qid[13]`
    Attach {
        /// The root's.
        qid: Qid,
    },
    /// `size[4] Rerror tag[2] ename[s]`
    Error {
        /// Why the request was refused.
        ename: String,
    },
    /// `size[4] Rflush tag[2]`
    Flush,
    /// `size[4] Rwalk tag[2] nwqid[2] nwqid*(wqid[13])`
    Walk {
        /// One for each name that was walked; fewer than asked means that `newfid` was not made.
        qids: Vec<Qid>,
    },
    /// `size[4] Ropen tag[2] qid[13] iounit[4]`
    Open {
        /// The opened file's.
        qid: Qid,
        /// The most bytes one Tread or Twrite moves; zero means msize less [`IO_HEADER`].
        iounit: u32,
    },
    /// `size[4] Rcreate tag[2] qid[13] iounit[4]`
    Create {
        /// The new file's.
        qid: Qid,
        /// As in `Open`.
        iounit: u32,
    },
    /// `size[4] Rread tag[2] count[4] data[count]`
    Read {
        /// Empty at the end of the file.
        data: Bytes,
    },
    /// `size[4] Rwrite tag[2] count[4]`
    Write {
        /// Bytes that were taken.
        count: u32,
    },
    /// `size[4] Rclunk tag[2]`
    Clunk,
    /// `size[4] Rremove tag[2]`
    Remove,
    /// `size[4] Rstat tag[2] stat[n]`
    Stat {
        /// The file's entry.
        stat: Stat,
    },
    /// `size[4] Rwstat tag[2]`
    Wstat,
}

/// The `type[1]` byte of each message, from Plan 9's `fcall.h`.
pub(crate) mod kind {
    pub(crate) const TVERSION: u8 = 100;
    pub(crate) const RVERSION: u8 = 101;
    pub(crate) const TAUTH: u8 = 102;
    pub(crate) const RAUTH: u8 = 103;
    pub(crate) const TATTACH: u8 = 104;
    pub(crate) const RATTACH: u8 = 105;
    pub(crate) const RERROR: u8 = 107;
    pub(crate) const TFLUSH: u8 = 108;
    pub(crate) const RFLUSH: u8 = 109;
    pub(crate) const TWALK: u8 = 110;
    pub(crate) const RWALK: u8 = 111;
    pub(crate) const TOPEN: u8 = 112;
    pub(crate) const ROPEN: u8 = 113;
    pub(crate) const TCREATE: u8 = 114;
    pub(crate) const RCREATE: u8 = 115;
    pub(crate) const TREAD: u8 = 116;
    pub(crate) const RREAD: u8 = 117;
    pub(crate) const TWRITE: u8 = 118;
    pub(crate) const RWRITE: u8 = 119;
    pub(crate) const TCLUNK: u8 = 120;
    pub(crate) const RCLUNK: u8 = 121;
    pub(crate) const TREMOVE: u8 = 122;
    pub(crate) const RREMOVE: u8 = 123;
    pub(crate) const TSTAT: u8 = 124;
    pub(crate) const RSTAT: u8 = 125;
    pub(crate) const TWSTAT: u8 = 126;
    pub(crate) const RWSTAT: u8 = 127;
}
