use std::{collections::BTreeMap, fs, io, os::unix::fs::PermissionsExt, path::Path};

use crate::{Entry, Error, Manifest, Mode, archive, path};

/// Collects the files of a bundle and packs them.
///
/// ```
/// use ollie_bundle::{Builder, Bundle, Mode};
///
/// let packed = Builder::new("1.2.3")
///     .toolsrv("linux", "x86_64", b"\x7fELF".to_vec(), Some("static musl"))?
///     .file("tools/hello/tool.yaml", Mode::Plain, b"name: hello\n".to_vec())?
///     .pack()?;
/// let bundle = Bundle::read_from(&packed[..])?;
/// assert_eq!(bundle.toolsrv("linux", "x86_64")?.contents(), b"\x7fELF");
/// # Ok::<(), ollie_bundle::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    ollie: String,
    files: BTreeMap<String, (Entry, Vec<u8>)>,
}

impl Builder {
    /// An empty bundle of this version of ollie.
    #[must_use]
    pub fn new(ollie: impl Into<String>) -> Self {
        Self {
            ollie: ollie.into(),
            files: BTreeMap::new(),
        }
    }

    /// Adds one file.
    ///
    /// # Errors
    /// [`Error::Path`] if the path is not one a bundle may hold (see
    /// [`Entry::path`]), [`Error::Conflict`] if it is taken.
    pub fn file(self, path: &str, mode: Mode, contents: Vec<u8>) -> Result<Self, Error> {
        self.add(path, mode, contents, None)
    }

    /// Adds the toolsrv of one platform, with a note for the manifest on how
    /// it was built. Names as in [`Manifest::toolsrv`].
    ///
    /// # Errors
    /// As [`Builder::file`].
    pub fn toolsrv(
        self,
        os: &str,
        arch: &str,
        program: Vec<u8>,
        note: Option<&str>,
    ) -> Result<Self, Error> {
        let path = path::toolsrv(os, arch);
        self.add(&path, Mode::Executable, program, note)
    }

    /// Adds every file below a directory of this machine as `root/...`, a
    /// file with the owner's execute bit as executable. Names that start with
    /// `.` or end with `~` are an editor's or a version control's and are left
    /// out.
    ///
    /// # Errors
    /// [`Error::Io`] if something cannot be read, [`Error::Kind`] at a link or
    /// special file (its target is not known to be on the other machine), and
    /// as [`Builder::file`].
    pub fn tree(mut self, root: &str, directory: &Path) -> Result<Self, Error> {
        let unreadable = |source: io::Error| Error::Io {
            path: directory.to_owned(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') || name.ends_with('~') {
                continue;
            }
            let path = format!("{root}/{name}");
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                self = self.tree(&path, &entry.path())?;
            } else if kind.is_file() {
                let (mode, contents) = load(&entry.path())?;
                self = self.file(&path, mode, contents)?;
            } else {
                let kind = if kind.is_symlink() {
                    "a symbolic link"
                } else {
                    "a special file"
                };
                return Err(Error::Kind { path, kind });
            }
        }
        Ok(self)
    }

    /// The bundle: manifest and files, compressed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`limits`](crate::limits),
    /// [`Error::Conflict`] if a file lies where another needs a directory.
    pub fn pack(self) -> Result<Vec<u8>, Error> {
        let (entries, contents): (_, Vec<_>) = self.files.into_values().unzip();
        let manifest = Manifest::new(self.ollie, entries);
        manifest.check()?;
        archive::write(&manifest, &contents)
    }

    fn add(
        mut self,
        path: &str,
        mode: Mode,
        contents: Vec<u8>,
        note: Option<&str>,
    ) -> Result<Self, Error> {
        path::check(path)?;
        let entry = Entry::new(path.to_owned(), mode, &contents, note.map(str::to_owned));
        match self.files.insert(path.to_owned(), (entry, contents)) {
            None => Ok(self),
            Some(_) => Err(Error::Conflict {
                path: path.to_owned(),
            }),
        }
    }
}

fn load(path: &Path) -> Result<(Mode, Vec<u8>), Error> {
    let unreadable = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let contents = fs::read(path).map_err(unreadable)?;
    let bits = fs::metadata(path).map_err(unreadable)?.permissions().mode();
    let mode = if bits & 0o100 == 0 {
        Mode::Plain
    } else {
        Mode::Executable
    };
    Ok((mode, contents))
}
