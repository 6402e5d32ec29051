//! Places that are spared: what a rule would open is said, and none is proposed
//! that would open one of them together with something else.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Policy;
use crate::cwd::{MACHINE, ON_PATH};
use crate::show::visible;

/// Files with passwords or the like in them, below HOME. Programs that need one
/// are given it by its name.
pub(crate) const FILES_IN_HOME: [(&str, &str); 10] = [
    (".netrc", "a file of passwords"),
    (".npmrc", "a file of passwords"),
    (".pypirc", "a file of passwords"),
    (".git-credentials", "a file of passwords"),
    (".cargo/credentials", "a file of passwords"),
    (".cargo/credentials.toml", "a file of passwords"),
    (".m2/settings.xml", "a file of passwords"),
    (".bash_history", "the history of a shell"),
    (".zsh_history", "the history of a shell"),
    (".python_history", "the history of a shell"),
];

/// The same of the machine, where root looks at them.
pub(crate) const FILES_OF_MACHINE: [(&str, &str); 3] = [
    ("/etc/shadow", "a file of passwords"),
    ("/etc/gshadow", "a file of passwords"),
    ("/etc/krb5.keytab", "a file of keys"),
];

/// A path that holds more than others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    #[serde(with = "crate::octets_path")]
    pub(crate) path: PathBuf,
    /// In words: `a place of private keys`.
    pub(crate) what: String,
}

impl Policy {
    /// Which of these places `path` is or lies in, in words.
    pub(crate) fn kept_around(&self, path: &Path) -> Option<String> {
        let mut all = self.kept.iter().filter(|kept| kept.what != ON_PATH);
        let kept = all.find(|kept| path.starts_with(&kept.path))?;
        Some(match kept.path == path {
            true => format!("it is {}", kept.what),
            false => format!("it lies in {}, {}", visible(&kept.path), kept.what),
        })
    }

    /// Why writing to `path` would be running programs outside of the sandbox.
    pub(crate) fn runs_later(&self, path: &Path) -> Option<String> {
        let mut on_path = self.kept.iter().filter(|kept| kept.what == ON_PATH);
        if let Some(kept) = on_path.find(|kept| path.starts_with(&kept.path)) {
            return Some(format!("{} is {ON_PATH}", visible(&kept.path)));
        }
        let meaning = crate::project::meaning(path.to_str()?)?;
        Some(meaning.to_owned())
    }

    /// Why no rule on `path`, a directory that is wanted for a part of it, is to
    /// be proposed.
    pub(crate) fn too_much(&self, path: &Path, writes: bool) -> Option<String> {
        if path.parent().is_none() {
            return Some("it is the root directory".to_owned());
        }
        if let Some(home) = self.home.as_ref().filter(|home| home.0.starts_with(path)) {
            return Some(match home.0 == path {
                true => "it is the home directory".to_owned(),
                false => "it contains the home directory".to_owned(),
            });
        }
        if MACHINE.iter().any(|tree| Path::new(tree) == path) {
            return Some("it is the machine itself".to_owned());
        }
        if path == Path::new("/home") {
            return Some("everybody's home directory is in it".to_owned());
        }
        let inside = |kept: &&Kept| {
            kept.path != path && kept.path.starts_with(path) && (writes || kept.what != ON_PATH)
        };
        let kept = self.kept.iter().find(inside)?;
        Some(format!(
            "it contains {}, {}",
            visible(&kept.path),
            kept.what
        ))
    }
}
