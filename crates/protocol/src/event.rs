use serde::{Deserialize, Serialize};

use crate::{Asked, Octets, ToolResult};

/// One line of a call's event stream (`proc/new`), newline-delimited JSON.
///
/// Order: one `ask` if the call asks the person, one `started` (missing when nothing could be started), any number
/// of `output` and `notice`, one `result`, end of file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Event {
    /// The person is asked whether it may run outside of the sandbox. toolsrv
    /// puts it together itself, so that `call` is what `digest` is of.
    #[serde(skip_serializing)]
    Ask {
        /// See [`crate::Ask`].
        left_ms: u64,
        /// Likewise.
        digest: String,
        /// Likewise.
        call: Box<Asked>,
    },
    /// The process runs.
    Started {
        /// Its id on the tool host.
        pid: u32,
    },
    /// Output as it arrives. With [`crate::EventFormat::Json`] it stands in
    /// `data`; with [`crate::EventFormat::Raw`] exactly `bytes` raw bytes
    /// follow the line's newline.
    Output {
        /// Which stream it came from.
        stream: Stream,
        /// The chunk itself, JSON format only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Octets>,
        /// The length of the chunk that follows, raw format only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u32>,
    },
    /// A sentence for the person or the model.
    Notice {
        /// The sentence.
        text: String,
    },
    /// The end of the call.
    Result(Box<ToolResult>),
}

/// An output stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}
