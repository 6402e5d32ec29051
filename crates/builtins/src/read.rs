use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use serde::Deserialize;

use crate::encoding::Encoding;
use crate::error::Error;
use crate::name::Name;
use crate::version::Version;
use crate::{binary, kind, read_bytes, read_lines};

/// Text of one result, before its closing note. The catalogue's bound is
/// 64 KiB, so that nobody cuts what was cut here already.
pub(crate) const TEXT: usize = 60_000;

/// Bytes of the file that one result shows at most.
pub(crate) const BYTES: usize = 48 << 10;

/// By how much of a file its kind is judged.
const HEAD: usize = 64 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: Name,
    offset: Option<u64>,
    limit: Option<u64>,
    byte_offset: Option<i64>,
    byte_limit: Option<u64>,
    line_numbers: Option<bool>,
}

/// A file that is being read.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a Name,
    pub(crate) file: File,
    pub(crate) about: Metadata,
    /// Its beginning.
    pub(crate) head: Vec<u8>,
}

impl Source<'_> {
    pub(crate) fn size(&self) -> u64 {
        self.about.size()
    }

    /// Up to `count` bytes; fewer only at the end of the file.
    pub(crate) fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>, Error> {
        bytes_at(&self.file, offset, count).map_err(Error::io("read", self.name))
    }

    /// The closing note: the part that was shown, and what else is known.
    pub(crate) fn note(
        &self,
        part: &str,
        encoding: Encoding,
        more: &[String],
    ) -> Result<String, Error> {
        let version = match Version::of_file(&self.file, &self.about) {
            Ok(Some(version)) => version.to_string(),
            Ok(None) => "being written to while it was read".to_owned(),
            Err(error) => return Err(Error::io("read", self.name)(error)),
        };
        let mut words = vec![format!("{}: {part}", self.name)];
        words.extend_from_slice(more);
        words.push(encoding.to_string());
        words.push(version);
        Ok(format!("[{}]\n", words.join("; ")))
    }
}

/// Shows a part of a file.
pub(crate) fn run(arguments: &Arguments) -> Result<String, Error> {
    let name = &arguments.path;
    let lines = read_lines::Part {
        offset: arguments.offset.unwrap_or(1),
        limit: at_least_one("limit", arguments.limit.unwrap_or(2000))?,
        numbers: arguments.line_numbers.unwrap_or(true),
    };
    if lines.offset == 0 {
        return Err(Error::value("offset", "is 0: lines are counted from 1"));
    }
    let limit = at_least_one("byte_limit", arguments.byte_limit.unwrap_or(BYTES as u64))?;
    if arguments.byte_offset.is_some() && lines.offset != 1 {
        return Err(Error::value(
            "offset",
            "counts lines and cannot be combined with `byte_offset`",
        ));
    }
    let (file, about) = kind::open(name)?;
    let head = bytes_at(&file, 0, HEAD).map_err(Error::io("read", name))?;
    let source = Source {
        name,
        file,
        about,
        head,
    };
    match arguments.byte_offset {
        Some(offset) => read_bytes::run(&source, offset, limit),
        None => {
            binary::must_be_text(&source)?;
            read_lines::run(&source, &lines)
        }
    }
}

fn at_least_one(field: &'static str, value: u64) -> Result<u64, Error> {
    if value == 0 {
        return Err(Error::value(field, "is 0: nothing would be shown"));
    }
    Ok(value)
}

fn bytes_at(file: &File, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while let Some(space @ [_, ..]) = bytes.get_mut(filled..) {
        match file.read_at(space, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
