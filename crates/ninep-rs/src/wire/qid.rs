use std::fmt;

/// The server's own name of a file: `type[1] version[4] path[8]` (intro(5)).
///
/// Two files of one server are the same file exactly if their `path` is equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Qid {
    /// A union of [`Qid::DIR`], [`Qid::APPEND`], [`Qid::EXCLUSIVE`] and [`Qid::AUTH`]; zero is a plain file.
    pub kind: u8,
    /// Changes whenever the content changes; append-only logs may count bytes or writes here.
    pub version: u32,
    /// Unique among the files of the server, for its whole life.
    pub path: u64,
}

impl Qid {
    /// Bytes of a qid on the wire.
    pub const SIZE: usize = 13;
    /// `QTDIR`: a directory.
    pub const DIR: u8 = 0x80;
    /// `QTAPPEND`: the offset of a write is ignored, data goes to the end.
    pub const APPEND: u8 = 0x40;
    /// `QTEXCL`: one opener at a time.
    pub const EXCLUSIVE: u8 = 0x20;
    /// `QTAUTH`: the authentication file of auth(5).
    pub const AUTH: u8 = 0x08;

    /// A plain file of version 0.
    #[must_use]
    pub const fn file(path: u64) -> Self {
        Qid {
            kind: 0,
            version: 0,
            path,
        }
    }

    /// A directory of version 0.
    #[must_use]
    pub const fn directory(path: u64) -> Self {
        Qid {
            kind: Self::DIR,
            version: 0,
            path,
        }
    }

    /// An authentication file of version 0.
    #[must_use]
    pub const fn auth(path: u64) -> Self {
        Qid {
            kind: Self::AUTH,
            version: 0,
            path,
        }
    }

    /// Whether this names a directory.
    #[must_use]
    pub const fn is_dir(&self) -> bool {
        self.kind & Self::DIR != 0
    }
}

impl fmt::Display for Qid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:016x} {} {:02x})", self.path, self.version, self.kind)
    }
}
