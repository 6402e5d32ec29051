/// Why a record of the other side was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The record is not JSON of the expected shape. The source names line and
    /// column, and the field that is unknown, missing or of the wrong type.
    #[error("malformed {record}")]
    Malformed {
        /// Which record it is, as a reader of docs/protocol.md knows it.
        record: &'static str,
        /// What the JSON parser found.
        #[source]
        source: serde_json::Error,
    },
    /// The record has the right shape and a value that is not allowed.
    #[error("{record}: {field}: {problem}")]
    Invalid {
        /// Which record it is.
        record: &'static str,
        /// The field with the value.
        field: &'static str,
        /// What is wrong with it and what is expected.
        problem: String,
    },
    /// A tool's metadata say something that is not allowed.
    #[error("tool {tool}: {field}: {problem}")]
    Tool {
        /// The tool.
        tool: String,
        /// The field, with its place: `variants[1].when.command`.
        field: String,
        /// What is wrong with it and what is expected.
        problem: String,
    },
    /// An argument of a call is not what its tool takes.
    #[error("{tool}: argument {argument}: {problem}")]
    Argument {
        /// The tool.
        tool: String,
        /// The argument, with its place: `edits[2].old`.
        argument: String,
        /// What is wrong with it and what is expected.
        problem: String,
    },
}
