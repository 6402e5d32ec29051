use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Error, Octets, limits};

const RECORD: &str = "tool call";
/// What a reason has to be.
const REASON: &str =
    "1 to 1024 bytes of text, with a visible character and without control characters";

/// One tool call, as it is written to `proc/new` or `proc/new.bg`.
///
/// The call starts with the Twrite that completes the JSON value; the count in
/// its Rwrite ends where the value ends. Whatever is written to the same fid
/// after it is the call's standard input, if [`stdin`](Self::stdin) is set; a
/// write of zero bytes ends that input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Chosen by the client, unique in the session: a client that lost its
    /// connection asks for the fate of the call by this name.
    pub id: CallId,
    /// The tool's name, as `tools/index` lists it.
    pub tool: String,
    /// The tool's arguments, a JSON object. Default: empty.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Working directory on the tool host; relative ones start at the
    /// session's. Default: the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Octets>,
    /// Variables set for this call on top of those the policy lets through.
    /// `LD_*` and other names that the dynamic linker obeys are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Octets>,
    /// After how many milliseconds the process tree is ended. Default: never
    /// for `shell`; other tools may have a default of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds between SIGTERM and SIGKILL when the call is ended.
    /// Default: [`limits::GRACE`], at most one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Whether standard input follows on the same fid. Default: no, and the
    /// call reads from `/dev/null`.
    #[serde(default)]
    pub stdin: bool,
    /// How output travels. Default: [`EventFormat::Json`].
    #[serde(default)]
    pub events: EventFormat,
    /// Why this call of `shell` has to run outside of the sandbox: text of at
    /// most [`limits::REASON_MAX`] bytes with a visible character and without
    /// control characters. The person is asked, and nothing is started before
    /// they approve ([`crate::Ask`]). Default: it runs inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass: Option<String>,
    /// Whether the call waits for its turn: those that read run beside each
    /// other, those that write alone ([`crate::Parallel`]). A call that does
    /// not wait starts at once, and nobody waits for it. Default: it waits;
    /// one of `proc/new.bg` never does.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub queue: bool,
}

fn yes() -> bool {
    true
}

impl ToolCall {
    /// A call of `tool` with no arguments and every default.
    #[must_use]
    pub fn new(id: CallId, tool: &str) -> Self {
        Self {
            id,
            tool: tool.to_owned(),
            args: serde_json::Map::new(),
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: None,
            grace_ms: None,
            stdin: false,
            events: EventFormat::Json,
            bypass: None,
            queue: true,
        }
    }

    /// Checks what the shape alone does not say.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the field and what it should be.
    pub fn validate(&self) -> Result<(), Error> {
        let invalid = |field, problem: String| {
            Err(Error::Invalid {
                record: RECORD,
                field,
                problem,
            })
        };
        if self.grace_ms.is_some_and(|ms| ms > 60_000) {
            return invalid("grace_ms", "at most 60000".into());
        }
        if self.bypass.as_ref().is_some_and(|reason| {
            !reason.contains(is_visible)
                || reason.len() > limits::REASON_MAX
                || reason.contains(char::is_control)
        }) {
            return invalid("bypass", REASON.into());
        }
        if let Some(cwd) = &self.cwd
            && (cwd.as_bytes().is_empty() || cwd.as_bytes().contains(&0))
        {
            return invalid("cwd", "an empty path or one with a NUL byte".into());
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.as_bytes().contains(&0) {
                return invalid(
                    "env",
                    format!("{name:?} is not a variable name, or its value holds a NUL byte"),
                );
            }
            if is_linker_variable(name) {
                return invalid(
                    "env",
                    format!("{name} changes what programs load; set it inside the command instead"),
                );
            }
        }
        Ok(())
    }
}

/// Whether a person sees it: letters that are fillers draw nothing.
fn is_visible(c: char) -> bool {
    let filler = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
    (c.is_alphanumeric() || c.is_ascii_graphic()) && !filler
}

/// Names that change what the dynamic linker loads (ld.so(8)). A call may set
/// them for its own children, but not for the program that ollie starts.
fn is_linker_variable(name: &str) -> bool {
    name.starts_with("LD_") || matches!(name, "GCONV_PATH" | "GLIBC_TUNABLES" | "MALLOC_TRACE")
}

/// A call's name, unique in its session: 1 to 64 bytes of `[A-Za-z0-9_.-]`,
/// not starting with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallId(String);

impl CallId {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is empty, too long or has another character.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if limits::is_name(&name) && name != "new" && name != "new.bg" && name != "index" {
            Ok(Self(name))
        } else {
            Err(Error::Invalid {
                record: RECORD,
                field: "id",
                problem: "1 to 64 bytes of [A-Za-z0-9_.-], not starting with a dot and not the \
                          name of another file of proc/"
                    .into(),
            })
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for CallId {
    type Error = Error;
    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.0
    }
}

/// How the output of a call travels in its event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventFormat {
    /// Each chunk inside a JSON line: as a string, or base64 where it is not
    /// UTF-8.
    #[default]
    Json,
    /// A JSON line announces the stream and the byte count, and that many raw
    /// bytes follow: nothing is encoded, and [`crate::ToolResult::content`]
    /// stays empty since the reader had every byte.
    Raw,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_an_error_that_names_it() {
        let error = serde_json::from_str::<ToolCall>(r#"{"id":"a","tool":"shell","tiemout_ms":1}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("tiemout_ms"), "{error}");
    }

    #[test]
    fn a_call_id_is_a_plain_name() {
        for bad in ["", ".", "..", "a/b", "a b", "new", "index", &"x".repeat(65)] {
            assert!(CallId::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "call-1", "6f.2", &"x".repeat(64)] {
            assert!(CallId::new(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_reason_can_be_seen() {
        let mut call = ToolCall::new(CallId::new("a").unwrap(), "shell");
        for (reason, valid) in [
            ("", false),
            ("  ", false),
            ("\u{2800}\u{a0}\u{200b}\u{3164}", false),
            ("a\nb", false),
            (" a", true),
            ("\u{fc}", true),
        ] {
            call.bypass = Some(reason.to_owned());
            assert_eq!(call.validate().is_ok(), valid, "{reason:?}");
        }
    }

    #[test]
    fn a_call_may_not_steer_the_dynamic_linker() {
        let mut call = ToolCall::new(CallId::new("a").unwrap(), "shell");
        call.env.insert("LD_PRELOAD".into(), "/tmp/x.so".into());
        assert!(
            call.validate()
                .unwrap_err()
                .to_string()
                .contains("LD_PRELOAD")
        );
    }
}
