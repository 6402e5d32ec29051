use std::fmt::{self, Write as _};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Files up to this size are told apart by their content.
pub(crate) const HASHED: u64 = 8 << 20;

/// How many characters of a hash are shown and at least asked for. It is to
/// notice a change, not to withstand an attack.
const DIGITS: usize = 16;

/// What tells one content of a file from another: `sha256:` and the first 16
/// digits of the hash, or for a file above 8 MiB `stat:` with size, time of
/// the last change and inode number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// All digits, or the whole of the other form.
    full: String,
}

impl Version {
    pub(crate) fn of_content(content: &[u8]) -> Self {
        Self::of_digest(&Sha256::digest(content))
    }

    /// The version of a file that was just given this content.
    pub(crate) fn of_new(path: &Path, content: &[u8]) -> Self {
        match path.metadata() {
            Ok(about) if content.len() as u64 > HASHED => Self::of_metadata(&about),
            _ => Self::of_content(content),
        }
    }

    fn of_digest(digest: &[u8]) -> Self {
        let mut full = String::from("sha256:");
        for byte in digest {
            let _ = write!(full, "{byte:02x}");
        }
        Self { full }
    }

    pub(crate) fn of_metadata(about: &Metadata) -> Self {
        let (size, inode) = (about.size(), about.ino());
        let (seconds, nanoseconds) = (about.mtime(), about.mtime_nsec());
        Self {
            full: format!("stat:{size}-{seconds}.{nanoseconds:09}-{inode}"),
        }
    }

    /// Reads as much of the file as that takes. `None` when the file was
    /// changed meanwhile: then nothing that was read has a version.
    pub(crate) fn of_file(file: &File, before: &Metadata) -> io::Result<Option<Self>> {
        let version = if before.size() > HASHED {
            Self::of_metadata(before)
        } else {
            let mut hash = Sha256::new();
            let mut block = [0; 32 << 10];
            let mut offset = 0;
            loop {
                let count = file.read_at(&mut block, offset)?;
                let Some(read @ [_, ..]) = block.get(..count) else {
                    break;
                };
                hash.update(read);
                offset += count as u64;
                if offset > HASHED {
                    // It grows, or is made up by the kernel.
                    return Ok(None);
                }
            }
            Self::of_digest(&hash.finalize())
        };
        Ok(same_state(before, &file.metadata()?).then_some(version))
    }

    /// Whether this is the version that somebody expects, who may know more
    /// digits than are shown, with `sha256:` or without.
    pub(crate) fn is(&self, expected: &str) -> bool {
        let expected = expected.trim();
        if expected == self.full {
            return true;
        }
        let digits = expected.strip_prefix("sha256:").unwrap_or(expected);
        let own = self.full.strip_prefix("sha256:");
        digits.len() >= DIGITS
            && own.is_some_and(|own| own.starts_with(&digits.to_ascii_lowercase()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.full.starts_with("sha256:") {
            let shown = self.full.get(.."sha256:".len() + DIGITS);
            f.write_str(shown.unwrap_or(&self.full))
        } else {
            f.write_str(&self.full)
        }
    }
}

/// Whether it is the same file with the same content and attributes, as far
/// as the kernel tells.
pub(crate) fn same_state(one: &Metadata, other: &Metadata) -> bool {
    let state = |about: &Metadata| {
        let times = (
            about.mtime(),
            about.mtime_nsec(),
            about.ctime(),
            about.ctime_nsec(),
        );
        (about.dev(), about.ino(), about.size(), times)
    };
    state(one) == state(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_beginning_of_the_hash() {
        // FIPS 180-2, appendix B.1: SHA-256 of "abc".
        let all = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let version = Version::of_content(b"abc");
        assert_eq!(version.to_string(), "sha256:ba7816bf8f01cfea");
        for good in [
            all,
            "ba7816bf8f01cfea",
            "sha256:BA7816BF8F01CFEA",
            "ba7816bf8f01cfea4141",
        ] {
            assert!(version.is(good), "{good}");
        }
        for bad in ["", "sha256:", "ba7816", "ba7816bf8f01cfeb", "stat:3-0.0-1"] {
            assert!(!version.is(bad), "{bad}");
        }
    }
}
