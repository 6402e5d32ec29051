//! Calls a tool as toolsrv does, within this process.

use serde_json::Value;

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn call(tool: &str, arguments: &Value) -> Answer {
    let json = arguments.to_string();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = ollie_builtins::run(tool, &mut json.as_bytes(), &mut out, &mut err);
    Answer {
        status,
        out: String::from_utf8(out).expect("a result is text"),
        err: String::from_utf8(err).expect("an error is text"),
    }
}

impl Answer {
    /// The result of a call that did what was asked.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.status, &self.err[..]), (0, ""), "{}", self.out);
        self.out
    }

    /// The sentence of one that did not.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert_eq!((self.status, &self.out[..]), (1, ""), "{}", self.err);
        assert!(!self.err.trim_end().is_empty());
        self.err
    }
}

/// The result without its closing note, and the note.
#[track_caller]
pub(crate) fn parts(result: &str) -> (&str, &str) {
    let body = result.strip_suffix("]\n").expect("a closing note");
    let at = body.rfind("\n[").map_or(0, |at| at + 1);
    (&result[..at], &result[at..])
}
