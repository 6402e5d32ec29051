use crate::{Error, limits};

/// The directories a bundle has, and so the first component of every path.
pub(crate) const ROOTS: [&str; 3] = ["sandbox-profiles", "tools", "toolsrv"];

/// Accepts a path that means one place inside the bundle and nothing else.
///
/// The alphabet is closed: what is left after it cannot end a line of a
/// protocol record, start an option, name a parent or need quoting in a shell.
pub(crate) fn check(path: &str) -> Result<(), Error> {
    let refuse = |why| {
        Err(Error::Path {
            path: path.escape_default().to_string(),
            why,
        })
    };
    if path.len() > limits::PATH {
        return refuse("it is longer than 100 bytes");
    }
    if path.starts_with('/') {
        return refuse("it is absolute");
    }
    let Some((root, _)) = path.split_once('/') else {
        return refuse("it lies in no directory");
    };
    for component in path.split('/') {
        match component {
            "" => return refuse("it has an empty component"),
            "." | ".." => return refuse("it has a component `.` or `..`"),
            _ => {}
        }
        if component.starts_with('-') {
            return refuse("a component starts with `-`");
        }
        if !component.bytes().all(is_plain) {
            return refuse("a character is not one of A-Z a-z 0-9 . _ + -");
        }
    }
    if !ROOTS.contains(&root) {
        return refuse("it is not in toolsrv/, tools/ or sandbox-profiles/");
    }
    Ok(())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'+' | b'-')
}

/// Where the toolsrv of one platform lies.
pub(crate) fn toolsrv(os: &str, arch: &str) -> String {
    format!("toolsrv/{os}-{arch}/toolsrv")
}

/// The `<os>-<arch>` of a toolsrv's path; `None` for any other file.
pub(crate) fn platform(path: &str) -> Option<&str> {
    let platform = path.strip_prefix("toolsrv/")?.strip_suffix("/toolsrv")?;
    (!platform.contains('/')).then_some(platform)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_below_a_known_directory_pass() {
        for path in [
            "toolsrv/linux-x86_64/toolsrv",
            "tools/file_grep/tool.yaml",
            "sandbox-profiles/default.yaml",
            "tools/c++/.hidden",
        ] {
            check(path).expect(path);
        }
    }

    #[test]
    fn anything_that_could_mean_another_place_is_refused() {
        for path in [
            "",
            "tools",
            "tools/",
            "/tools/x",
            "tools//x",
            "tools/../x",
            "tools/./x",
            "../tools/x",
            "etc/passwd",
            "tools/-rf",
            "tools/a b",
            "tools/a\nb",
            "tools/a\\b",
            "tools/\u{e4}",
            "tools/a\0b",
            "manifest.json",
        ] {
            let error = check(path).expect_err(path);
            assert!(matches!(error, Error::Path { .. }), "{error}");
        }
        assert!(check(&format!("tools/{}", "x".repeat(94))).is_ok());
        assert!(check(&format!("tools/{}", "x".repeat(95))).is_err());
    }
}
