use serde::{Deserialize, Serialize};

/// Where a variant of a tool can be run. All that is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// A program of this name is on PATH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What that program says of itself with `--version` is this or later:
    /// numbers with dots between them. It is asked inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<String>,
    /// This file is there; a relative path begins at the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The operating system: `linux`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The machine as uname(2) gives it: `x86_64`, `aarch64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// A variable of this name is set in the environment of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The Landlock ABI is this or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock: Option<u32>,
    /// Whether the host is NixOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nixos: Option<bool>,
}

impl Condition {
    /// The field that makes no sense and why.
    pub(crate) fn validate(&self) -> Result<(), (String, String)> {
        let wrong = |field: &str, problem: &str| Err((format!("when.{field}"), problem.to_owned()));
        let plain = |name: &str| !name.is_empty() && !name.contains(['/', '\0']);
        match self {
            Self {
                command: Some(name),
                ..
            } if !plain(name) => wrong("command", "the name of a program, without slashes"),
            Self {
                min_version: Some(_),
                command: None,
                ..
            } => wrong("min_version", "of which command? Name it as well"),
            Self {
                min_version: Some(text),
                ..
            } if version(text).is_none() => wrong(
                "min_version",
                "numbers with dots between them, as in \"13.2\"",
            ),
            Self {
                file: Some(path), ..
            } if path.is_empty() || path.contains('\0') => wrong("file", "a path"),
            Self {
                env: Some(name), ..
            } if name.is_empty() || name.contains(['=', '\0']) => {
                wrong("env", "the name of a variable")
            }
            _ if *self == Self::default() => {
                Err(("when".to_owned(), "is empty: leave it out".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// A version as numbers, if the whole text is one.
#[must_use]
pub fn version(text: &str) -> Option<Vec<u64>> {
    let numbers = text.split('.').map(|part| part.parse().ok());
    numbers.collect::<Option<Vec<u64>>>()
}

/// The first version in what a program says of itself: the first word that
/// begins with a digit and has a dot, else the first that begins with a
/// digit. `v` before it and what follows the numbers are passed over.
#[must_use]
pub fn find_version(said: &str) -> Option<Vec<u64>> {
    let numbers = |word: &str| {
        let word = word.trim_start_matches(['v', 'V', '(', '"']);
        let end = word
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(word.len());
        let text = word.get(..end)?.trim_end_matches('.');
        version(text).map(|numbers| (text.contains('.'), numbers))
    };
    let found: Vec<_> = said
        .split([' ', '\t', '\n', ',', '-', '/'])
        .take(64)
        .filter_map(numbers)
        .collect();
    let dotted = found.iter().find(|(dotted, _)| *dotted);
    dotted.or(found.first()).map(|(_, it)| it.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First lines of real programs.
    #[test]
    fn the_version_is_found_in_what_programs_say() {
        for (said, expected) in [
            ("ripgrep 14.1.0 (rev e50df40a19)", &[14, 1, 0][..]),
            ("git version 2.39.5 (Apple Git-154)", &[2, 39, 5]),
            ("Python 3.12.3", &[3, 12, 3]),
            ("v20.11.1", &[20, 11, 1]),
            (
                "GNU bash, version 5.2.21(1)-release (x86_64-pc-linux-gnu)",
                &[5, 2, 21],
            ),
            ("less 590 (GNU regular expressions)", &[590]),
            ("OpenSSH_9.6p1", &[]),
            ("jq-1.7.1", &[1, 7, 1]),
            ("no number at all", &[]),
            ("", &[]),
        ] {
            assert_eq!(find_version(said).unwrap_or_default(), expected, "{said}");
        }
    }

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        let at_least = |found: &str, least: &str| version(found) >= version(least);
        assert!(at_least("13.0.1", "13"));
        assert!(at_least("13.10", "13.9"));
        assert!(!at_least("9.9", "13"));
        assert_eq!(version("13.x"), None);
    }

    #[test]
    fn a_condition_says_something_and_says_it_of_something() {
        let condition = |json: &str| serde_json::from_str::<Condition>(json).unwrap();
        for (json, field) in [
            ("{}", "when"),
            (r#"{"min_version":"13"}"#, "when.min_version"),
            (r#"{"command":"/bin/rg"}"#, "when.command"),
            (
                r#"{"command":"rg","min_version":"new"}"#,
                "when.min_version",
            ),
            (r#"{"env":"A=B"}"#, "when.env"),
        ] {
            assert_eq!(condition(json).validate().unwrap_err().0, field, "{json}");
        }
        condition(r#"{"command":"rg","min_version":"13.0"}"#)
            .validate()
            .unwrap();
    }
}
