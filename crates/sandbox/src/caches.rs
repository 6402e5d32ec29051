//! Caches of programs that this account has not used yet.
//!
//! A rule on what does not exist is skipped, and a tool that would make its
//! cache may not write to the directory it would make it in. So what a policy
//! lists under `caches` is made here, before rules are resolved.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags};

use crate::variable::{Expanded, expand};
use crate::{HostView, Layer, Layered};

impl Layered {
    /// Makes the directories under `caches` whose program is on PATH, with mode
    /// 0700, where they are missing: only below HOME, only where that is the
    /// user's own, and never through a symbolic link. What cannot be made is
    /// left out, as any rule on what does not exist.
    ///
    /// A project's file makes nothing.
    pub fn make_caches(&self, view: &HostView<'_>) {
        let home = view.home.and_then(|home| std::fs::canonicalize(home).ok());
        let (Some(named), Some(home)) = (view.home, home) else {
            return;
        };
        for rule in &self.filesystem {
            let dropped = |drop: &crate::Sourced<String>| drop.value == rule.path;
            let Some(program) = &rule.made_for else {
                continue;
            };
            if rule.origin.layer == Layer::Project
                || self.drop.filesystem.iter().any(dropped)
                || !on_path(view.path, program)
            {
                continue;
            }
            if let Expanded::Path { path, .. } = expand(&rule.path, view, view.cwd)
                && let Ok(inside) = path.strip_prefix(named)
            {
                make(view, &home, inside);
            }
        }
    }
}

/// Goes down from HOME directory by directory, and makes those that are not
/// there; `None` where that cannot be.
fn make(view: &HostView<'_>, home: &Path, inside: &Path) -> Option<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
    let mut at: OwnedFd = rustix::fs::open(home, flags, Mode::empty()).ok()?;
    let owner = rustix::fs::fstat(&at).ok()?.st_uid;
    if home.parent().is_none() || view.identity.is_some_and(|who| who.uid != owner) {
        return None;
    }
    for part in inside.components() {
        let Component::Normal(name) = part else {
            return None;
        };
        // Another process may have made it meanwhile; opening it tells.
        let _ = rustix::fs::mkdirat(&at, name, Mode::RWXU);
        at = rustix::fs::openat(&at, name, flags, Mode::empty()).ok()?;
    }
    Some(())
}

fn on_path(path: Option<&OsStr>, program: &str) -> bool {
    let is_program = |file: &Path| {
        let found = std::fs::metadata(file);
        found.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let mut directories = path.into_iter().flat_map(std::env::split_paths);
    directories.any(|directory| directory.is_absolute() && is_program(&directory.join(program)))
}
