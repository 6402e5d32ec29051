use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::grep_lines::Matches;
use crate::name::Name;
use crate::walk::shown;

/// Bytes of one result, so that nobody cuts it behind us.
const TEXT: usize = 60_000;

/// The first matches by the order of paths, whatever the order in which files
/// are searched. Nothing is kept that cannot be shown.
#[derive(Debug)]
pub(crate) struct Results {
    limit: usize,
    files: BTreeMap<PathBuf, Matches>,
    matches: usize,
    bytes: usize,
    /// Nothing from this path on will be shown.
    cutoff: Option<PathBuf>,
}

/// What is shown of them.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) matches: usize,
    pub(crate) files: usize,
    pub(crate) more: bool,
}

impl Results {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            files: BTreeMap::new(),
            matches: 0,
            bytes: 0,
            cutoff: None,
        }
    }

    /// Whether what is at this path, or below it, cannot be shown any more.
    pub(crate) fn are_full_before(&self, path: &Path) -> bool {
        self.cutoff.as_deref().is_some_and(|cutoff| cutoff <= path)
    }

    pub(crate) fn add(&mut self, path: PathBuf, found: Matches) {
        if self.are_full_before(&path) {
            return;
        }
        self.matches += size(&found).0;
        self.bytes += size(&found).1;
        self.files.insert(path, found);
        // The last file goes if those before it fill the result.
        while let Some(last) = self.files.last_entry() {
            let (matches, bytes) = size(last.get());
            if self.matches - matches < self.limit && self.bytes - bytes < TEXT {
                break;
            }
            self.matches -= matches;
            self.bytes -= bytes;
            self.cutoff = Some(last.remove_entry().0);
        }
    }

    /// The lines of each file below its name.
    pub(crate) fn lines(mut self) -> Shown {
        let mut shown = Shown::nothing(self.cutoff.is_some());
        for (path, mut found) in std::mem::take(&mut self.files) {
            let left = self.limit - shown.matches;
            let heading = heading(&path, shown.files);
            let room = TEXT.saturating_sub(shown.text.len() + heading.len());
            let fits = |found: &Matches, count: usize| {
                let end = found.cuts.get(count).copied();
                end.unwrap_or(found.text.len()) <= room
            };
            let all = found.cuts.len();
            // One match alone is always shown.
            let least = usize::from(shown.files == 0).min(all);
            let count = (least..=all.min(left))
                .rev()
                .find(|count| fits(&found, *count))
                .unwrap_or(least);
            if count == 0 && all > 0 {
                shown.more = true;
                break;
            }
            if let Some(end) = found.cuts.get(count) {
                found.text.truncate(*end);
            }
            shown.text.push_str(&heading);
            shown.text.push_str(&found.text);
            if let Some(remark) = &found.remark {
                shown.text.push_str(&format!("[{remark}]\n"));
            }
            shown.matches += count;
            shown.files += 1;
            shown.more |= found.more || count < all;
            if count < all {
                break;
            }
        }
        shown
    }

    /// One line for each file.
    pub(crate) fn names(self, with_count: bool) -> Shown {
        let mut shown = Shown::nothing(self.cutoff.is_some());
        for (path, found) in self.files {
            let mut line = name(&path);
            if with_count {
                line.push_str(&format!(":{}", found.count));
            }
            if shown.text.len() + line.len() >= TEXT {
                shown.more = true;
                break;
            }
            shown.text.push_str(&line);
            shown.text.push('\n');
            shown.files += 1;
            shown.matches += usize::try_from(found.count).unwrap_or(usize::MAX);
        }
        shown
    }
}

impl Shown {
    fn nothing(more: bool) -> Self {
        Self {
            text: String::new(),
            matches: 0,
            files: 0,
            more,
        }
    }
}

/// Matches and bytes that a file takes. One without lines counts as one.
fn size(found: &Matches) -> (usize, usize) {
    (found.cuts.len().max(1), found.text.len())
}

fn heading(path: &Path, files: usize) -> String {
    let gap = if files == 0 { "" } else { "\n" };
    format!("{gap}{}\n", name(path))
}

fn name(path: &Path) -> String {
    Name::from(shown(path)).to_string()
}
