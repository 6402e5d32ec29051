use std::fmt;

/// Names one request while it is in flight; the client chooses it (intro(5)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tag(pub u16);

impl Tag {
    /// `NOTAG`, the tag of `Tversion`.
    pub const NONE: Tag = Tag(u16::MAX);
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Tag::NONE => f.write_str("NOTAG"),
            Tag(n) => write!(f, "{n}"),
        }
    }
}

/// Names one file of a connection; the client chooses it (intro(5)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fid(pub u32);

impl Fid {
    /// `NOFID`: "no authentication" where attach(5) takes an afid.
    pub const NONE: Fid = Fid(u32::MAX);
}

impl fmt::Display for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fid::NONE => f.write_str("NOFID"),
            Fid(n) => write!(f, "{n}"),
        }
    }
}
