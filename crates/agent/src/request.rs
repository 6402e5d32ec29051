use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{History, Parallel};

/// A tool as the model is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDef {
    /// 1 to 64 characters of `[A-Za-z0-9_-]`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// A JSON Schema of type `object`.
    pub parameters: Value,
    /// Whether it may run beside others.
    pub parallel: Parallel,
}

/// How the model chooses its words. What is not set is left to the provider.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Sampling {
    /// Randomness, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Tokens of one reply at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// -2 to 2; where the provider has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// -2 to 2; where the provider has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Texts that end a reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// What a back end makes a reply of.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The model's name at this back end.
    pub model: &'a str,
    /// The system prompt, rendered. Empty for none.
    pub system: &'a str,
    /// What was said and done. Its last entry is never a reply without calls.
    pub history: &'a History,
    /// The tools that the model is shown, in this order.
    pub tools: &'a [ToolDef],
    /// How it chooses its words.
    pub sampling: &'a Sampling,
}
