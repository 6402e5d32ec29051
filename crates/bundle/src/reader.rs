use std::{
    collections::HashSet,
    io::{self, BufReader, Read, Take},
};

use liblzma::{bufread::XzDecoder, stream::Stream};
use tar::EntryType;

use crate::{Entry, Error, File, Manifest, limits, manifest::MANIFEST, path};

/// Bytes of zeros that may follow the archive: GNU tar fills up to 20 blocks.
const PADDING: u64 = 20 * 512;

/// Every byte a decoder hands out is counted against this, so that a small
/// file cannot expand without end: contents, and a header and a rounded block
/// for each of them.
const EXPANDED: u64 =
    limits::TOTAL + limits::MANIFEST + (limits::FILES as u64 + 2) * 1024 + PADDING;

/// An archive of which nothing is believed yet.
pub(crate) struct Reader<R: Read> {
    archive: tar::Archive<Take<XzDecoder<BufReader<R>>>>,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(bundle: R) -> Result<Self, Error> {
        let stream = Stream::new_stream_decoder(limits::DECODER, 0)
            .map_err(|error| damaged(error.into()))?;
        let decoder = XzDecoder::new_stream(BufReader::with_capacity(32 << 10, bundle), stream);
        Ok(Self {
            archive: tar::Archive::new(decoder.take(EXPANDED)),
        })
    }

    /// The manifest alone; nothing behind it is decompressed.
    pub(crate) fn manifest(mut self) -> Result<Manifest, Error> {
        let mut entries = self.archive.entries().map_err(damaged)?.raw(true);
        first(&mut entries)
    }

    /// Everything, verified; and the source, read to the archive's last byte.
    pub(crate) fn files(mut self) -> Result<(Manifest, Vec<File>, R), Error> {
        let mut entries = self.archive.entries().map_err(damaged)?.raw(true);
        let manifest = first(&mut entries)?;
        let mut seen = HashSet::new();
        let mut files = Vec::with_capacity(manifest.files().len());
        for expected in manifest.files() {
            let Some(entry) = entries.next() else {
                return Err(Error::Unexpected {
                    expected: expected.path().to_owned(),
                    found: "the end".to_owned(),
                });
            };
            files.push(file(entry.map_err(damaged)?, expected, &mut seen)?);
        }
        if let Some(entry) = entries.next() {
            let entry = entry.map_err(damaged)?;
            let found = regular_path(&entry)?;
            if seen.contains(&found) {
                return Err(Error::Conflict { path: found });
            }
            return Err(Error::Unexpected {
                expected: "the end".to_owned(),
                found,
            });
        }
        let source = end(self.archive.into_inner())?;
        Ok((manifest, files, source))
    }
}

type Entries<'a, R> = tar::Entries<'a, Take<XzDecoder<BufReader<R>>>>;
type RawEntry<'a, R> = tar::Entry<'a, Take<XzDecoder<BufReader<R>>>>;

fn first<R: Read>(entries: &mut Entries<'_, R>) -> Result<Manifest, Error> {
    let Some(entry) = entries.next() else {
        return Err(Error::Unexpected {
            expected: MANIFEST.to_owned(),
            found: "the end".to_owned(),
        });
    };
    let mut entry = entry.map_err(damaged)?;
    let found = kind_and_name(&entry)?;
    if found != MANIFEST {
        return Err(Error::Unexpected {
            expected: MANIFEST.to_owned(),
            found,
        });
    }
    if entry.size() > limits::MANIFEST {
        return Err(Error::TooLarge {
            what: format!("{MANIFEST} of {} bytes", entry.size()),
            limit: limits::MANIFEST,
        });
    }
    let json = contents(&mut entry, MANIFEST)?;
    Manifest::parse(&json)
}

fn file<R: Read>(
    mut entry: RawEntry<'_, R>,
    expected: &Entry,
    seen: &mut HashSet<String>,
) -> Result<File, Error> {
    let found = regular_path(&entry)?;
    if !seen.insert(found.clone()) {
        return Err(Error::Conflict { path: found });
    }
    if found != expected.path() {
        return Err(Error::Unexpected {
            expected: expected.path().to_owned(),
            found,
        });
    }
    let mismatch = |what| Error::Mismatch {
        path: expected.path().to_owned(),
        what,
    };
    if entry.header().mode().map_err(damaged)? != expected.mode().bits() {
        return Err(mismatch("mode"));
    }
    // The manifest's sizes are within the limits, so this is the bound of
    // what the next line reads.
    if entry.size() != expected.size() {
        return Err(mismatch("size"));
    }
    let contents = contents(&mut entry, expected.path())?;
    File::verified(expected.clone(), contents).ok_or_else(|| mismatch("SHA-256"))
}

/// The vector grows with what really arrives; a header that promises much
/// reserves nothing.
fn contents<R: Read>(entry: &mut RawEntry<'_, R>, path: &str) -> Result<Vec<u8>, Error> {
    let size = entry.size();
    let mut contents = Vec::new();
    entry.read_to_end(&mut contents).map_err(damaged)?;
    if contents.len() as u64 != size {
        return Err(Error::Mismatch {
            path: path.to_owned(),
            what: "size",
        });
    }
    Ok(contents)
}

fn regular_path<R: Read>(entry: &RawEntry<'_, R>) -> Result<String, Error> {
    let name = kind_and_name(entry)?;
    path::check(&name)?;
    Ok(name)
}

/// The name as the header has it, once the entry is known to be a file.
///
/// Extension entries (GNU long names, pax records) are refused with the rest:
/// they make two readers see two archives in the same bytes.
fn kind_and_name<R: Read>(entry: &RawEntry<'_, R>) -> Result<String, Error> {
    let header = entry.header();
    let kind = match header.entry_type() {
        EntryType::Regular => None,
        EntryType::Link => Some("a hard link"),
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::Char => Some("a character device"),
        EntryType::Block => Some("a block device"),
        EntryType::Directory => Some("a directory"),
        EntryType::Fifo => Some("a named pipe"),
        EntryType::GNULongName
        | EntryType::GNULongLink
        | EntryType::XGlobalHeader
        | EntryType::XHeader => Some("an extension header"),
        EntryType::GNUSparse => Some("a sparse file"),
        _ => Some("of an unknown kind"),
    };
    let bytes = header.path_bytes();
    if let Some(kind) = kind {
        return Err(Error::Kind {
            path: bytes.escape_ascii().to_string(),
            kind,
        });
    }
    match std::str::from_utf8(&bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::Path {
            path: bytes.escape_ascii().to_string(),
            why: "it is not UTF-8",
        }),
    }
}

/// After the two empty blocks only zeros may come, then the end of the xz
/// stream, then the end of the file.
fn end<R: Read>(mut rest: Take<XzDecoder<BufReader<R>>>) -> Result<R, Error> {
    let mut padding = Vec::new();
    rest.by_ref()
        .take(PADDING + 1)
        .read_to_end(&mut padding)
        .map_err(damaged)?;
    if padding.len() as u64 > PADDING || padding.iter().any(|byte| *byte != 0) {
        return Err(Error::Trailing);
    }
    let mut source = rest.into_inner().into_inner();
    let mut byte = [0];
    if source.read(&mut byte).map_err(damaged)? != 0 {
        return Err(Error::Trailing);
    }
    Ok(source.into_inner())
}

fn damaged(source: io::Error) -> Error {
    Error::Damaged { source }
}
