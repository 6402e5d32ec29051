use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use ignore::overrides::Override;

use crate::error::Error;
use crate::name::Name;

/// More threads only wait for each other (as in ripgrep).
const THREADS: usize = 12;

/// What to leave out of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    /// Names that begin with a dot are walked as well.
    pub(crate) hidden: bool,
    /// What git ignores is walked as well.
    pub(crate) ignored: bool,
}

/// A walk as git and ripgrep make it: `.gitignore` inside of a repository,
/// `.ignore` and `.rgignore` everywhere; no symbolic link is followed, except
/// the one that the walk begins with.
pub(crate) fn walk(root: &Name, wishes: Wishes, filter: Option<Override>) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root.path());
    builder
        .hidden(!wishes.hidden)
        .ignore(!wishes.ignored)
        .git_ignore(!wishes.ignored)
        .git_global(!wishes.ignored)
        .git_exclude(!wishes.ignored)
        .parents(!wishes.ignored)
        .follow_links(false)
        .threads(threads());
    if !wishes.ignored {
        builder.add_custom_ignore_filename(".rgignore");
    }
    if let Some(filter) = filter {
        builder.overrides(filter);
    }
    builder
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |all| all.get().min(THREADS))
}

/// Refuses what is not there.
pub(crate) fn must_exist(root: &Name) -> Result<std::fs::Metadata, Error> {
    std::fs::metadata(root.path()).map_err(Error::io("look into", root))
}

/// A found path as it is shown: without the `./` of a walk through the
/// working directory.
pub(crate) fn shown(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

/// Something that a walk could not look at.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) path: Option<PathBuf>,
    pub(crate) problem: String,
}

impl Unread {
    /// `None` for what is only a malformed line of an ignore file.
    pub(crate) fn of(error: &ignore::Error) -> Option<Self> {
        if error.is_partial() {
            return None;
        }
        let mut path = None;
        let mut inner = error;
        loop {
            inner = match inner {
                ignore::Error::WithPath { path: at, err } => {
                    path = Some(at.clone());
                    err
                }
                ignore::Error::WithDepth { err, .. }
                | ignore::Error::WithLineNumber { err, .. } => err,
                _ => break,
            };
        }
        Some(Self {
            path,
            problem: inner.to_string(),
        })
    }
}

/// One sentence about what could not be looked at.
pub(crate) fn unread_remark(unread: &mut [Unread]) -> Option<String> {
    unread.sort_by(|one, other| one.path.cmp(&other.path));
    let first = unread.first()?;
    let place = match &first.path {
        Some(path) => format!("{}: ", Name::from(shown(path))),
        None => String::new(),
    };
    let others = match unread.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "could not be read: {place}{}{others}",
        first.problem
    ))
}
