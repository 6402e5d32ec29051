use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ollie_protocol::{Nonce, auth};

use crate::Error;

/// The longest path of a Unix socket, in bytes (unix(7)).
pub(crate) const SUN_PATH_MAX: usize = 107;
/// The longest name of a socket in such a directory; ssh binds its control
/// socket under a name that is longer by a dot and 16 characters.
const NAME_MAX: usize = 20;
/// Directories of ours begin with this, the process id and a dash.
const PREFIX: &str = "ollie-ssh-";

/// A private directory for sockets of this process, mode 0700. It goes when
/// this is dropped, and if the process is killed, when the next one makes its
/// own.
#[derive(Debug)]
pub struct Sockets {
    directory: PathBuf,
}

impl Sockets {
    /// Makes one in `runtime`, and removes those of processes that are gone.
    ///
    /// # Errors
    /// [`Error::Sockets`]
    pub fn make(runtime: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Sockets {
            path: runtime.to_owned(),
            source,
        };
        sweep(runtime);
        let fresh =
            Nonce::random().map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let word = auth::to_hex(&fresh.as_bytes()[..4]);
        let name = format!("{PREFIX}{}-{word}", std::process::id());
        let directory = runtime.join(name);
        let longest = directory.as_os_str().len() + 1 + NAME_MAX;
        if longest > SUN_PATH_MAX {
            return Err(failed(std::io::Error::other(format!(
                "its path is too long: a socket below it would have {longest} bytes, and \
                 {SUN_PATH_MAX} is the most"
            ))));
        }
        // mkdir(2) fails if anything has this name already, a link included.
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(failed)?;
        Ok(Self { directory })
    }

    /// The path of a socket in it; `name` has at most three bytes.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Removes what processes that were killed have left.
fn sweep(runtime: &Path) {
    let Ok(entries) = std::fs::read_dir(runtime) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            name.strip_prefix(PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not() {
        let runtime = tempfile::tempdir().unwrap();
        // Process ids end at 2^22 (proc(5), pid_max).
        let dead = runtime.path().join("ollie-ssh-4194305-aa");
        let alive = runtime.path().join("ollie-ssh-1-aa");
        let foreign = runtime.path().join("else");
        for directory in [&dead, &alive, &foreign] {
            std::fs::create_dir(directory).unwrap();
        }
        let sockets = Sockets::make(runtime.path()).unwrap();
        assert!(!dead.exists() && alive.exists() && foreign.exists());
        let own = sockets.directory.clone();
        assert!(own.exists());
        drop(sockets);
        assert!(!own.exists());
    }

    #[test]
    fn a_directory_that_is_too_long_is_told_before_ssh_fails() {
        let runtime = Path::new("/tmp").join("x".repeat(80));
        let error = Sockets::make(&runtime).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("107"), "{source}");
    }
}
