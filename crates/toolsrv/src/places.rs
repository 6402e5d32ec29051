use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ollie_protocol::Nonce;

use crate::Error;

/// The longest path of a Unix socket: `sun_path` has 108 bytes and ends with
/// a NUL (unix(7)).
const SUN_PATH_MAX: usize = 107;

/// Names of directories for sockets begin with this, a word follows.
pub(crate) const RUN: &str = "ollie-run-";
/// The same for those of tools; the word is the session's.
pub(crate) const TMP: &str = "ollie-tmp-";
/// The name of the socket.
pub(crate) const SOCKET: &str = "socket";

/// The private directories of a session, mode 0700, made for it alone.
///
/// They are apart from each other because tools may write the second and must
/// not reach the first; nor may those of another session, so neither is ever
/// made in a place that profiles grant, such as /dev/shm.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Holds the socket.
    pub(crate) run: PathBuf,
    /// TMPDIR of the session's tools.
    pub(crate) tmp: PathBuf,
}

impl Places {
    /// Makes both. `var` looks a variable of the environment up; `lasting` asks
    /// for places that outlive the login, which those for run-time files do
    /// not.
    pub(crate) fn make(
        var: &dyn Fn(&str) -> Option<OsString>,
        lasting: bool,
    ) -> Result<Self, Error> {
        let uid = rustix::process::getuid().as_raw();
        let fresh = Nonce::random()
            .map_err(|error| Error::Places(format!("no random numbers: {error}")))?;
        let word = ollie_protocol::auth::to_hex(&fresh.as_bytes()[..8]);
        let named = |name: &str| var(name).map(PathBuf::from);
        let brief = |place: Option<PathBuf>| place.filter(|_| !lasting);
        let run = make_in(
            [
                brief(named("XDG_RUNTIME_DIR")),
                brief(Some(format!("/run/user/{uid}").into())),
                named("TMPDIR"),
                Some("/tmp".into()),
                Some("/var/tmp".into()),
            ],
            &format!("{RUN}{word}"),
            |path| path.join(SOCKET).as_os_str().len() <= SUN_PATH_MAX,
        )?;
        let tmp = make_in(
            [
                named("TMPDIR"),
                Some("/tmp".into()),
                Some("/var/tmp".into()),
            ],
            &format!("{TMP}{word}"),
            |_| true,
        );
        match tmp {
            Ok(tmp) => Ok(Self { run, tmp }),
            Err(error) => {
                let _ = std::fs::remove_dir(&run);
                Err(error)
            }
        }
    }

    /// The session's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.run.join(SOCKET)
    }
}

/// Makes a directory of this fresh name in the first place that takes it.
fn make_in<const N: usize>(
    bases: [Option<PathBuf>; N],
    name: &str,
    fits: impl Fn(&Path) -> bool,
) -> Result<PathBuf, Error> {
    let mut refused = Vec::new();
    for base in bases.into_iter().flatten() {
        let path = base.join(name);
        match try_in(&base, &path, &fits) {
            Ok(()) => return Ok(path),
            Err(reason) => refused.push(format!("{}: {reason}", base.display())),
        }
    }
    Err(Error::Places(refused.join("; ")))
}

fn try_in(base: &Path, path: &Path, fits: &impl Fn(&Path) -> bool) -> Result<(), String> {
    if !base.is_absolute() {
        return Err("not an absolute path".into());
    }
    if !fits(path) {
        return Err(format!(
            "longer than the {SUN_PATH_MAX} bytes a socket's path may have"
        ));
    }
    let stat = std::fs::metadata(base).map_err(|error| error.to_string())?;
    let uid = rustix::process::getuid().as_raw();
    let shared_and_sticky = stat.mode() & 0o1000 != 0;
    if stat.mode() & 0o022 != 0 && !shared_and_sticky {
        return Err("writable by others without the sticky bit".into());
    }
    if stat.uid() != uid && stat.uid() != 0 {
        return Err(format!("belongs to user {}", stat.uid()));
    }
    // mkdir(2) fails if anything has this name already, a link included.
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|error| error.to_string())
}
