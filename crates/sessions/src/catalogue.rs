use ollie_agent::ToolDef;
use ollie_protocol::{Run, ToolInfo, ToolSpec, Variant};
use serde_json::json;

/// The argument of `shell` with which a model asks for a way out of the
/// sandbox. It is taken on this side.
pub(crate) const BYPASS: &str = "bypass";

/// The tools that a model is told of, of those that there are; whether `shell`
/// may ask the person.
pub(crate) fn catalogue(tools: &[ToolInfo], asks: bool) -> Vec<ToolDef> {
    let usable = tools.iter().filter(|tool| tool.is_usable());
    let told = |tool: &ToolInfo| {
        let mut told = definition(&tool.spec);
        if asks && is_shell(&tool.spec) {
            told.parameters["properties"][BYPASS] = json!({
                "type": "string",
                "description": "Only if the sandbox keeps this one command from what the person \
                                wants: why it has to run outside. The person is asked and has a \
                                minute to approve; otherwise it is not run.",
            });
        }
        told
    };
    usable.map(told).collect()
}

/// Whether it is toolsrv's own `shell`; the user's may be anything.
pub(crate) fn is_shell(spec: &ToolSpec) -> bool {
    let own = |variant: &Variant| matches!(&variant.run, Run::Native(name) if name == "shell");
    spec.name == "shell" && spec.variants.iter().all(own)
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
