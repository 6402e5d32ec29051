use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCall {
    /// Unique in its history: the loop renames what a model repeats or leaves
    /// out.
    pub id: String,
    /// 1 to 64 characters of `[A-Za-z0-9_-]`: the loop replaces others, since
    /// providers refuse them when they come back.
    pub name: String,
    /// JSON text. It may be invalid; then the outcome says so.
    pub arguments: String,
}

impl ModelCall {
    /// The arguments as an object. Nothing at all stands for no arguments, as
    /// providers write it.
    ///
    /// # Errors
    /// A sentence that says where the text stops being a JSON object.
    pub fn object(&self) -> Result<Map<String, Value>, String> {
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        }
    }
}

/// What a call gave, as the model is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The text. May be empty.
    pub content: String,
    /// Whether the call failed, or was never made.
    #[serde(default)]
    pub is_error: bool,
}

impl Outcome {
    /// A call that did what it was asked.
    #[must_use]
    pub fn ok(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: false,
        }
    }

    /// A call that failed; `content` says why and what to do.
    #[must_use]
    pub fn error(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: true,
        }
    }
}

/// A call and its result. There is no other way for a call to be in a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// What the model asked for.
    pub call: ModelCall,
    /// What it was told.
    pub outcome: Outcome,
}

/// One block of a model's reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// What can be read of it. Empty where the provider keeps it to itself.
    #[serde(default)]
    pub text: String,
    /// The provider's signature. A block that a stop cut short has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Opaque data of the provider, sent back as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Which model made something. Reasoning goes back only to the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// [`Backend::name`](crate::Backend::name).
    pub backend: String,
    /// The model's name at that back end.
    pub model: String,
}

impl Origin {
    /// Whether it is this model at this back end.
    pub(crate) fn is(&self, backend: &str, model: &str) -> bool {
        self.backend == backend && self.model == model
    }
}

/// One reply of the model, with what became of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// What it said. Empty only if there are calls.
    #[serde(default)]
    pub text: String,
    /// How it came to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Reasoning>,
    /// Its calls, in the order of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Answered>,
    /// Which model it was.
    pub made_by: Origin,
}

/// One step of a history; a line of the file `context`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// The person's prompt, byte for byte.
    User {
        /// Not blank.
        text: String,
    },
    /// What ollie tells the model: the output of a hook, that a reply was
    /// stopped, that calls keep failing.
    Note {
        /// Not blank.
        text: String,
    },
    /// What the model said and did.
    Reply(Reply),
    /// What a compaction left of everything before.
    Summary {
        /// Not blank.
        text: String,
    },
}

impl Entry {
    /// What stands in the role of the user when this is sent: every kind but
    /// a reply. Back ends join what follows one another.
    #[must_use]
    pub fn user_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::User { text } => Some(Cow::Borrowed(text)),
            Self::Note { text } => Some(Cow::Owned(format!("<note>\n{text}\n</note>"))),
            Self::Summary { text } => Some(Cow::Owned(format!(
                "This conversation was longer. A summary of what came before:\n\n{text}"
            ))),
            Self::Reply(_) => None,
        }
    }
}
