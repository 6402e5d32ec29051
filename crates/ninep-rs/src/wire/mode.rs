use crate::Error;

/// How `Topen` and `Tcreate` open a file: `mode[1]` of open(5).
///
/// Remove-on-close (`ORCLOSE`, 0x40) is not part of it: this engine refuses it with an Rerror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenMode {
    /// What the fid may be used for afterwards.
    pub access: Access,
    /// `OTRUNC` (0x10): the file is emptied first.
    pub truncate: bool,
}

/// The two low bits of an open mode (open(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// `OREAD`, 0.
    Read,
    /// `OWRITE`, 1.
    Write,
    /// `ORDWR`, 2.
    ReadWrite,
    /// `OEXEC`, 3: read, provided that the file may be executed.
    Execute,
}

impl OpenMode {
    /// `OREAD`
    pub const READ: OpenMode = OpenMode::new(Access::Read);
    /// `OWRITE`
    pub const WRITE: OpenMode = OpenMode::new(Access::Write);
    /// `ORDWR`
    pub const READ_WRITE: OpenMode = OpenMode::new(Access::ReadWrite);

    const TRUNCATE: u8 = 0x10;

    /// That access, without truncation.
    #[must_use]
    pub const fn new(access: Access) -> Self {
        OpenMode {
            access,
            truncate: false,
        }
    }

    /// The mode of a `mode[1]` byte.
    ///
    /// # Errors
    /// [`Error::OpenMode`] for a bit that is neither access nor `OTRUNC`.
    pub const fn from_wire(byte: u8) -> Result<Self, Error> {
        if byte & !(3 | Self::TRUNCATE) != 0 {
            return Err(Error::OpenMode(byte));
        }
        Ok(OpenMode {
            access: match byte & 3 {
                0 => Access::Read,
                1 => Access::Write,
                2 => Access::ReadWrite,
                _ => Access::Execute,
            },
            truncate: byte & Self::TRUNCATE != 0,
        })
    }

    /// The `mode[1]` byte.
    #[must_use]
    pub const fn to_wire(self) -> u8 {
        let access = match self.access {
            Access::Read => 0,
            Access::Write => 1,
            Access::ReadWrite => 2,
            Access::Execute => 3,
        };
        if self.truncate {
            access | Self::TRUNCATE
        } else {
            access
        }
    }

    /// Whether Tread is allowed on a fid opened so.
    #[must_use]
    pub const fn reads(self) -> bool {
        !matches!(self.access, Access::Write)
    }

    /// Whether Twrite is allowed on a fid opened so.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self.access, Access::Write | Access::ReadWrite)
    }

    /// Whether permission bits `mode` (stat(5)) let anybody at all open the file so.
    pub(crate) const fn permitted_by(self, mode: u32) -> bool {
        let needs = match self.access {
            Access::Read => 0o4,
            Access::Write => 0o2,
            Access::ReadWrite => 0o6,
            Access::Execute => 0o1,
        } | if self.truncate { 0o2 } else { 0 };
        let anybody = (mode | mode >> 3 | mode >> 6) & 0o7;
        anybody & needs == needs
    }
}
