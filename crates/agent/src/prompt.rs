use ollie_protocol::HostFacts;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What the template of a prompt can name. It describes the host where the
/// tools run, and is kept with a session, so that a prompt is rendered the
/// same way when its agent is loaded again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variables {
    /// `PRIME_CWD`: the session's working directory.
    pub cwd: String,
    /// `PRIME_PLATFORM`: `linux`.
    pub platform: String,
    /// `PRIME_IS_GIT_REPO`: `true` or `false`.
    pub is_git_repo: bool,
    /// `PRIME_DATE`: the day, `2026-01-31`.
    pub date: String,
}

/// The names in a message, in the order of the fields.
const NAMES: &str = "PRIME_CWD, PRIME_PLATFORM, PRIME_IS_GIT_REPO, PRIME_DATE";

impl Variables {
    /// The facts of the tool host, and the day (ISO 8601) as the caller's
    /// clock has it.
    #[must_use]
    pub fn new(facts: &HostFacts, date: &str) -> Self {
        Self {
            cwd: String::from_utf8_lossy(facts.cwd.as_bytes()).into_owned(),
            platform: facts.os.clone(),
            is_git_repo: facts.git.is_some(),
            date: date.to_owned(),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "PRIME_CWD" => Some(&self.cwd),
            "PRIME_PLATFORM" => Some(&self.platform),
            "PRIME_IS_GIT_REPO" => Some(if self.is_git_repo { "true" } else { "false" }),
            "PRIME_DATE" => Some(&self.date),
            _ => None,
        }
    }
}

/// Puts the variables into a template: `${PRIME_CWD}` or `$PRIME_CWD`. `$${`
/// stands for `${`; any other `$` for itself. What is put in is not looked at
/// again.
///
/// # Errors
/// [`Error::Template`] with the line of a variable that is not one of
/// [`Variables`], or has no end.
pub fn render(template: &str, variables: &Variables) -> Result<String, Error> {
    let mut rendered = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        rendered.push_str(before);
        let trouble = |problem: String| Error::Template {
            line: line_of(template, after),
            problem,
        };
        let unknown = |name: &str| {
            trouble(format!(
                "there is no variable {name:?}, only {NAMES}; write $${{ for a plain ${{"
            ))
        };
        if let Some(plain) = after.strip_prefix("${") {
            rendered.push_str("${");
            rest = plain;
        } else if let Some(braced) = after.strip_prefix('{') {
            let Some((name, tail)) = braced.split_once('}') else {
                return Err(trouble("a ${ without its }".to_owned()));
            };
            let value = variables.value(name).ok_or_else(|| unknown(name))?;
            rendered.push_str(value);
            rest = tail;
        } else if after.starts_with("PRIME_") {
            let is_name = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
            let end = after.find(|it| !is_name(it)).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            let value = variables.value(name).ok_or_else(|| unknown(name))?;
            rendered.push_str(value);
            rest = tail;
        } else {
            rendered.push('$');
            rest = after;
        }
    }
    rendered.push_str(rest);
    Ok(rendered)
}

/// The line that the end `tail` of `text` begins on, counted from 1.
fn line_of(text: &str, tail: &str) -> usize {
    let before = text.len().saturating_sub(tail.len());
    let newlines = text.bytes().take(before).filter(|&byte| byte == b'\n');
    newlines.count().saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        Variables {
            cwd: "/srv/${PRIME_DATE}".into(),
            platform: "linux".into(),
            is_git_repo: true,
            date: "2026-01-31".into(),
        }
    }

    #[test]
    fn variables_are_put_in_once() {
        for (template, expected) in [
            (
                "in ${PRIME_CWD} on $PRIME_PLATFORM.",
                "in /srv/${PRIME_DATE} on linux.",
            ),
            ("git: $PRIME_IS_GIT_REPO", "git: true"),
            ("$5, $HOME, $(id), $", "$5, $HOME, $(id), $"),
            ("$${PRIME_CWD}", "${PRIME_CWD}"),
            ("$$$PRIME_DATE", "$$2026-01-31"),
            ("é$PRIME_DATEé", "é2026-01-31é"),
            ("", ""),
        ] {
            assert_eq!(render(template, &variables()).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_variable_is_told_with_its_line() {
        for (template, words) in [
            ("a\nb ${PRIME_CDW}", ["line 2", "\"PRIME_CDW\""]),
            ("$PRIME_TIME", ["line 1", "PRIME_TIME"]),
            ("\n\n${HOME}", ["line 3", "$${"]),
            ("${PRIME_CWD", ["line 1", "without its }"]),
        ] {
            let error = render(template, &variables()).unwrap_err().to_string();
            assert!(words.iter().all(|it| error.contains(it)), "{error}");
        }
    }
}
