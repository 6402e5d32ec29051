//! When a directory must not be given to tools as a whole.
//!
//! Landlock cannot subtract: whoever grants a directory grants everything
//! below it. So `{CWD}` is not granted where "everything below it" includes
//! what no tool may have.

use std::path::{Path, PathBuf};

use crate::HostView;
use crate::kept::{FILES_IN_HOME, FILES_OF_MACHINE, Kept};

/// What keeps secrets, below HOME. `~/.config` is not a whole: programs keep
/// plain settings there.
const STORES_IN_HOME: [&str; 15] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/sops",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
];

/// What keeps passwords of services beside settings that tools need. A person
/// may trust a project with one of these by its name.
const PASSWORDS_IN_HOME: [&str; 2] = [".docker", ".config/containers"];

/// What keeps secrets on the host itself.
const STORES_ON_HOST: [&str; 5] = [
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/wireguard",
    "/root/.ssh",
];

const KEYS: &str = "a place of private keys";
const PASSWORDS: &str = "a place of passwords";

/// What is told of a directory where shells look for programs.
pub(crate) const ON_PATH: &str = "a directory on PATH";

/// Where programs of the user's lie that a shell finds, also when it was not
/// the one that started us.
const PROGRAMS_IN_HOME: [&str; 4] = ["bin", ".local/bin", ".cargo/bin", "go/bin"];

/// Trees that are not files but the machine. Root would own its disks in
/// `/dev`.
pub(crate) const MACHINE: [&str; 4] = ["/dev", "/proc", "/sys", "/boot"];

/// What may never lie inside a directory that tools get as a whole.
#[derive(Debug)]
pub(crate) struct Guard {
    home: Option<PathBuf>,
    kept: Vec<(PathBuf, &'static str)>,
    /// The stores as they are named, and where that leads.
    named: Vec<(PathBuf, PathBuf)>,
    /// Files of ollie's own that lie elsewhere, and a link leads there.
    linked: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    usual: Vec<PathBuf>,
}

/// Directories in which everybody makes files.
const SHARED: [&str; 2] = ["/tmp", "/var/tmp"];

/// The most entries of ollie's own directories that are looked at.
const ENTRIES_MAX: usize = 4096;

impl Guard {
    pub(crate) fn new(view: &HostView<'_>) -> Self {
        let home = view.home.map(resolved);
        let in_home = |name: &&str| view.home.map(|home| home.join(name));
        let keys = STORES_IN_HOME
            .iter()
            .filter_map(in_home)
            .chain(STORES_ON_HOST.iter().map(PathBuf::from))
            .map(|name| (name, KEYS));
        let passwords = PASSWORDS_IN_HOME.iter().filter_map(in_home);
        let (named, stores): (Vec<_>, Vec<_>) = keys
            .chain(passwords.map(|name| (name, PASSWORDS)))
            .map(|(name, what)| {
                let real = resolved(&name);
                ((name, real.clone()), (real, what))
            })
            .unzip();
        let roots = view
            .ollie_roots
            .iter()
            .map(|p| (resolved(p), "a directory of ollie's own"));
        let linked = linked(view.ollie_roots);
        let own = linked
            .iter()
            .map(|path| (path.clone(), "a file of ollie's own"));
        Self {
            home,
            kept: stores.into_iter().chain(roots).chain(own).collect(),
            named,
            linked,
            // Relative entries, the empty one among them, mean the current
            // directory wherever it is, so they say nothing about this one.
            programs: view
                .path
                .map(|p| std::env::split_paths(p).collect::<Vec<_>>())
                .unwrap_or_default()
                .iter()
                .filter(|p| p.is_absolute())
                .map(|p| resolved(p))
                .collect(),
            usual: PROGRAMS_IN_HOME
                .iter()
                .filter_map(|s| view.home.map(|h| resolved(&h.join(s))))
                .collect(),
        }
    }

    /// Why `dir`, a canonical path, is not given as a whole; `None` when it
    /// may be.
    pub(crate) fn refuses(&self, dir: &Path) -> Option<String> {
        if dir == Path::new("/") {
            return Some("it is the root directory".into());
        }
        if let Some(home) = &self.home {
            if dir == home {
                return Some("it is the home directory".into());
            }
            if home.starts_with(dir) {
                return Some(format!("it contains the home directory {}", home.display()));
            }
        }
        if let Some(tree) = MACHINE.iter().find(|m| dir.starts_with(m)) {
            return Some(format!("it lies in {tree}, which is the machine itself"));
        }
        if SHARED.iter().any(|shared| Path::new(shared) == dir) {
            return Some("everybody makes files in it".into());
        }
        self.touches_kept(dir).or_else(|| {
            let mut programs = self.programs.iter().chain(&self.usual);
            let program = programs.find(|p| p.starts_with(dir))?;
            Some(format!(
                "it contains {}, a directory on PATH",
                program.display()
            ))
        })
    }

    /// Why not even a trusted project's file opens `path` for writing.
    pub(crate) fn refuses_project(&self, path: &Path) -> Option<String> {
        let named = |(kept, what): &(PathBuf, &str)| *what == PASSWORDS && path.starts_with(kept);
        match self.kept.iter().any(named) {
            true => None,
            false => self.refuses(path),
        }
    }

    /// Why even reading `path` is never given by host detection.
    pub(crate) fn touches_kept(&self, path: &Path) -> Option<String> {
        self.kept.iter().find_map(|(kept, what)| {
            if kept.starts_with(path) {
                Some(format!("it contains {}, {what}", kept.display()))
            } else if path.starts_with(kept) {
                Some(format!("it lies in {}, {what}", kept.display()))
            } else {
                None
            }
        })
    }

    /// Why a rule of a profile does not hold that was written for `path`, where
    /// a link makes `canonical` of it: a tool of an earlier session may have
    /// made that link, in a project to which a file of HOME leads.
    pub(crate) fn leads_to_kept(&self, path: &Path, canonical: &Path) -> Option<String> {
        let is_named = |(name, real): &(PathBuf, PathBuf)| {
            path.strip_prefix(name)
                .is_ok_and(|rest| real.join(rest) == canonical)
        };
        if path == canonical || self.named.iter().any(is_named) {
            return None;
        }
        self.touches_kept(canonical).or_else(|| {
            let mut files = self.files();
            let (_, what) = files.find(|(file, _)| file != path && resolved(file) == canonical)?;
            Some(format!("it is {what}"))
        })
    }

    /// Files with passwords or the like in them, and what each is.
    fn files(&self) -> impl Iterator<Item = (PathBuf, &'static str)> {
        let home = self.home.iter();
        home.flat_map(|home| FILES_IN_HOME.map(|(name, what)| (home.join(name), what)))
            .chain(FILES_OF_MACHINE.map(|(path, what)| (path.into(), what)))
    }

    /// Files of ollie's own that lie outside of its directories.
    pub(crate) fn linked(&self) -> &[PathBuf] {
        &self.linked
    }

    /// What is to be spared when rules are proposed, those on PATH included.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let programs = self.programs.iter().chain(&self.usual);
        let programs = programs.map(|path| (path.clone(), ON_PATH));
        let all = self.kept.iter().cloned();
        let all = all.chain(self.files()).chain(programs);
        all.map(|(path, what)| Kept {
            path,
            what: what.to_owned(),
        })
        .collect()
    }

    /// Directories on PATH, resolved.
    pub(crate) fn programs(&self) -> &[PathBuf] {
        &self.programs
    }

    /// Whether `path` is HOME or one of the directories above it.
    pub(crate) fn holds_home(&self, path: &Path) -> bool {
        self.home.as_deref().is_some_and(|h| h.starts_with(path))
    }
}

/// The canonical path, or the path itself where it does not exist: a store
/// that is made later must be guarded as well.
fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Where links in these directories, and in the directories in them, lead.
fn linked(roots: &[PathBuf]) -> Vec<PathBuf> {
    let entries = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries
            .flatten()
            .map(|entry| entry.path())
            .take(ENTRIES_MAX)
    };
    let is_link = |path: &PathBuf| path.symlink_metadata().is_ok_and(|stat| stat.is_symlink());
    let above: Vec<PathBuf> = roots.iter().flat_map(|root| entries(root)).collect();
    let below: Vec<PathBuf> = above.iter().flat_map(|path| entries(path)).collect();
    let links = above.into_iter().chain(below).take(ENTRIES_MAX);
    links
        .filter(is_link)
        .filter_map(|link| std::fs::canonicalize(link).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn only_a_directory_that_holds_nothing_private_is_given() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let home = top.join("home/u");
        for dir in [
            ".ssh/sub",
            ".cache/ollie/bin",
            "src/app",
            "bin",
            ".config/gcloud",
        ] {
            std::fs::create_dir_all(home.join(dir)).unwrap();
        }
        std::os::unix::fs::symlink(&home, top.join("link")).unwrap();
        let roots = [home.join(".cache/ollie")];
        let path = format!("/usr/bin::.:{}", home.join("bin").display());
        let view = HostView {
            cwd: &home,
            home: Some(&home),
            tmpdir: None,
            path: Some(OsStr::new(&path)),
            tools_path: None,
            program: None,
            ollie_roots: &roots,
            env: &|_| None,
            identity: None,
        };
        let guard = Guard::new(&view);
        for (dir, because) in [
            (PathBuf::from("/"), "root directory"),
            (home.clone(), "home directory"),
            (top.clone(), "contains the home"),
            (home.join(".ssh"), "private keys"),
            (home.join(".ssh/sub"), "lies in"),
            (home.join(".config"), "gcloud"),
            (home.join(".cache"), "ollie"),
            (home.join(".cache/ollie/bin"), "ollie"),
            (home.join("bin"), "on PATH"),
            (PathBuf::from("/usr"), "on PATH"),
            (PathBuf::from("/etc"), "private keys"),
            (PathBuf::from("/dev/shm"), "machine"),
        ] {
            let reason = guard.refuses(&dir).unwrap_or_default();
            assert!(reason.contains(because), "{}: {reason}", dir.display());
        }
        // A name that only begins like a store is not one.
        for dir in ["src", "src/app", ".sshfoo", "binaries"] {
            assert_eq!(guard.refuses(&home.join(dir)), None, "{dir}");
        }
    }
}
