//! The one form a tar header of ours has.

use std::io::{self, Write};

use liblzma::{
    stream::{Check, Stream},
    write::XzEncoder,
};

use crate::{Error, Manifest, Mode, manifest::MANIFEST};

/// The preset of `xz -6`: 8 MiB of dictionary, 9 MiB to decode.
const PRESET: u32 = 6;

/// One second after the epoch, as in a Nix store: a time that says nothing,
/// and that GNU tar does not call implausible when unpacking, as it does 0.
const MTIME: u64 = 1;

/// Compresses the manifest and the files it names, `contents` in its order.
pub(crate) fn write(manifest: &Manifest, contents: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    // `XzEncoder::new` may use whatever a library thinks best; the stream is
    // made here so that preset, check and the single thread are ours.
    let stream =
        Stream::new_easy_encoder(PRESET, Check::Crc64).map_err(|error| damaged(error.into()))?;
    let encoder = XzEncoder::new_stream(Vec::new(), stream);
    let mut archive = tar::Builder::new(encoder);
    append(&mut archive, MANIFEST, Mode::Plain, &manifest.to_json()?).map_err(damaged)?;
    for (entry, contents) in manifest.files().iter().zip(contents) {
        append(&mut archive, entry.path(), entry.mode(), contents).map_err(damaged)?;
    }
    let encoder = archive.into_inner().map_err(damaged)?;
    encoder.finish().map_err(damaged)
}

/// GNU headers, not ustar: GNU tar writes the former alike in the versions
/// that distributions have, the latter not, and a bundle should be one that
/// other people's tar can make again.
fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    path: &str,
    mode: Mode,
    contents: &[u8],
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(mode.bits());
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(MTIME);
    header.set_size(contents.len() as u64);
    header.set_path(path)?;
    header.set_cksum();
    archive.append(&header, contents)
}

fn damaged(source: io::Error) -> Error {
    Error::Damaged { source }
}
