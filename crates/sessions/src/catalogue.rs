use ollie_agent::ToolDef;
use ollie_protocol::{ToolInfo, ToolSpec};

/// The tools that a model is told of, of those that there are.
pub(crate) fn catalogue(tools: &[ToolInfo]) -> Vec<ToolDef> {
    let usable = tools.iter().filter(|tool| tool.is_usable());
    usable.map(|tool| definition(&tool.spec)).collect()
}

fn definition(spec: &ToolSpec) -> ToolDef {
    ToolDef {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters: spec.json_schema(),
        parallel: spec.parallel,
    }
}

#[cfg(test)]
mod tests {
    use ollie_agent::Parallel;
    use serde_json::json;

    use super::*;

    /// The same in JSON Schema, draft 2020-12, written by hand.
    #[test]
    fn a_model_is_told_plain_json_schema() {
        let spec: ToolSpec = serde_json::from_value(json!({
            "name": "edit",
            "description": "Edits.",
            "parallel": "write",
            "parameters": {
                "path": { "type": "octets", "required": true, "description": "Where." },
                "edits": { "type": "array", "minItems": 1, "items": {
                    "type": "object",
                    "properties": {
                        "old": { "type": "string", "required": true },
                        "all": { "type": "boolean", "default": false },
                    },
                } },
            },
            "variants": [{ "run": { "builtin": ["edit"] } }],
        }))
        .unwrap();
        let told = definition(&spec);
        assert_eq!(told.parallel, Parallel::Write);
        assert_eq!(
            told.parameters,
            json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "Where." },
                    "edits": { "type": "array", "minItems": 1, "items": {
                        "type": "object",
                        "properties": {
                            "old": { "type": "string" },
                            "all": { "type": "boolean", "default": false },
                        },
                        "required": ["old"],
                        "additionalProperties": false,
                    } },
                },
                "required": ["path"],
                "additionalProperties": false,
            })
        );
    }
}
