//! Links that a tool may have made in an earlier call.
//!
//! A rule is resolved anew for each session. If a link on its way lies where
//! tools can write, a tool chose where it leads: `~/.cache/uv -> ~/.ssh` would
//! turn a cache into keys.

use std::path::{Path, PathBuf};

/// The first link on the way of `path` that lies below one of `writable`,
/// which are canonical.
pub(crate) fn link(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let inside = |p: &Path| writable.iter().any(|w| p.starts_with(w));
    let mut here = PathBuf::from("/");
    let mut rest: Vec<_> = path
        .components()
        .rev()
        .map(|c| c.as_os_str().to_owned())
        .collect();
    // The kernel follows 40 links (path_resolution(7)).
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == "/" {
            here = PathBuf::from("/");
            continue;
        }
        if part == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) => {
                links += 1;
                if inside(&here) || links > 40 {
                    return Some(next);
                }
                rest.extend(target.components().rev().map(|c| c.as_os_str().to_owned()));
            }
            Err(_) => here = next,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_made_where_tools_write_is_found_and_others_are_not() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        for dir in ["keys", "cache/real", "config"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        symlink("../keys", top.join("cache/uv")).unwrap();
        symlink("real", top.join("cache/inner")).unwrap();
        symlink("keys", top.join("outer")).unwrap();
        symlink("cache/uv", top.join("through")).unwrap();
        symlink(top.join("cache"), top.join("config/to-cache")).unwrap();
        let writable = [top.join("cache")];
        let found = |path: &str| link(&top.join(path), &writable);
        let planted = Some(top.join("cache/uv"));
        assert_eq!(found("cache/uv"), planted);
        assert_eq!(
            found("through"),
            planted,
            "a person's link to a tool's link"
        );
        assert_eq!(found("config/to-cache/uv"), planted);
        assert_eq!(found("config/../cache/uv/."), planted);
        assert_eq!(found("cache/inner"), Some(top.join("cache/inner")));
        assert_eq!(found("outer"), None, "no tool can write there");
        assert_eq!(found("cache/none"), None);
    }
}
