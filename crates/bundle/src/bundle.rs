use std::{
    fmt, fs,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest as _, Sha256};

use crate::{Digest, Entry, Error, Manifest, limits, reader::Reader};

/// A bundle that was read to its end, every byte of it verified.
#[derive(Debug)]
pub struct Bundle {
    manifest: Manifest,
    files: Vec<File>,
    sha256: Digest,
}

/// One file of a [`Bundle`]: what the manifest says, and the bytes for which
/// that is true.
#[derive(Clone)]
pub struct File {
    entry: Entry,
    contents: Vec<u8>,
}

impl Bundle {
    /// Reads and verifies a bundle file.
    ///
    /// Costs the memory of all its files, at most [`limits::TOTAL`]. Where
    /// the manifest is enough, [`Manifest::read`] is some hundred times
    /// faster.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read; otherwise what is wrong with
    /// it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = fs::File::open(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::read_from(file)
    }

    /// [`Bundle::open`] from an open file or from bytes, which must hold the
    /// bundle and nothing behind it.
    ///
    /// # Errors
    /// As [`Bundle::open`], but a failed read is [`Error::Damaged`].
    pub fn read_from(bundle: impl Read) -> Result<Self, Error> {
        let hashed = Hashed {
            inner: bundle,
            hasher: Sha256::new(),
            left: limits::COMPRESSED,
        };
        let (manifest, files, hashed) = Reader::new(hashed)?.files()?;
        Ok(Self {
            manifest,
            files,
            sha256: Digest::finish(hashed.hasher),
        })
    }

    /// What the bundle says of itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All files, sorted by path; the manifest is not among them.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The file of this path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        let at = self
            .files
            .binary_search_by(|file| file.entry.path().cmp(path));
        at.ok().map(|at| &self.files[at])
    }

    /// The toolsrv for a platform, as [`Manifest::toolsrv`].
    ///
    /// # Errors
    /// [`Error::NoToolsrv`], naming the platforms that are there.
    pub fn toolsrv(&self, os: &str, arch: &str) -> Result<&File, Error> {
        let entry = self.manifest.toolsrv(os, arch)?;
        self.file(entry.path()).ok_or_else(|| Error::Unexpected {
            expected: entry.path().to_owned(),
            found: "the end".to_owned(),
        })
    }

    /// The SHA-256 of the bundle file itself.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        self.sha256
    }
}

impl File {
    /// `None` if the contents are not what the entry promises.
    pub(crate) fn verified(entry: Entry, contents: Vec<u8>) -> Option<Self> {
        (Digest::of(&contents) == entry.sha256()).then_some(Self { entry, contents })
    }

    /// Path, mode, size and hash.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The bytes.
    #[must_use]
    pub fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// The bytes, without copying them.
    #[must_use]
    pub fn into_contents(self) -> Vec<u8> {
        self.contents
    }
}

/// A program of two megabytes is no use in a log.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

/// Hashes what passes, and stops a source that does not end.
struct Hashed<R> {
    inner: R,
    hasher: Sha256,
    left: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(format!("larger than {} bytes", limits::COMPRESSED)))?;
        Ok(count)
    }
}
