//! The texts of this engine's `Rerror`s. They are stable: a client may compare them. Each says what to do.

/// An fid that names nothing.
pub const UNKNOWN_FID: &str = "unknown fid: attach or walk it first";
/// An fid that names something already.
pub const FID_IN_USE: &str = "fid is in use: clunk it first";
/// `NOFID` where a file is named.
pub const NO_FID: &str = "NOFID names no file: choose another number";
/// Too many fids at once.
pub const TOO_MANY_FIDS: &str = "too many fids: clunk some first";
/// Too many requests at once.
pub const TOO_MANY_REQUESTS: &str = "too many requests in flight: wait for answers first";
/// A tag whose request is not answered yet.
pub const TAG_IN_USE: &str = "tag is in use: wait for its answer or flush it first";
/// A request before the version was agreed on.
pub const VERSION_FIRST: &str = "no version agreed on: send Tversion first";
/// A Tversion with an msize nothing fits in.
pub const MSIZE_TOO_SMALL: &str = "msize is too small: offer at least 256";
/// `NOTAG` on something else than a Tversion.
pub const NO_TAG: &str = "NOTAG is for Tversion: choose another tag";
/// A message that cannot be understood.
pub const MALFORMED: &str = "malformed message: the connection is closed";
/// A message type outside of 9P2000.
pub const UNKNOWN_TYPE: &str = "unknown message type: only 9P2000 is spoken here";
/// A message over the limit.
pub const TOO_LONG: &str =
    "message is too long: keep to msize, and to 8192 bytes before Tattach is answered";
/// The answer is over msize.
pub const ANSWER_TOO_LONG: &str = "the answer does not fit msize: negotiate a larger one";
/// A Tauth to a server that needs none.
pub const AUTH_NOT_REQUIRED: &str = "authentication not required: attach with NOFID";
/// A Tattach whose afid is none, or was made for another uname or aname.
pub const AUTH_MISMATCH: &str =
    "afid does not authenticate this uname and aname: authenticate first";
/// Something that is not done to an authentication file.
pub const IS_AUTH_FILE: &str = "fid is an authentication file: read, write or clunk it only";
/// A walk from an open fid, or a second open.
pub const FID_IS_OPEN: &str = "fid is open: walk from another one";
/// I/O before open.
pub const FID_NOT_OPEN: &str = "fid is not open: open it first";
/// Tread on a fid open for writing.
pub const NOT_OPEN_FOR_READING: &str = "fid is not open for reading: open it with OREAD";
/// Twrite on a fid open for reading.
pub const NOT_OPEN_FOR_WRITING: &str = "fid is not open for writing: open it with OWRITE";
/// An open mode that is not supported.
pub const OPEN_MODE: &str = "open mode not supported: use OREAD, OWRITE, ORDWR, OEXEC, OTRUNC";
/// A walk through a file.
pub const NOT_A_DIRECTORY: &str = "not a directory: walk to one first";
/// A directory opened for anything but reading.
pub const IS_A_DIRECTORY: &str = "is a directory: open it with OREAD";
/// A name that is not there.
pub const NOT_FOUND: &str = "file does not exist";
/// A name that no file can have.
pub const BAD_NAME: &str = "bad name: no /, no NUL, not empty, not .";
/// A path deeper than the engine follows.
pub const TOO_DEEP: &str = "path is too deep: walk from a nearer directory";
/// What the file does not allow.
pub const PERMISSION_DENIED: &str = "permission denied";
/// A directory read at an offset between entries.
pub const DIRECTORY_OFFSET: &str =
    "bad offset in a directory: go on where the last read ended, or at 0";
/// A directory read too short for its next entry.
pub const DIRECTORY_COUNT: &str = "count is too small for a directory entry: read more";
/// The request was cancelled by a clunk or a new version.
pub const INTERRUPTED: &str = "interrupted: the fid was clunked or the session reset";
/// A handler failed; nothing is known about what it did.
pub const INTERNAL: &str = "internal error of the server";
