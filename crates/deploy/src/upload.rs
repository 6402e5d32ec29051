//! toolsrv as it travels.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use liblzma::stream::{Check, Stream};
use ollie_bundle::{Bundle, Digest};
use ollie_protocol::{Nonce, auth};

use crate::Error;

/// The preset of `xz -6`.
const PRESET: u32 = 6;

/// How an upload is packed: the words stage 0 knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// xz(1), by a third smaller than the next.
    Xz,
    /// gzip(1), which even the smallest systems have.
    Gzip,
    /// As it is.
    Plain,
}

impl Packing {
    /// The best of those the host can unpack, this one or a simpler one.
    pub(crate) fn best(self, tools: &str) -> Self {
        let there = |name| tools.split(' ').any(|tool| tool == name);
        match self {
            Self::Xz if there("xz") => Self::Xz,
            Self::Xz | Self::Gzip if there("gzip") => Self::Gzip,
            _ => Self::Plain,
        }
    }

    /// What is left to try when this one did not arrive well.
    pub(crate) fn simpler(self) -> Option<Self> {
        match self {
            Self::Xz => Some(Self::Gzip),
            Self::Gzip => Some(Self::Plain),
            Self::Plain => None,
        }
    }
}

impl std::fmt::Display for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Xz => "xz",
            Self::Gzip => "gzip",
            Self::Plain => "plain",
        })
    }
}

/// Whether the toolsrv of this sum was packed before.
pub(crate) fn is_kept(kept: &Path, digest: Digest) -> bool {
    place(kept, digest).is_file()
}

/// Where it is kept.
fn place(kept: &Path, digest: Digest) -> PathBuf {
    kept.join(format!("{digest}.{}", Packing::Xz))
}

/// The bundle's toolsrv for a platform, which has this sum, packed. `kept` is
/// a directory for what took long to make: xz needs seconds for what it packs.
pub(crate) fn pack(
    bundle: &Path,
    arch: &str,
    digest: Digest,
    packing: Packing,
    kept: Option<&Path>,
) -> Result<Vec<u8>, Error> {
    let bad_bundle = |source| Error::Bundle {
        path: bundle.to_owned(),
        source,
    };
    let cannot_pack = |source| Error::Pack { source };
    // Of many uploads at once, one packs and the others find it kept.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Packing::Xz, Some(kept)) = (packing, kept)
        && let Ok(packed) = fs::read(place(kept, digest))
    {
        return Ok(packed);
    }
    let whole = Bundle::open(bundle).map_err(bad_bundle)?;
    let file = whole.toolsrv("linux", arch).map_err(bad_bundle)?;
    match packing {
        Packing::Plain => Ok(file.contents().to_vec()),
        Packing::Gzip => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(file.contents()).map_err(cannot_pack)?;
            encoder.finish().map_err(cannot_pack)
        }
        Packing::Xz => {
            let packed = xz(file.contents()).map_err(cannot_pack)?;
            if let Some(kept) = kept {
                // What cannot be kept is made again the next time.
                let _ = keep(kept, digest, &packed);
            }
            Ok(packed)
        }
    }
}

/// Forgets a kept upload, because it was not what the host expected.
pub(crate) fn forget(kept: &Path, digest: Digest) {
    let _ = fs::remove_file(place(kept, digest));
}

/// No filter for calls in machine code, which would save 4 %: busybox built as
/// Debian does cannot undo it. And CRC32, which every xz knows.
fn xz(contents: &[u8]) -> io::Result<Vec<u8>> {
    let stream = Stream::new_easy_encoder(PRESET, Check::Crc32)?;
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(contents)?;
    encoder.finish()
}

fn keep(directory: &Path, digest: Digest, contents: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let fresh = Nonce::random().map_err(|error| io::Error::other(error.to_string()))?;
    let staged = directory.join(format!(".{}", auth::to_hex(&fresh.as_bytes()[..8])));
    let written =
        fs::write(&staged, contents).and_then(|()| fs::rename(&staged, place(directory, digest)));
    if written.is_err() {
        let _ = fs::remove_file(&staged);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_packing_that_the_host_can_undo_is_taken() {
        assert_eq!(Packing::Xz.best("sha256sum head xz gzip"), Packing::Xz);
        assert_eq!(Packing::Xz.best("self dd gzip"), Packing::Gzip);
        assert_eq!(Packing::Xz.best("self dd"), Packing::Plain);
        assert_eq!(Packing::Gzip.best("xz gzipped"), Packing::Plain);
    }

    #[test]
    fn what_was_packed_is_kept_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("cache/packed");
        let digest = Digest::of(b"toolsrv");
        assert!(!is_kept(&kept, digest));
        keep(&kept, digest, b"packed").unwrap();
        assert!(is_kept(&kept, digest) && !is_kept(&kept, Digest::of(b"another")));
        for at in [kept.as_path(), kept.parent().unwrap()] {
            assert_eq!(at.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        }
        forget(&kept, digest);
        assert!(!is_kept(&kept, digest));
    }

    #[test]
    fn xz_reads_back_what_was_packed() {
        let contents: Vec<u8> = (0..100_000_u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.xz");
        fs::write(&file, xz(&contents).unwrap()).unwrap();
        let output = std::process::Command::new("xz")
            .arg("-dc")
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.stdout == contents);
    }
}
