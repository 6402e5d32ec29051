use std::fmt;

use bytes::{Bytes, BytesMut};

use super::decode::Cursor;
use super::encode::Builder;
use super::qid::Qid;
use crate::Error;

/// What a directory says of a file: stat(5).
///
/// On the wire `size[2] type[2] dev[4] qid[13] mode[4] atime[4] mtime[4] length[8] name[s] uid[s] gid[s] muid[s]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// For the kernel's use; servers send zero.
    pub kind: u16,
    /// For the kernel's use; servers send zero.
    pub dev: u32,
    /// The file's qid.
    pub qid: Qid,
    /// Permission bits and `DMDIR` and its like ([`Stat::DIR`], [`Stat::APPEND`]).
    pub mode: u32,
    /// Last read, seconds since 1970.
    pub atime: u32,
    /// Last change, seconds since 1970.
    pub mtime: u32,
    /// Bytes of the file; zero for a directory.
    pub length: u64,
    /// The last element of the file's path; `/` for a root.
    pub name: String,
    /// Owner.
    pub uid: String,
    /// Group.
    pub gid: String,
    /// Who changed the file last.
    pub muid: String,
}

impl Stat {
    /// `DMDIR`: a directory.
    pub const DIR: u32 = 0x8000_0000;
    /// `DMAPPEND`: append only.
    pub const APPEND: u32 = 0x4000_0000;
    /// `DMEXCL`: one opener at a time.
    pub const EXCLUSIVE: u32 = 0x2000_0000;

    /// A file of length 0, its `DM` bits taken from the qid, times 0, owner, group and modifier `none`.
    #[must_use]
    pub fn new(name: &str, qid: Qid, permissions: u32) -> Self {
        Stat {
            kind: 0,
            dev: 0,
            qid,
            mode: permissions & 0o777 | u32::from(qid.kind) << 24,
            atime: 0,
            mtime: 0,
            length: 0,
            name: name.to_owned(),
            uid: "none".to_owned(),
            gid: "none".to_owned(),
            muid: "none".to_owned(),
        }
    }

    /// The same with another length.
    #[must_use]
    pub fn with_length(mut self, length: u64) -> Self {
        self.length = length;
        self
    }

    /// The same with another owner, who is its group and modifier too.
    #[must_use]
    pub fn with_owner(mut self, owner: &str) -> Self {
        for field in [&mut self.uid, &mut self.gid, &mut self.muid] {
            owner.clone_into(field);
        }
        self
    }

    /// The `Twstat` that changes nothing: every field "don't touch" (stat(5)). Set what is to change.
    #[must_use]
    pub fn untouched() -> Self {
        Stat {
            kind: u16::MAX,
            dev: u32::MAX,
            qid: Qid {
                kind: u8::MAX,
                version: u32::MAX,
                path: u64::MAX,
            },
            mode: u32::MAX,
            atime: u32::MAX,
            mtime: u32::MAX,
            length: u64::MAX,
            name: String::new(),
            uid: String::new(),
            gid: String::new(),
            muid: String::new(),
        }
    }

    /// Appends the wire form.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the strings together exceed 65535 bytes; nothing is appended then.
    pub fn encode(&self, to: &mut BytesMut) -> Result<(), Error> {
        let mut out = Builder::new(to);
        out.stat(self)?;
        out.keep();
        Ok(())
    }

    /// The entries of a directory, from what reading it gave (read(5)).
    ///
    /// # Errors
    /// [`Error::Malformed`] unless `data` is a whole number of entries.
    pub fn decode_all(data: Bytes) -> Result<Vec<Self>, Error> {
        let mut cursor = Cursor::new(data);
        let mut stats = Vec::new();
        while !cursor.is_empty() {
            stats.push(cursor.stat()?);
        }
        Ok(stats)
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} {:?} {:?} {:?} q {} m {:#o} at {} mt {} l {} t {} d {}",
            self.name,
            self.uid,
            self.gid,
            self.muid,
            self.qid,
            self.mode,
            self.atime,
            self.mtime,
            self.length,
            self.kind,
            self.dev
        )
    }
}
