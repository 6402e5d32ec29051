//! Old versions of toolsrv on this host.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::directory_lock::Holder;

/// What was used this recently stays: somebody may be about to start it.
const RECENT: Duration = Duration::from_secs(60 * 60);
/// A staging directory this old belongs to an upload that was cut.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// The directory of a program that lies in `<os>-<arch>/<sha256>/toolsrv`.
pub(crate) fn version_directory(program: &Path) -> Option<&Path> {
    let directory = program.parent()?;
    is_digest(directory.file_name()?).then_some(directory)
}

/// Marks a version as used now, and as in use for as long as the result is
/// kept. A lock it is and not a look into /proc, because toolsrv cannot be
/// looked at there (`PR_SET_DUMPABLE` of prctl(2)).
pub(crate) fn hold(version: &Path) -> Option<File> {
    // The time of the directory says when its version was last used, also where
    // there are no locks.
    let _ = File::open(version).and_then(|it| it.set_modified(SystemTime::now()));
    Holder::User.lock(version)
}

/// Keeps this version and the one that was used before it, and removes the
/// others beside them that nobody holds; with them what cut uploads have
/// left. Whatever cannot be removed stays.
pub(crate) fn collect(own: &Path, now: SystemTime) {
    let Some(platform) = own.parent() else { return };
    let uid = rustix::process::getuid().as_raw();
    let mut others = Vec::new();
    for entry in fs::read_dir(platform).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(stat) = entry.metadata() else { continue };
        let age = stat
            .modified()
            .ok()
            .and_then(|used| now.duration_since(used).ok())
            .unwrap_or_default();
        if !stat.is_dir() || stat.uid() != uid || path == own {
            continue;
        }
        if name.as_encoded_bytes().starts_with(b".staged-") && age > STALE {
            let _ = fs::remove_dir_all(&path);
        } else if is_digest(&name) {
            others.push((age, path));
        }
    }
    others.sort();
    let old = others.into_iter().skip(1).filter(|(age, _)| *age > RECENT);
    for (_, version) in old {
        if let Some(_held) = Holder::Remover.lock(&version) {
            let _ = fs::remove_dir_all(version);
        }
    }
}

fn is_digest(name: &OsStr) -> bool {
    name.len() == 64 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// A version that was last used so many hours ago.
    fn version(platform: &Path, digit: &str, hours: u32, now: SystemTime) -> PathBuf {
        directory(platform, &digit.repeat(64), hours, now)
    }

    fn directory(platform: &Path, name: &str, hours: u32, now: SystemTime) -> PathBuf {
        let path = platform.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("toolsrv"), "").unwrap();
        let directory = File::open(&path).unwrap();
        directory.set_modified(now - HOUR * hours).unwrap();
        path
    }

    #[test]
    fn the_current_and_the_previous_one_stay_and_none_that_runs_is_removed() {
        let platform = tempfile::tempdir().unwrap();
        let platform = platform.path().canonicalize().unwrap();
        let now = SystemTime::now();
        let own = version(&platform, "a", 9, now);
        let previous = version(&platform, "b", 5, now);
        let recent = version(&platform, "c", 0, now);
        let runs = version(&platform, "d", 30, now);
        let old = version(&platform, "e", 7, now);
        let cut = directory(&platform, ".staged-toolsrv-1", 25, now);
        let uploading = directory(&platform, ".staged-toolsrv-2", 1, now);
        let foreign = directory(&platform, "notes", 99, now);
        let in_use = hold(&runs).unwrap();
        File::open(&runs)
            .unwrap()
            .set_modified(now - HOUR * 30)
            .unwrap();

        collect(&own, now);
        let there = [&own, &recent, &runs, &uploading, &foreign];
        assert!(there.iter().all(|path| path.exists()));
        // `c` was used later than `b`, so `b` is not the previous one.
        assert!(!previous.exists() && !old.exists() && !cut.exists());

        drop(in_use);
        collect(&own, now);
        assert!(!runs.exists());
        assert!(own.exists() && recent.exists());
    }

    #[test]
    fn only_a_digest_is_a_version() {
        let digest = "0a".repeat(32);
        let installed = format!("/var/tmp/ollie-7/linux-x86_64/{digest}/toolsrv");
        let found = version_directory(Path::new(&installed));
        assert_eq!(found, Path::new(&installed).parent());
        assert_eq!(version_directory(Path::new("/opt/toolsrv")), None);
    }
}
