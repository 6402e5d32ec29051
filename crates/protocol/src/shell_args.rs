use serde::{Deserialize, Serialize};

use crate::{Error, Octets};

/// The arguments of the tool `shell`: exactly one of `code` and `argv`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellArgs {
    /// A script, at most 100 KiB (the kernel's limit for one argument is
    /// 128 KiB, execve(2)); a longer one goes over stdin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What interprets the script. Default: `sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// A program with its arguments, started as it is. The program is looked
    /// up in the call's PATH if it has no slash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<Octets>>,
    /// Text for standard input, in the place of what a client writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Working directory; a relative one starts at the call's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Octets>,
    /// Seconds after which the tree is ended; [`crate::ToolCall::timeout_ms`]
    /// goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What interprets a script. Each takes one as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are names of programs")]
pub enum Language {
    #[default]
    Sh,
    Bash,
    Zsh,
    Fish,
    Python3,
    Perl,
    Ruby,
    Node,
    Awk,
    Lua,
    Php,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Sh,
        Self::Bash,
        Self::Zsh,
        Self::Fish,
        Self::Python3,
        Self::Perl,
        Self::Ruby,
        Self::Node,
        Self::Awk,
        Self::Lua,
        Self::Php,
    ];

    /// The program, and the option behind which the script stands.
    #[must_use]
    pub fn program(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Sh => ("sh", Some("-c")),
            Self::Bash => ("bash", Some("-c")),
            Self::Zsh => ("zsh", Some("-c")),
            Self::Fish => ("fish", Some("-c")),
            Self::Python3 => ("python3", Some("-c")),
            Self::Perl => ("perl", Some("-e")),
            Self::Ruby => ("ruby", Some("-e")),
            Self::Node => ("node", Some("-e")),
            Self::Awk => ("awk", None),
            Self::Lua => ("lua", Some("-e")),
            Self::Php => ("php", Some("-r")),
        }
    }
}

impl ShellArgs {
    /// Reads them.
    ///
    /// # Errors
    /// [`Error::Malformed`], naming the field.
    pub fn parse(args: &serde_json::Map<String, serde_json::Value>) -> Result<Self, Error> {
        serde_json::from_value(serde_json::Value::Object(args.clone())).map_err(|source| {
            Error::Malformed {
                record: "arguments of shell",
                source,
            }
        })
    }

    /// The program and its arguments.
    ///
    /// # Errors
    /// [`Error::Argument`].
    pub fn argv(&self) -> Result<Vec<Octets>, Error> {
        let invalid = |argument: &str, problem: &str| {
            Err(Error::Argument {
                tool: "shell".to_owned(),
                argument: argument.to_owned(),
                problem: problem.to_owned(),
            })
        };
        let has_nul = |o: &Octets| o.as_bytes().contains(&0);
        match (&self.code, &self.argv) {
            (Some(_), Some(_)) => invalid("argv", "give either code or argv, not both"),
            (None, None) => invalid("code", "is missing: give code, or argv"),
            (Some(code), None) if code.len() > 100 * 1024 => invalid(
                "code",
                "over 100 KiB: write the script to a file, or give it on standard input",
            ),
            (Some(code), None) if code.contains('\0') => invalid("code", "holds a NUL byte"),
            (Some(code), None) => {
                let (program, option) = self.language.unwrap_or_default().program();
                let words = [Some(program), option, Some(code)];
                Ok(words.into_iter().flatten().map(Octets::from).collect())
            }
            (None, Some(argv)) => match argv.first() {
                None => invalid("argv", "is empty: the first element is the program"),
                Some(program) if program.as_bytes().is_empty() => {
                    invalid("argv", "the program's name is empty")
                }
                Some(_) if argv.iter().any(has_nul) => invalid("argv", "holds a NUL byte"),
                Some(_) => Ok(argv.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(json: &str) -> Result<Vec<Octets>, Error> {
        ShellArgs::parse(&serde_json::from_str(json).unwrap())?.argv()
    }

    #[test]
    fn shell_takes_exactly_one_of_code_and_argv() {
        assert_eq!(
            argv(r#"{"code":"true"}"#).unwrap(),
            ["sh", "-c", "true"].map(Octets::from)
        );
        assert_eq!(argv(r#"{"argv":["a","b"]}"#).unwrap().len(), 2);
        for bad in [
            "{}",
            r#"{"code":"x","argv":["x"]}"#,
            r#"{"argv":[]}"#,
            r#"{"argv":[""]}"#,
            r#"{"cod":"x"}"#,
            r#"{"argv":["a\u0000b"]}"#,
        ] {
            assert!(argv(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_script_stands_behind_the_option_of_its_language() {
        for (language, expected) in [
            ("python3", &["python3", "-c", "x"][..]),
            ("perl", &["perl", "-e", "x"]),
            ("awk", &["awk", "x"]),
        ] {
            let argv = argv(&format!(r#"{{"code":"x","language":"{language}"}}"#)).unwrap();
            let argv: Vec<_> = argv.iter().map(Octets::to_string_lossy).collect();
            assert_eq!(argv, expected);
        }
    }
}
