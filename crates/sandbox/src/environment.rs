//! Which variables a call gets.

use std::ffi::{OsStr, OsString};

use crate::Policy;

/// A name of a policy file: exact, or a prefix with a trailing `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix) && !is_sensitive(name),
        None => pattern == name,
    }
}

/// Why `pattern` is not a name, if it is not.
pub(crate) fn problem(pattern: &str) -> Option<String> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    if name.is_empty() {
        return Some("a prefix must have at least one letter".into());
    }
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    (!is_name).then(|| {
        "not a variable's name: letters, digits and _, and `*` only as the last character".into()
    })
}

/// Names that no prefix lets through; a policy must write them out. They hold
/// secrets, or they make a program load code.
fn is_sensitive(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let ends = [
        "_TOKEN",
        "_KEY",
        "_SECRET",
        "_PASSWORD",
        "_PASSWD",
        "_PASS",
        "_CREDENTIALS",
        "_AUTH_SOCK",
    ];
    let starts = ["AWS_", "OLLIE_", "LD_", "AZURE_", "GH_", "GITHUB_"];
    ends.iter().any(|e| upper.ends_with(e)) || starts.iter().any(|s| upper.starts_with(s))
}

impl Policy {
    /// Splits an environment into what a call gets and a count of what is
    /// kept from it. Names that are not UTF-8 are kept.
    ///
    /// `PWD` is kept as well and not counted: whoever starts the call knows its
    /// directory, and this one is another's. `TMPDIR` is always the session's private directory, where there is one,
    /// and so is what begins zsh's temporary files (`TMPPREFIX`, zshparam(1)):
    /// it puts here documents below /tmp otherwise, where no tool may write.
    #[must_use]
    pub fn environment(
        &self,
        from: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> (Vec<(OsString, OsString)>, u32) {
        let mut passed = Vec::new();
        let mut withheld = 0u32;
        for (name, value) in from {
            let ours = ["TMPDIR", "TMPPREFIX"]
                .iter()
                .any(|ours| name == OsStr::new(ours));
            if (ours && self.tmpdir.is_some()) || name == OsStr::new("PWD") {
                continue;
            }
            if name.to_str().is_some_and(|n| self.passes(n)) {
                passed.push((name, value));
            } else {
                withheld = withheld.saturating_add(1);
            }
        }
        if let Some(tmpdir) = &self.tmpdir {
            passed.push(("TMPPREFIX".into(), tmpdir.0.join("zsh").into_os_string()));
            passed.push(("TMPDIR".into(), tmpdir.0.clone().into_os_string()));
        }
        (passed, withheld)
    }

    /// Whether a variable of this name reaches a call.
    #[must_use]
    pub fn passes(&self, name: &str) -> bool {
        !self.drops(name) && self.env.iter().any(|p| matches(&p.value, name))
    }

    /// Whether somebody took this variable away (`drop: { env: [...] }`).
    #[must_use]
    pub fn drops(&self, name: &str) -> bool {
        self.env_dropped
            .iter()
            .any(|d| match d.value.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => d.value == name,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_lets_no_secret_through() {
        assert!(matches("LC_*", "LC_ALL"));
        assert!(!matches("LC_*", "LANG"));
        assert!(matches("PATH", "PATH"));
        assert!(!matches("PATH", "PATHEXT"));
        assert!(!matches("L*", "LD_PRELOAD"));
        assert!(!matches("S*", "SSH_AUTH_SOCK"));
        assert!(!matches("G*", "GITHUB_TOKEN"));
        assert!(!matches("o*", "openai_api_key"));
        assert!(
            matches("SSH_AUTH_SOCK", "SSH_AUTH_SOCK"),
            "written out it passes"
        );
    }

    #[test]
    fn what_is_not_a_name_is_told() {
        for wrong in ["", "*", "A*B", "A-B", "1A", "A=B", "*A", "A B"] {
            assert!(problem(wrong).is_some(), "{wrong}");
        }
        for right in ["A", "LC_*", "_x9"] {
            assert_eq!(problem(right), None, "{right}");
        }
    }
}
