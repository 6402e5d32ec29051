use std::{fs, io::Read, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Digest, Error, Mode, limits, path, reader::Reader};

/// The name of a bundle's first entry.
pub const MANIFEST: &str = "manifest.json";

/// The format this version writes, and the only one it reads. It changes with
/// any change of the manifest's shape or of the archive's rules.
pub const FORMAT: u64 = 1;

/// What a bundle says it holds.
///
/// As JSON: `{"format": 1, "ollie": "0.1.0", "files": [...]}`, keys in this
/// order, two spaces of indentation, a newline at the end. A key that is not
/// known is an error: format 1 has no room for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u64,
    ollie: String,
    files: Vec<Entry>,
}

/// One file of a [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    path: String,
    mode: Mode,
    size: u64,
    sha256: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Entry {
    pub(crate) fn new(path: String, mode: Mode, contents: &[u8], note: Option<String>) -> Self {
        Self {
            path,
            mode,
            size: contents.len() as u64,
            sha256: Digest::of(contents),
            note,
        }
    }

    /// Where the file lies in the bundle: relative, at most 100 bytes, of the
    /// characters `A-Z a-z 0-9 . _ + - /`, without `.` or `..` components.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it may be run.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its length in bytes, at most [`limits::FILE`].
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The SHA-256 of its contents: the name under which a host caches it.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        self.sha256
    }

    /// For a person: how a program was built, for instance
    /// `static musl, cargo`. It is what two bundles of one source may differ
    /// in besides the program itself. Default: none.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Manifest {
    /// Reads the manifest of a bundle file and nothing behind it.
    ///
    /// The manifest is checked, the files it names are not: their bytes are
    /// verified by [`Bundle::open`](crate::Bundle::open).
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read; otherwise what makes it no
    /// bundle of ours.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = fs::File::open(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::read_from(file)
    }

    /// [`Manifest::read`] from an open file or from bytes. It reads no more
    /// than it needs, in pieces of 32 KiB.
    ///
    /// # Errors
    /// As [`Manifest::read`], but a failed read is [`Error::Damaged`].
    pub fn read_from(bundle: impl Read) -> Result<Self, Error> {
        Reader::new(bundle)?.manifest()
    }

    pub(crate) fn new(ollie: String, files: Vec<Entry>) -> Self {
        Self {
            format: FORMAT,
            ollie,
            files,
        }
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Head {
            format: u64,
        }
        let bad = |error: serde_json::Error| Error::Manifest {
            why: error.to_string(),
        };
        // The number is looked at first: a later format should be told apart
        // from a broken file, whatever else it contains.
        let head: Head = serde_json::from_slice(json).map_err(bad)?;
        if head.format != FORMAT {
            return Err(Error::Format {
                found: head.format,
                known: FORMAT,
            });
        }
        let manifest: Self = serde_json::from_slice(json).map_err(bad)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// What must hold before any entry is believed. Paths in strictly rising
    /// order are what rules out duplicates, here and in the archive.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.files.len() > limits::FILES {
            return Err(Error::TooLarge {
                what: format!("a count of {} files", self.files.len()),
                limit: limits::FILES as u64,
            });
        }
        let mut total = 0_u64;
        let mut previous: Option<&Entry> = None;
        for entry in &self.files {
            path::check(&entry.path)?;
            if entry.size > limits::FILE {
                return Err(Error::TooLarge {
                    what: format!("{} of {} bytes", entry.path, entry.size),
                    limit: limits::FILE,
                });
            }
            // No overflow: at most 4096 times 32 MiB.
            total += entry.size;
            if let Some(previous) = previous {
                if previous.path == entry.path {
                    return Err(Error::Conflict {
                        path: entry.path.clone(),
                    });
                }
                if previous.path > entry.path {
                    return Err(Error::Manifest {
                        why: format!("{} is not in its sorted place", entry.path),
                    });
                }
            }
            if let Some(parent) = self.file_above(&entry.path) {
                return Err(Error::Conflict { path: parent });
            }
            previous = Some(entry);
        }
        if total > limits::TOTAL {
            return Err(Error::TooLarge {
                what: format!("a total of {total} bytes"),
                limit: limits::TOTAL,
            });
        }
        Ok(())
    }

    /// A file of the bundle that would have to be a directory for `path`.
    fn file_above(&self, path: &str) -> Option<String> {
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
        parents
            .filter(|parent| self.entry(parent).is_some())
            .map(str::to_owned)
            .next()
    }

    /// The version of ollie that the bundle belongs to.
    #[must_use]
    pub fn ollie(&self) -> &str {
        &self.ollie
    }

    /// All files, sorted by path.
    #[must_use]
    pub fn files(&self) -> &[Entry] {
        &self.files
    }

    /// The file of this path.
    #[must_use]
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        let at = self
            .files
            .binary_search_by(|entry| entry.path.as_str().cmp(path));
        at.ok().map(|at| &self.files[at])
    }

    /// The toolsrv for a platform, named as `std::env::consts` and the kernel
    /// do: `linux`, `x86_64` or `aarch64`.
    ///
    /// # Errors
    /// [`Error::NoToolsrv`], naming the platforms that are there.
    pub fn toolsrv(&self, os: &str, arch: &str) -> Result<&Entry, Error> {
        self.entry(&path::toolsrv(os, arch))
            .ok_or_else(|| Error::NoToolsrv {
                // Both may come from a remote host.
                wanted: format!("{}-{}", os.escape_default(), arch.escape_default()),
                present: self.platforms(),
            })
    }

    fn platforms(&self) -> String {
        let platforms: Vec<_> = self
            .files
            .iter()
            .filter_map(|entry| path::platform(&entry.path))
            .collect();
        if platforms.is_empty() {
            return "none".to_owned();
        }
        platforms.join(", ")
    }

    /// The bytes of `manifest.json`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`limits::MANIFEST`].
    pub fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut json = serde_json::to_vec_pretty(self).map_err(|error| Error::Manifest {
            why: error.to_string(),
        })?;
        json.push(b'\n');
        if json.len() as u64 > limits::MANIFEST {
            return Err(Error::TooLarge {
                what: format!("{MANIFEST} of {} bytes", json.len()),
                limit: limits::MANIFEST,
            });
        }
        Ok(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn with_files(files: &str) -> Result<Manifest, Error> {
        Manifest::parse(format!(r#"{{"format":1,"ollie":"1.2.3","files":[{files}]}}"#).as_bytes())
    }

    fn file(path: &str, size: u64) -> String {
        format!(r#"{{"path":"{path}","mode":"0755","size":{size},"sha256":"{ABC}"}}"#)
    }

    #[test]
    fn the_manifest_is_written_as_documented() {
        let entry = Entry::new("tools/a".into(), Mode::Executable, b"abc", None);
        let manifest = Manifest::new("1.2.3".into(), vec![entry]);
        let expected = format!(
            "{{\n  \"format\": 1,\n  \"ollie\": \"1.2.3\",\n  \"files\": [\n    {{\n      \
             \"path\": \"tools/a\",\n      \"mode\": \"0755\",\n      \"size\": 3,\n      \
             \"sha256\": \"{ABC}\"\n    }}\n  ]\n}}\n"
        );
        let json = manifest.to_json().expect("small");
        assert_eq!(String::from_utf8_lossy(&json), expected);
        assert_eq!(Manifest::parse(&json).expect("own output"), manifest);
    }

    #[test]
    fn a_missing_platform_is_named_beside_those_that_are_there() {
        let manifest = with_files(&format!(
            "{},{}",
            file("toolsrv/linux-aarch64/toolsrv", 3),
            file("toolsrv/linux-x86_64/toolsrv", 3),
        ))
        .expect("valid");
        assert!(manifest.toolsrv("linux", "aarch64").is_ok());
        assert_eq!(
            manifest
                .toolsrv("linux", "riscv64")
                .unwrap_err()
                .to_string(),
            "this bundle has no toolsrv for linux-riscv64, only for linux-aarch64, linux-x86_64"
        );
        let empty = with_files("").expect("valid");
        assert_eq!(
            empty.toolsrv("linux\n", "x").unwrap_err().to_string(),
            "this bundle has no toolsrv for linux\\n-x, only for none"
        );
    }

    #[test]
    fn a_later_format_is_told_from_a_broken_file() {
        let later = br#"{"format":2,"anything":true}"#;
        assert!(matches!(
            Manifest::parse(later),
            Err(Error::Format { found: 2, known: 1 })
        ));
        assert!(matches!(Manifest::parse(b"{"), Err(Error::Manifest { .. })));
        let unknown_key = br#"{"format":1,"ollie":"1","files":[],"more":1}"#;
        assert!(matches!(
            Manifest::parse(unknown_key),
            Err(Error::Manifest { .. })
        ));
    }

    #[test]
    fn files_are_unique_sorted_and_nowhere_a_directory_of_another() {
        let twice = [file("tools/a", 1), file("tools/a", 1)].join(",");
        assert!(matches!(with_files(&twice), Err(Error::Conflict { .. })));
        let unsorted = [file("tools/b", 1), file("tools/a", 1)].join(",");
        assert!(matches!(with_files(&unsorted), Err(Error::Manifest { .. })));
        // `tools/a.b` sorts between the two, so the conflict is not between
        // neighbours.
        let nested = [
            file("tools/a", 1),
            file("tools/a.b", 1),
            file("tools/a/b", 1),
        ]
        .join(",");
        assert!(matches!(
            with_files(&nested),
            Err(Error::Conflict { path }) if path == "tools/a"
        ));
    }

    #[test]
    fn sizes_and_counts_are_bounded_before_anything_is_read() {
        let huge = file("tools/a", u64::MAX);
        assert!(matches!(with_files(&huge), Err(Error::TooLarge { .. })));
        let many: Vec<_> = (0..4097)
            .map(|n| file(&format!("tools/{n:04}"), 0))
            .collect();
        assert!(matches!(
            with_files(&many.join(",")),
            Err(Error::TooLarge { limit: 4096, .. })
        ));
        let total: Vec<_> = (0..3)
            .map(|n| file(&format!("tools/{n}"), 32 << 20))
            .collect();
        assert!(matches!(
            with_files(&total.join(",")),
            Err(Error::TooLarge { .. })
        ));
        assert!(with_files(&total[..2].join(",")).is_ok());
    }

    #[test]
    fn modes_other_than_the_two_are_refused() {
        let set_uid = file("tools/a", 1).replace("0755", "4755");
        assert!(matches!(with_files(&set_uid), Err(Error::Manifest { .. })));
    }
}
