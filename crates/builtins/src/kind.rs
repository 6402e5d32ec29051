use std::fs::{File, FileType, Metadata};
use std::os::unix::fs::FileTypeExt as _;

use rustix::fs::{Mode, OFlags};

use crate::error::Error;
use crate::name::Name;

/// Opens a regular file for reading, and nothing else, without ever waiting.
///
/// The kind is looked at before the open, because opening some devices has an
/// effect, and after it, because the path may mean something else by then.
pub(crate) fn open(name: &Name) -> Result<(File, Metadata), Error> {
    let about = std::fs::metadata(name.path()).map_err(Error::io("open", name))?;
    must_be_regular(name, about.file_type())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(name.path(), flags, Mode::empty())
        .map_err(Error::io("open", name))?
        .into();
    let about = file.metadata().map_err(Error::io("look at", name))?;
    must_be_regular(name, about.file_type())?;
    Ok((file, about))
}

pub(crate) fn must_be_regular(name: &Name, kind: FileType) -> Result<(), Error> {
    if kind.is_file() {
        return Ok(());
    }
    let hint = if kind.is_dir() {
        "; file_glob lists what is in it"
    } else {
        "; this tool takes regular files only"
    };
    Err(Error::Kind {
        name: name.clone(),
        kind: word(kind).to_owned(),
        hint: hint.to_owned(),
    })
}

fn word(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO (named pipe)"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_block_device() {
        "a block device"
    } else {
        "not a regular file"
    }
}
