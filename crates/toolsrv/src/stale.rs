//! What sessions have left whose processes were all killed at once.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::directory_lock::Holder;
use crate::places::{RUN, SOCKET, TMP};

/// Removes the directories of dead sessions beside those of this one: nobody
/// listens at their socket any more. Whatever cannot be removed stays.
pub(crate) fn sweep(run: &Path, tmp: &Path) {
    let (Some(runs), Some(tmps)) = (run.parent(), tmp.parent()) else {
        return;
    };
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let word = name.to_str().and_then(|name| name.strip_prefix(RUN));
        let Some(word) = word.filter(|_| path != run && is_ours(&path)) else {
            continue;
        };
        if is_dead(&path.join(SOCKET))
            && let Some(_held) = Holder::Remover.lock(&path)
        {
            let files = tmps.join(format!("{TMP}{word}"));
            if is_ours(&files) {
                let _ = ollie_exec::remove_tree(&files);
            }
            let _ = ollie_exec::remove_tree(&path);
        }
    }
}

/// A private directory of this user, and no link to one.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::getuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|stat| stat.is_dir() && stat.uid() == own && stat.mode() & 0o077 == 0)
}

/// ECONNREFUSED of connect(2): the socket is there, and nobody has it open. A
/// session that is about to begin has none yet.
fn is_dead(socket: &Path) -> bool {
    let refused = std::io::ErrorKind::ConnectionRefused;
    UnixStream::connect(socket).is_err_and(|error| error.kind() == refused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn private(path: PathBuf) -> PathBuf {
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn what_a_dead_session_left_goes_and_what_a_living_one_has_stays() {
        let place = tempfile::tempdir().unwrap();
        let session = |word: &str| {
            let run = private(place.path().join(format!("{RUN}{word}")));
            let tmp = private(place.path().join(format!("{TMP}{word}")));
            fs::write(tmp.join("file"), "").unwrap();
            (run, tmp)
        };
        let own = session("1");
        let dead = session("2");
        drop(UnixListener::bind(dead.0.join(SOCKET)).unwrap());
        let living = session("3");
        let _listener = UnixListener::bind(living.0.join(SOCKET)).unwrap();
        let beginning = session("4");
        // Bound and not listening yet.
        let bound = session("6");
        drop(UnixListener::bind(bound.0.join(SOCKET)).unwrap());
        let held = Holder::User.lock(&bound.0).unwrap();
        let open = session("5");
        drop(UnixListener::bind(open.0.join(SOCKET)).unwrap());
        fs::set_permissions(&open.0, fs::Permissions::from_mode(0o755)).unwrap();

        sweep(&own.0, &own.1);
        assert!(!dead.0.exists() && !dead.1.exists());
        for (run, tmp) in [&own, &living, &beginning, &open, &bound] {
            assert!(run.exists() && tmp.join("file").exists(), "{run:?}");
        }
        drop(held);
        sweep(&own.0, &own.1);
        assert!(!bound.0.exists());
    }
}
