//! toolsrv as it travels.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use liblzma::stream::{Check, Filters, LzmaOptions, MtStreamBuilder, Stream};
use ollie_bundle::{Bundle, Digest};
use ollie_protocol::{Nonce, auth};

use crate::Error;

/// The preset of `xz -6`.
const PRESET: u32 = 6;
/// How far back a block looks, in bytes: the least that xz(1) knows, and the
/// preset's own.
const DICTIONARY_MIN: usize = 1 << 12;
const DICTIONARY_MAX: usize = 1 << 23;

/// How an upload is packed: the words stage 0 knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// xz(1) of XZ Utils: a filter for calls in machine code, which makes it by
    /// 4 % smaller than the next, and two blocks that two processors unpack
    /// side by side.
    XzUtils,
    /// Any xz(1), by a third smaller than the next.
    Xz,
    /// gzip(1), which even the smallest systems have.
    Gzip,
    /// As it is.
    Plain,
}

impl Packing {
    /// The best of those the host can unpack, this one or a simpler one.
    pub(crate) fn best(self, tools: &str, arch: &str) -> Self {
        let there = |name| tools.split(' ').any(|tool| tool == name);
        match self {
            Self::XzUtils if arch == "x86_64" && there("xz-utils") => Self::XzUtils,
            Self::XzUtils | Self::Xz if there("xz") => Self::Xz,
            Self::Plain => Self::Plain,
            _ if there("gzip") => Self::Gzip,
            _ => Self::Plain,
        }
    }

    /// What is left to try when this one did not arrive well.
    pub(crate) fn simpler(self) -> Option<Self> {
        match self {
            Self::XzUtils => Some(Self::Xz),
            Self::Xz => Some(Self::Gzip),
            Self::Gzip => Some(Self::Plain),
            Self::Plain => None,
        }
    }
}

impl std::fmt::Display for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::XzUtils => "xz-utils",
            Self::Xz => "xz",
            Self::Gzip => "gzip",
            Self::Plain => "plain",
        })
    }
}

/// Where a toolsrv of this sum is kept, for what takes long to make.
fn place(kept: &Path, digest: Digest, packing: Packing) -> Option<PathBuf> {
    matches!(packing, Packing::XzUtils | Packing::Xz)
        .then(|| kept.join(format!("{digest}.{packing}")))
}

/// Whether it takes long to pack it, because that was not done before.
pub(crate) fn takes_long(kept: Option<&Path>, digest: Digest, packing: Packing) -> bool {
    match kept {
        Some(kept) => place(kept, digest, packing).is_some_and(|place| !place.is_file()),
        None => matches!(packing, Packing::XzUtils | Packing::Xz),
    }
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
    let place = kept.and_then(|kept| place(kept, digest, packing));
    if let Some(place) = &place
        && let Ok(packed) = fs::read(place)
    {
        return Ok(packed);
    }
    let whole = Bundle::open(bundle).map_err(bad_bundle)?;
    let file = whole.toolsrv("linux", arch).map_err(bad_bundle)?;
    let contents = file.contents();
    let packed = match packing {
        Packing::Plain => Ok(contents.to_vec()),
        Packing::Gzip => gzip(contents),
        Packing::Xz => xz(contents),
        Packing::XzUtils => xz_utils(contents),
    };
    let packed = packed.map_err(cannot_pack)?;
    if let (Some(kept), Some(place)) = (kept, place) {
        // What cannot be kept is made again the next time.
        let _ = keep(kept, &place, &packed);
    }
    Ok(packed)
}

/// Forgets a kept upload, because it was not what the host expected.
pub(crate) fn forget(kept: &Path, digest: Digest, packing: Packing) {
    if let Some(place) = place(kept, digest, packing) {
        let _ = fs::remove_file(place);
    }
}

fn gzip(contents: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(contents)?;
    encoder.finish()
}

/// For busybox as well, which as Debian builds it has no filter for machine
/// code. And CRC32, which every xz knows.
fn xz(contents: &[u8]) -> io::Result<Vec<u8>> {
    let mut filters = Filters::new();
    filters.lzma2(&options()?);
    encode(
        contents,
        Stream::new_stream_encoder(&filters, Check::Crc32)?,
    )
}

/// Two halves with their sizes in front, which is what xz needs to know to
/// unpack both at once.
fn xz_utils(contents: &[u8]) -> io::Result<Vec<u8>> {
    let half = contents.len().div_ceil(2).max(1);
    let mut options = options()?;
    // The host needs this much memory for each, and more would not help.
    let most = half
        .next_power_of_two()
        .clamp(DICTIONARY_MIN, DICTIONARY_MAX);
    options.dict_size(u32::try_from(most).unwrap_or(u32::MAX));
    let mut filters = Filters::new();
    filters.x86().lzma2(&options);
    let stream = MtStreamBuilder::new()
        .threads(2)
        .block_size(half as u64)
        .filters(filters)
        .check(Check::Crc32)
        .encoder()?;
    encode(contents, stream)
}

/// One bit more of what goes before a byte than the preset has, which machine
/// code is 0.2 % smaller with.
fn options() -> io::Result<LzmaOptions> {
    let mut options = LzmaOptions::new_preset(PRESET)?;
    options.literal_context_bits(4);
    Ok(options)
}

fn encode(contents: &[u8], stream: Stream) -> io::Result<Vec<u8>> {
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(contents)?;
    encoder.finish()
}

fn keep(directory: &Path, place: &Path, contents: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let fresh = Nonce::random().map_err(|error| io::Error::other(error.to_string()))?;
    let staged = directory.join(format!(".{}", auth::to_hex(&fresh.as_bytes()[..8])));
    let written = fs::write(&staged, contents).and_then(|()| fs::rename(&staged, place));
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
        let best = |tools| Packing::XzUtils.best(tools, "x86_64");
        assert_eq!(best("sha256sum head xz xz-utils gzip"), Packing::XzUtils);
        assert_eq!(best("sha256sum head xz gzip"), Packing::Xz);
        assert_eq!(best("self dd gzip"), Packing::Gzip);
        assert_eq!(best("self dd"), Packing::Plain);
        assert_eq!(Packing::Gzip.best("xz gzipped", "x86_64"), Packing::Plain);
        assert_eq!(Packing::Plain.best("xz gzip", "x86_64"), Packing::Plain);
        // The filter is for one kind of machine code.
        let other = Packing::XzUtils.best("xz xz-utils", "aarch64");
        assert_eq!(other, Packing::Xz);
    }

    #[test]
    fn what_was_packed_is_kept_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("cache/packed");
        let digest = Digest::of(b"toolsrv");
        let long = |digest, packing| takes_long(Some(&kept), digest, packing);
        assert!(long(digest, Packing::Xz));
        let there = place(&kept, digest, Packing::Xz).unwrap();
        keep(&kept, &there, b"packed").unwrap();
        assert!(!long(digest, Packing::Xz) && long(digest, Packing::XzUtils));
        assert!(long(Digest::of(b"another"), Packing::Xz));
        assert!(!long(digest, Packing::Gzip));
        for at in [kept.as_path(), kept.parent().unwrap()] {
            assert_eq!(at.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        }
        forget(&kept, digest, Packing::Xz);
        assert!(long(digest, Packing::Xz));
    }

    /// What `xz` makes of it with these arguments.
    fn unpacked(packed: &[u8], arguments: &[&str]) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.xz");
        fs::write(&file, packed).unwrap();
        let output = std::process::Command::new("xz")
            .args(arguments)
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    #[test]
    fn xz_reads_back_what_was_packed() {
        for length in [0, 1, 2, 100_000_u32] {
            let contents: Vec<u8> = (0..length).flat_map(|n| (n / 7).to_le_bytes()).collect();
            assert!(unpacked(&xz(&contents).unwrap(), &["-dc"]) == contents);
            let packed = xz_utils(&contents).unwrap();
            assert!(unpacked(&packed, &["-qT0", "-dc"]) == contents);
        }
    }

    /// xz unpacks side by side what is in two blocks whose headers have their
    /// sizes (`u` and `c` among the block's properties of `xz -lvv`).
    #[test]
    fn xz_utils_find_two_halves() {
        let contents: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let packed = xz_utils(&contents).unwrap();
        let list = unpacked(&packed, &["--robot", "-lvv"]);
        let list = String::from_utf8(list).unwrap();
        let blocks: Vec<Vec<&str>> = list
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .filter(|fields| fields[0] == "block")
            .collect();
        assert_eq!(blocks.len(), 2, "{list}");
        for block in blocks {
            assert_eq!(block[7], "200000", "{list}");
            assert!(block.contains(&"cu"), "{list}");
            assert!(block.last().unwrap().starts_with("--x86 "), "{list}");
        }
    }
}
