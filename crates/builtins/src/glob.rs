use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkState;
use serde::Deserialize;

use crate::error::Error;
use crate::name::Name;
use crate::walk::{Unread, Wishes, must_exist, shown, unread_remark, walk};

/// Bytes of one result, so that nobody cuts it behind us.
const TEXT: usize = 60_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    pattern: String,
    path: Option<Name>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    ignored: bool,
    limit: Option<usize>,
}

/// What was found: the newest files, and how many there are.
#[derive(Debug, Default)]
struct Found {
    /// The oldest of those kept is on top.
    newest: BinaryHeap<Reverse<(SystemTime, Reverse<PathBuf>)>>,
    count: usize,
    unread: Vec<Unread>,
}

/// Lists the files whose name matches, newest first, then by path.
pub(crate) fn run(arguments: &Arguments) -> Result<String, Error> {
    let root = match &arguments.path {
        Some(path) => path.clone(),
        None => Name::from(Path::new(".")),
    };
    let limit = arguments.limit.unwrap_or(200);
    if limit == 0 {
        return Err(Error::value("limit", "is 0: nothing would be shown"));
    }
    let glob = compile(&arguments.pattern)?;
    if !must_exist(&root)?.is_dir() {
        return Err(Error::refused(&root, "is no directory to look in"));
    }
    let wishes = Wishes {
        hidden: arguments.hidden,
        ignored: arguments.ignored,
    };
    let found = Mutex::new(Found::default());
    walk(&root, wishes, None).build_parallel().run(|| {
        Box::new(|entry| {
            let mut found = match &entry {
                Ok(entry) if !is_wanted(entry, &root, &glob) => return WalkState::Continue,
                _ => found.lock().unwrap_or_else(PoisonError::into_inner),
            };
            match entry {
                Ok(entry) => found.add(&entry, limit),
                Err(error) => found.unread.extend(Unread::of(&error)),
            }
            WalkState::Continue
        })
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(found.show())
}

/// Without a slash the pattern is about names, with one about paths.
fn compile(pattern: &str) -> Result<GlobMatcher, Error> {
    let path = match pattern.strip_prefix('/') {
        Some(anchored) => anchored.to_owned(),
        None if pattern.contains('/') => pattern.trim_start_matches("./").to_owned(),
        None => format!("**/{pattern}"),
    };
    GlobBuilder::new(&path)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Error::value("pattern", format!("is no glob: {}", error.kind())))
}

fn is_wanted(entry: &ignore::DirEntry, root: &Name, glob: &GlobMatcher) -> bool {
    let kind = entry.file_type();
    // A link to a file counts, one to a directory does not.
    let is_file =
        kind.is_some_and(|kind| kind.is_file() || (kind.is_symlink() && !entry.path().is_dir()));
    is_file
        && entry
            .path()
            .strip_prefix(root.path())
            .is_ok_and(|inside| glob.is_match(inside))
}

impl Found {
    fn add(&mut self, entry: &ignore::DirEntry, limit: usize) {
        self.count += 1;
        let changed = entry
            .path()
            .symlink_metadata()
            .and_then(|about| about.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let path = shown(entry.path()).to_owned();
        self.newest.push(Reverse((changed, Reverse(path))));
        if self.newest.len() > limit {
            self.newest.pop();
        }
    }

    fn show(mut self) -> String {
        let mut text = String::new();
        let mut listed = 0;
        // Sorted by Reverse, the newest comes first.
        for Reverse((_, Reverse(path))) in self.newest.into_sorted_vec() {
            let line = format!("{}\n", Name::from(path));
            if text.len() + line.len() > TEXT {
                break;
            }
            text.push_str(&line);
            listed += 1;
        }
        let mut words = vec![match (listed, self.count) {
            (_, 0) => "no file matches".to_owned(),
            (listed, all) if listed < all => format!("the {listed} newest of {all} files"),
            (_, 1) => "1 file".to_owned(),
            (_, all) => format!("{all} files"),
        }];
        words.extend(unread_remark(&mut self.unread));
        text.push_str(&format!("[{}]\n", words.join("; ")));
        text
    }
}
