use ollie_agent::{Parallel, ToolDef};
use ollie_protocol::{Kind, Schema, ToolInfo, ToolSpec};
use serde_json::{Map, Value, json};

/// The tools that a model is told of, of those that there are.
pub(crate) fn catalogue(tools: &[ToolInfo]) -> Vec<ToolDef> {
    let usable = tools.iter().filter(|tool| tool.is_usable());
    usable.map(|tool| definition(&tool.spec)).collect()
}

fn definition(spec: &ToolSpec) -> ToolDef {
    let (properties, required) = fields(spec.parameters.iter());
    ToolDef {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        parallel: match spec.parallel {
            ollie_protocol::Parallel::Read => Parallel::Read,
            ollie_protocol::Parallel::Write => Parallel::Write,
        },
    }
}

/// Fields as JSON Schema has them, where what is required is a list beside
/// them.
fn fields<'a>(
    schemas: impl Iterator<Item = (&'a String, &'a Schema)>,
) -> (Map<String, Value>, Vec<Value>) {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, schema) in schemas {
        properties.insert(name.clone(), json_schema(schema));
        if schema.required {
            required.push(name.as_str().into());
        }
    }
    (properties, required)
}

fn json_schema(schema: &Schema) -> Value {
    // A schema has no map with keys that are not text, which is the one thing
    // that JSON cannot hold.
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    let Value::Object(object) = &mut value else {
        return value;
    };
    object.remove("required");
    if schema.kind == Kind::Octets {
        object.insert("type".to_owned(), "string".into());
    }
    if let Some(items) = &schema.items {
        object.insert("items".to_owned(), json_schema(items));
    }
    if let Some(nested) = &schema.properties {
        let (properties, required) = fields(nested.iter());
        object.insert("properties".to_owned(), properties.into());
        object.insert("required".to_owned(), required.into());
        object.insert("additionalProperties".to_owned(), false.into());
    }
    value
}

#[cfg(test)]
mod tests {
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
