use std::error::Error as _;
use std::io;

use crate::name::Name;

/// Why a tool did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("there is no built-in tool `{name}`")]
    NoSuchTool { name: String },
    #[error("the arguments are not the JSON object that this tool takes")]
    Arguments {
        #[source]
        source: serde_json::Error,
    },
    #[error("`{field}` {problem}")]
    Value {
        field: &'static str,
        problem: String,
    },
    #[error("cannot read the arguments")]
    Input {
        #[source]
        source: io::Error,
    },
    #[error("cannot hand over the result")]
    Output {
        #[source]
        source: io::Error,
    },
    #[error("cannot {action} {name}")]
    Io {
        action: &'static str,
        name: Name,
        #[source]
        source: io::Error,
    },
    /// The file is of a kind that the tool does not take.
    #[error("{name} is {kind}{hint}")]
    Kind {
        name: Name,
        kind: String,
        hint: String,
    },
    /// A sentence about a file that is fine by itself.
    #[error("{name}: {problem}")]
    Refused { name: Name, problem: String },
    #[error("{name} was not changed: {problem}")]
    NotChanged { name: Name, problem: String },
    /// The file was not written, and is what it was.
    #[error("cannot write '{name}', {}", if *.existed { "its content is what it was" } else { "it was not created" })]
    NotWritten {
        name: Name,
        existed: bool,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {name}, and its content could not be put back: it is damaged")]
    Damaged {
        name: Name,
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn value(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Value {
            field,
            problem: problem.into(),
        }
    }

    pub(crate) fn refused(name: &Name, problem: impl Into<String>) -> Self {
        Self::Refused {
            name: name.clone(),
            problem: problem.into(),
        }
    }

    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        name: &Name,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Io {
            action,
            name: name.clone(),
            source: source.into(),
        }
    }

    /// The exit status: whether other arguments would have helped.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::NoSuchTool { .. } | Self::Arguments { .. } | Self::Value { .. } => 2,
            _ => 1,
        }
    }

    /// The sentence with its causes.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
