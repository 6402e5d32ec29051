//! One line a message, in the manner of Plan 9's `%F`. Data and proofs are never shown, only how long they are.

use std::fmt::{self, Display, Formatter};

use super::ids::Tag;
use super::message::{Rmessage, Tmessage};

/// A message with its tag, as a trace prints it.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<'a, M>(pub Tag, pub &'a M);

impl Display for Tagged<'_, Tmessage> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Tagged(tag, message) = self;
        match message {
            Tmessage::Version { msize, version } => {
                write!(f, "Tversion tag {tag} msize {msize} version {version:?}")
            }
            Tmessage::Auth { afid, uname, aname } => write!(
                f,
                "Tauth tag {tag} afid {afid} uname {uname:?} aname {aname:?}"
            ),
            Tmessage::Attach {
                fid,
                afid,
                uname,
                aname,
            } => write!(
                f,
                "Tattach tag {tag} fid {fid} afid {afid} uname {uname:?} aname {aname:?}"
            ),
            Tmessage::Flush { oldtag } => write!(f, "Tflush tag {tag} oldtag {oldtag}"),
            Tmessage::Walk { fid, newfid, names } => write!(
                f,
                "Twalk tag {tag} fid {fid} newfid {newfid} names {names:?}"
            ),
            Tmessage::Open { fid, mode } => write!(f, "Topen tag {tag} fid {fid} mode {mode:#x}"),
            Tmessage::Create {
                fid,
                name,
                perm,
                mode,
            } => write!(
                f,
                "Tcreate tag {tag} fid {fid} name {name:?} perm {perm:#o} mode {mode:#x}"
            ),
            Tmessage::Read { fid, offset, count } => {
                write!(f, "Tread tag {tag} fid {fid} offset {offset} count {count}")
            }
            Tmessage::Write { fid, offset, data } => write!(
                f,
                "Twrite tag {tag} fid {fid} offset {offset} count {}",
                data.len()
            ),
            Tmessage::Clunk { fid } => write!(f, "Tclunk tag {tag} fid {fid}"),
            Tmessage::Remove { fid } => write!(f, "Tremove tag {tag} fid {fid}"),
            Tmessage::Stat { fid } => write!(f, "Tstat tag {tag} fid {fid}"),
            Tmessage::Wstat { fid, stat } => write!(f, "Twstat tag {tag} fid {fid} stat {stat}"),
        }
    }
}

impl Display for Tagged<'_, Rmessage> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Tagged(tag, message) = self;
        match message {
            Rmessage::Version { msize, version } => {
                write!(f, "Rversion tag {tag} msize {msize} version {version:?}")
            }
            Rmessage::Auth { aqid } => write!(f, "Rauth tag {tag} aqid {aqid}"),
            Rmessage::Attach { qid } => write!(f, "Rattach tag {tag} qid {qid}"),
            Rmessage::Error { ename } => write!(f, "Rerror tag {tag} ename {ename:?}"),
            Rmessage::Flush => write!(f, "Rflush tag {tag}"),
            Rmessage::Walk { qids } => {
                write!(f, "Rwalk tag {tag} qids")?;
                qids.iter().try_for_each(|qid| write!(f, " {qid}"))
            }
            Rmessage::Open { qid, iounit } => {
                write!(f, "Ropen tag {tag} qid {qid} iounit {iounit}")
            }
            Rmessage::Create { qid, iounit } => {
                write!(f, "Rcreate tag {tag} qid {qid} iounit {iounit}")
            }
            Rmessage::Read { data } => write!(f, "Rread tag {tag} count {}", data.len()),
            Rmessage::Write { count } => write!(f, "Rwrite tag {tag} count {count}"),
            Rmessage::Clunk => write!(f, "Rclunk tag {tag}"),
            Rmessage::Remove => write!(f, "Rremove tag {tag}"),
            Rmessage::Stat { stat } => write!(f, "Rstat tag {tag} stat {stat}"),
            Rmessage::Wstat => write!(f, "Rwstat tag {tag}"),
        }
    }
}
