//! 9P2000 on the wire. Nothing here does I/O.

mod decode;
mod display;
mod encode;
mod frames;
mod ids;
pub(crate) mod message;
mod mode;
mod qid;
mod stat;

pub(crate) use frames::HEADER;
pub use {
    display::Tagged,
    frames::Frames,
    ids::{Fid, Tag},
    message::{IO_HEADER, MAX_WALK, Rmessage, Tmessage, VERSION},
    mode::{Access, OpenMode},
    qid::Qid,
    stat::Stat,
};
