use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt,
};
use std::path::{Path, PathBuf};

use ollie_bundle::{Bundle, Digest, Manifest};
use ollie_protocol::{Nonce, auth};

use crate::Error;

/// A toolsrv that is where it is started from.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The program.
    pub program: PathBuf,
    /// SHA-256 of it, its build id.
    pub build: String,
    /// Whether it had to be written, or was there already.
    pub fresh: bool,
}

/// Puts the bundle's toolsrv for this machine under `root`, at
/// `<os>-<arch>/<sha256>/toolsrv`, unless it is there already.
///
/// The name is the content: nothing is ever replaced in place, so any number
/// of ollies may do this at once. What is there is hashed before it is used;
/// what is wrong is written anew.
///
/// # Errors
/// [`Error::Bundle`], [`Error::Install`], or [`Error::Unsafe`] if somebody
/// else could write one of the directories.
pub fn install(bundle: &Path, root: &Path) -> Result<Installed, Error> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let bad_bundle = |source| Error::Bundle {
        path: bundle.to_owned(),
        source,
    };
    let manifest = Manifest::read(bundle).map_err(bad_bundle)?;
    let entry = manifest.toolsrv(os, arch).map_err(bad_bundle)?;
    let build = entry.sha256().to_string();
    let directory = root.join(format!("{os}-{arch}")).join(&build);
    let program = directory.join("toolsrv");

    private_directory(root, &directory)?;
    if holds(&program, entry.size(), entry.sha256()) {
        return Ok(Installed {
            program,
            build,
            fresh: false,
        });
    }
    let whole = Bundle::open(bundle).map_err(bad_bundle)?;
    let file = whole.toolsrv(os, arch).map_err(bad_bundle)?;
    write(&directory, &program, file.contents()).map_err(|(action, source)| Error::Install {
        path: directory.clone(),
        action,
        source,
    })?;
    Ok(Installed {
        program,
        build,
        fresh: true,
    })
}

/// Makes the directories below and including `root`, mode 0700, and checks
/// that nobody else can write them.
fn private_directory(root: &Path, directory: &Path) -> Result<(), Error> {
    let failed = |action| {
        move |source| Error::Install {
            path: directory.to_owned(),
            action,
            source,
        }
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed("make the directory"))?;
    let own = rustix::process::getuid().as_raw();
    let from_root = directory.ancestors().take_while(|at| at.starts_with(root));
    for at in from_root {
        let stat = std::fs::symlink_metadata(at).map_err(failed("look at the directory"))?;
        let problem = if !stat.is_dir() {
            "it is not a directory".to_owned()
        } else if stat.uid() != own {
            format!("it belongs to user {}", stat.uid())
        } else if stat.mode() & 0o022 != 0 {
            format!("others may write it (mode {:o})", stat.mode() & 0o7777)
        } else {
            continue;
        };
        return Err(Error::Unsafe {
            path: at.to_owned(),
            problem,
        });
    }
    Ok(())
}

/// Whether the file is the one that was promised, and may be executed.
fn holds(program: &Path, size: u64, sha256: Digest) -> bool {
    let Ok(stat) = std::fs::symlink_metadata(program) else {
        return false;
    };
    if !stat.is_file() || stat.len() != size || stat.mode() & 0o122 != 0o100 {
        return false;
    }
    let mut contents = Vec::new();
    File::open(program)
        .and_then(|file| file.take(size + 1).read_to_end(&mut contents))
        .is_ok_and(|_| Digest::of(&contents) == sha256)
}

/// Writes a file beside its place and moves it there when it is whole.
fn write(
    directory: &Path,
    program: &Path,
    contents: &[u8],
) -> Result<(), (&'static str, io::Error)> {
    let fresh =
        Nonce::random().map_err(|error| ("choose a name", io::Error::other(error.to_string())))?;
    let staged = directory.join(format!(".staged-{}", auth::to_hex(&fresh.as_bytes()[..8])));
    let result = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&staged)
            .map_err(|error| ("make a file", error))?;
        file.write_all(contents)
            .map_err(|error| ("write toolsrv", error))?;
        file.set_permissions(Permissions::from_mode(0o500))
            .map_err(|error| ("make toolsrv executable", error))?;
        file.sync_all().map_err(|error| ("write toolsrv", error))?;
        // A program that is open for writing cannot be executed (ETXTBSY), and
        // from the rename on another ollie may do that.
        drop(file);
        std::fs::rename(&staged, program).map_err(|error| ("move toolsrv to its place", error))
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(&staged);
    }
    result
}
