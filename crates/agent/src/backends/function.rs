use serde::Serialize;
use serde_json::Value;

use crate::ToolDef;

/// A tool as Chat Completions declares it, and Ollama after it.
#[derive(Debug, Serialize)]
pub(crate) struct Function<'a> {
    r#type: &'static str,
    function: Declared<'a>,
}

#[derive(Debug, Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> From<&'a ToolDef> for Function<'a> {
    fn from(tool: &'a ToolDef) -> Self {
        Self {
            r#type: "function",
            function: Declared {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
            },
        }
    }
}
