//! `{HOME}` and its like in a rule.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::HostView;

/// What became of the variables of one rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expanded {
    /// An absolute path; whether `{CWD}` was part of it.
    Path { path: PathBuf, names_cwd: bool },
    /// A variable that this host has no value for; the rule cannot apply.
    Absent(&'static str),
    /// It names a variable of the environment that is of no use on this host,
    /// and why.
    Unset(String),
    /// The text is not a rule.
    Wrong(String),
}

/// The directories of the XDG Base Directory Specification that have a
/// default below HOME.
const XDG: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// Expands `text`; `{{` and `}}` are braces.
pub(crate) fn expand(text: &str, view: &HostView<'_>, cwd: &Path) -> Expanded {
    let mut out = OsString::new();
    let mut names_cwd = false;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push(&rest[..at]);
        let tail = &rest[at..];
        if let Some(after) = tail.strip_prefix("{{") {
            out.push("{");
            rest = after;
        } else if let Some(after) = tail.strip_prefix("}}") {
            out.push("}");
            rest = after;
        } else if let Some((name, after)) = tail.strip_prefix('{').and_then(|t| t.split_once('}')) {
            match value(name, view, cwd) {
                Ok(value) => out.push(value),
                Err(problem) => return problem,
            }
            names_cwd |= name == "CWD";
            rest = after;
        } else {
            return Expanded::Wrong(
                "a brace without its partner; write {{ or }} for a brace".into(),
            );
        }
    }
    out.push(rest);
    let path = PathBuf::from(out);
    if path.is_absolute() {
        Expanded::Path { path, names_cwd }
    } else if text.starts_with('~') {
        Expanded::Wrong("`~` is not expanded; write {HOME}".into())
    } else {
        Expanded::Wrong("a path must be absolute; write {CWD}/... for one in the project".into())
    }
}

fn value(name: &str, view: &HostView<'_>, cwd: &Path) -> Result<OsString, Expanded> {
    let known = |path: Option<&Path>, name| {
        path.filter(|p| p.is_absolute())
            .map(|p| p.as_os_str().to_owned())
            .ok_or(Expanded::Absent(name))
    };
    match name {
        "CWD" => return Ok(cwd.as_os_str().to_owned()),
        "HOME" => return known(view.home, "HOME"),
        "TMPDIR" => return known(view.tmpdir, "TMPDIR"),
        "OLLIE_TOOLS_PATH" => return known(view.tools_path, "OLLIE_TOOLS_PATH"),
        _ => {}
    }
    let set = (view.env)(name).filter(|v| Path::new(v).is_absolute());
    if let Some((name, below)) = XDG.into_iter().find(|(n, _)| *n == name) {
        // The specification: a relative path in one of these is ignored.
        return match set {
            Some(value) => Ok(value),
            None => known(view.home.map(|h| h.join(below)).as_deref(), name),
        };
    }
    if name == "XDG_RUNTIME_DIR" {
        return set.ok_or(Expanded::Absent("XDG_RUNTIME_DIR"));
    }
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match (is_name, set, (view.env)(name)) {
        (false, ..) => Err(Expanded::Wrong(format!(
            "`{{{name}}}` is not a variable name"
        ))),
        (true, Some(value), _) => Ok(value),
        (true, None, Some(_)) => Err(Expanded::Unset(format!(
            "the variable {name} does not hold an absolute path on this host"
        ))),
        (true, None, None) => Err(Expanded::Unset(format!(
            "the variable {name} is not set on this host"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Expanded {
        let env = |name: &str| match name {
            "GOPATH" => Some("/srv/go".into()),
            "XDG_CACHE_HOME" => Some("relative".into()),
            "REL" => Some("x/y".into()),
            _ => None,
        };
        let view = HostView {
            cwd: Path::new("/w"),
            home: Some(Path::new("/home/u")),
            tmpdir: None,
            path: None,
            tools_path: None,
            program: None,
            ollie_roots: &[],
            env: &env,
            identity: None,
        };
        expand(text, &view, Path::new("/w"))
    }

    #[test]
    fn variables_expand_and_what_is_none_is_told() {
        let path = |p: &str, names_cwd| Expanded::Path {
            path: p.into(),
            names_cwd,
        };
        assert_eq!(
            expanded("{HOME}/.gitconfig"),
            path("/home/u/.gitconfig", false)
        );
        assert_eq!(expanded("{CWD}"), path("/w", true));
        assert_eq!(expanded("{GOPATH}/pkg"), path("/srv/go/pkg", false));
        assert_eq!(
            expanded("{XDG_CACHE_HOME}/uv"),
            path("/home/u/.cache/uv", false)
        );
        assert_eq!(expanded("/a/{{b}}"), path("/a/{b}", false));
        assert_eq!(expanded("{TMPDIR}"), Expanded::Absent("TMPDIR"));
        for unset in ["{NOPE}", "{REL}/x"] {
            assert!(matches!(expanded(unset), Expanded::Unset(_)), "{unset}");
        }
        for wrong in ["{a-b}", "{", "/a}", "~/x", "x/y", "", "{}", "{1A}"] {
            assert!(matches!(expanded(wrong), Expanded::Wrong(_)), "{wrong}");
        }
    }
}
