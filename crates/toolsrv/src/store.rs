use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ollie_protocol::{auth, limits};
use sha2::{Digest as _, Sha256};

/// A script that was not used for so long is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How exactly it is kept when one was used last.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Scripts of tools, each under the SHA-256 of its bytes, from one session to
/// the next. No tool can write here; all can read and execute.
///
/// A script is read and compared with its name each time before it is run.
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// The first of these directories that is there, or can be made, and
    /// belongs to this user alone.
    pub(crate) fn in_one_of(places: impl IntoIterator<Item = PathBuf>) -> Option<Self> {
        places
            .into_iter()
            .find(|place| make(place).is_ok())
            .map(|directory| Self { directory })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a script is, if it is there and what its name says.
    pub(crate) fn find(&self, sha256: &str) -> Option<PathBuf> {
        let path = self.path(sha256)?;
        let file = File::open(&path).ok()?;
        let stat = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut bytes = Vec::new();
        let most = limits::SCRIPT_MAX as u64 + 1;
        (&file).take(most).read_to_end(&mut bytes).ok()?;
        if auth::to_hex(&Sha256::digest(&bytes)) != sha256 {
            return None;
        }
        let now = SystemTime::now();
        let used = stat
            .modified()
            .ok()
            .and_then(|at| now.duration_since(at).ok());
        if used.is_some_and(|age| age > DAY) {
            // If that fails the script is sent again some day.
            let _ = file.set_modified(now);
        }
        Some(path)
    }

    /// Puts a script where [`Store::find`] finds it. The caller has compared
    /// its bytes with its name.
    pub(crate) fn put(&self, sha256: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self
            .path(sha256)
            .ok_or_else(|| io::Error::other("not a SHA-256"))?;
        let fresh =
            ollie_protocol::Nonce::random().map_err(|error| io::Error::other(error.to_string()))?;
        let suffix = auth::to_hex(&fresh.as_bytes()[..8]);
        let staged = self.directory.join(format!(".staged-{suffix}"));
        let written = || {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o700)
                .open(&staged)?;
            file.write_all(bytes)?;
            drop(file);
            // Under its name it is whole, whoever else puts it there.
            fs::rename(&staged, &path)
        };
        written().inspect_err(|_| {
            let _ = fs::remove_file(&staged);
        })?;
        Ok(path)
    }

    /// Removes what was not used for long, and what cut writes have left.
    pub(crate) fn collect(directory: &Path, now: SystemTime) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let age = entry
                .metadata()
                .and_then(|stat| stat.modified())
                .ok()
                .and_then(|used| now.duration_since(used).ok())
                .unwrap_or_default();
            let staged = entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(b".staged-");
            if age > UNUSED || staged && age > DAY {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, sha256: &str) -> Option<PathBuf> {
        auth::from_hex(sha256)?;
        Some(self.directory.join(sha256))
    }
}

fn make(place: &Path) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let stat = fs::symlink_metadata(place)?;
    let own = stat.uid() == rustix::process::geteuid().as_raw();
    if !stat.is_dir() || !own || stat.mode() & 0o022 != 0 {
        return Err(io::Error::other("it is not this user's alone"));
    }
    // A directory that is there may be on a file system that is read-only.
    rustix::fs::access(place, rustix::fs::Access::WRITE_OK)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// printf '#!/bin/sh\n' | sha256sum
    const SHA256: &str = "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf";
    const SCRIPT: &[u8] = b"#!/bin/sh\n";

    #[test]
    fn a_script_is_found_only_as_long_as_it_is_what_its_name_says() {
        let top = tempfile::tempdir().unwrap();
        let store = Store::in_one_of([top.path().join("a/scripts")]).unwrap();
        assert_eq!(store.find(SHA256), None);
        let path = store.put(SHA256, SCRIPT).unwrap();
        assert_eq!(store.find(SHA256), Some(path.clone()));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(&path, "#!/bin/sh\nrm -rf ~\n").unwrap();
        assert_eq!(store.find(SHA256), None);
        assert_eq!(store.find("../../etc/passwd"), None);
        store.put(SHA256, SCRIPT).unwrap();
        assert!(store.find(SHA256).is_some());
    }

    #[test]
    fn a_place_that_others_may_write_is_none() {
        let top = tempfile::tempdir().unwrap();
        let open = top.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink("open", top.path().join("link")).unwrap();
        for place in ["open", "link"] {
            assert!(
                Store::in_one_of([top.path().join(place)]).is_none(),
                "{place}"
            );
        }
        let next = [open, top.path().join("next")];
        let store = Store::in_one_of(next).unwrap();
        assert_eq!(store.directory(), top.path().join("next"));
    }

    #[test]
    fn what_was_not_used_for_a_month_is_removed() {
        let top = tempfile::tempdir().unwrap();
        let store = Store::in_one_of([top.path().join("scripts")]).unwrap();
        let path = store.put(SHA256, SCRIPT).unwrap();
        let now = SystemTime::now();
        Store::collect(store.directory(), now + UNUSED - DAY);
        assert!(path.exists());
        Store::collect(store.directory(), now + UNUSED + DAY);
        assert!(!path.exists());
    }
}
