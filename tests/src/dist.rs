use std::path::{Path, PathBuf};

/// The binaries under test.
#[derive(Debug)]
pub struct Dist {
    directory: PathBuf,
}

impl Dist {
    /// Those of the directory that `OLLIE_DIST` names; by default
    /// `target/dist` of the workspace.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn find() -> Self {
        let directory = std::env::var_os("OLLIE_DIST")
            .map_or_else(|| workspace().join("target/dist"), PathBuf::from);
        let dist = Self { directory };
        for file in [dist.olliesrv(), dist.toolsrv(), dist.bundle()] {
            assert!(
                file.is_file(),
                "{} is not there: run `cargo xtask build`, or name another directory of binaries \
                 by OLLIE_DIST",
                file.display()
            );
        }
        dist
    }

    /// The command line.
    #[must_use]
    pub fn olliesrv(&self) -> PathBuf {
        self.directory.join("olliesrv")
    }

    /// The static binary that the bundle holds as well.
    #[must_use]
    pub fn toolsrv(&self) -> PathBuf {
        self.directory.join("toolsrv")
    }

    /// Whether toolsrv is built as it is for users: release, and linked with
    /// the std for musl that `cargo xtask musl` prepares.
    ///
    /// # Panics
    /// If the bundle cannot be read.
    #[must_use]
    pub fn is_for_users(&self) -> bool {
        let manifest = ollie_bundle::Manifest::read(self.bundle()).expect("a bundle");
        let toolsrv = manifest.toolsrv("linux", std::env::consts::ARCH);
        let note = toolsrv.expect("a toolsrv of this machine").note();
        note.is_some_and(|note| note.starts_with("static musl, "))
    }

    /// What a host is sent.
    #[must_use]
    pub fn bundle(&self) -> PathBuf {
        self.directory.join("ollie-bundle.tar.xz")
    }
}

/// The root of the source.
#[must_use]
pub fn workspace() -> &'static Path {
    const HERE: &str = env!("CARGO_MANIFEST_DIR");
    Path::new(HERE).parent().unwrap_or(Path::new(HERE))
}
