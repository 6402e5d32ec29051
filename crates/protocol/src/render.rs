//! Tools as models and people read them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{Kind, Parallel, Schema, ToolSpec};

impl ToolSpec {
    /// Its arguments as a JSON Schema of an object.
    #[must_use]
    pub fn json_schema(&self) -> Value {
        object(Some(&self.parameters))
    }

    /// An element of `tools` in the API of OpenAI (Chat Completions,
    /// "tools"), which most others understand as well.
    #[must_use]
    pub fn to_openai(&self) -> Value {
        json!({"type": "function", "function": {
            "name": self.name,
            "description": self.description.trim(),
            "parameters": self.json_schema(),
        }})
    }

    /// An element of `tools` in the API of Anthropic (Messages, "tools").
    #[must_use]
    pub fn to_anthropic(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description.trim(),
            "input_schema": self.json_schema(),
        })
    }

    /// A section for people.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.name, self.description.trim());
        let required = |(_, schema): &(&String, &Schema)| !schema.required;
        let mut parameters: Vec<_> = self.parameters.iter().collect();
        parameters.sort_by_key(required);
        if !parameters.is_empty() {
            text.push_str("| argument | type | default | |\n| --- | --- | --- | --- |\n");
        }
        for (name, schema) in parameters {
            let default = match &schema.default {
                Some(value) => format!("`{}`", cell(&value.to_string())),
                None if schema.required => "required".to_owned(),
                None => String::new(),
            };
            let about = cell(schema.description.as_deref().unwrap_or_default());
            text.push_str(&format!(
                "| `{name}` | {} | {default} | {about} |\n",
                cell(&kind(schema))
            ));
        }
        text.push_str(match self.parallel {
            Parallel::Read => "\nIt may run beside other reads.",
            Parallel::Write => "\nIt runs alone.",
        });
        if let Some(seconds) = self.timeout_s {
            text.push_str(&format!(" It is ended after {seconds} seconds."));
        }
        text.push_str(&format!(
            " Its result holds at most {} bytes of output.\n",
            self.content_max()
        ));
        text
    }
}

impl Schema {
    /// The schema as JSON Schema has it.
    fn to_json(&self) -> Value {
        let mut json = match self.kind {
            Kind::Object => object(self.properties.as_ref()),
            Kind::Octets => json!({"type": "string"}),
            kind => json!({"type": kind.name()}),
        };
        let more = [
            ("description", self.description.clone().map(Value::from)),
            ("default", self.default.clone()),
            ("enum", self.one_of.clone().map(Value::from)),
            ("items", self.items.as_ref().map(|items| items.to_json())),
            ("minimum", self.minimum.clone().map(Value::Number)),
            ("maximum", self.maximum.clone().map(Value::Number)),
            ("minLength", self.min_length.map(Value::from)),
            ("maxLength", self.max_length.map(Value::from)),
            ("minItems", self.min_items.map(Value::from)),
            ("maxItems", self.max_items.map(Value::from)),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                json[name] = value;
            }
        }
        // Providers refuse an array that says nothing of its elements.
        if self.kind == Kind::Array && self.items.is_none() {
            json["items"] = json!({});
        }
        json
    }
}

fn object(properties: Option<&BTreeMap<String, Schema>>) -> Value {
    let Some(properties) = properties else {
        return json!({"type": "object"});
    };
    let fields: Map<String, Value> = properties
        .iter()
        .map(|(name, schema)| (name.clone(), schema.to_json()))
        .collect();
    let required: Vec<&String> = properties
        .iter()
        .filter(|(_, schema)| schema.required)
        .map(|(name, _)| name)
        .collect();
    let mut json = json!({
        "type": "object",
        "properties": fields,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        json["required"] = json!(required);
    }
    json
}

fn kind(schema: &Schema) -> String {
    if let Some(values) = &schema.one_of {
        let list: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return list.join(" ");
    }
    match &schema.items {
        Some(items) => format!("array of {}", kind(items)),
        None => schema.kind.name().to_owned(),
    }
}

/// Text as it may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ToolSpec {
        serde_json::from_value(json!({
            "name": "find", "description": "Finds things.\n", "parallel": "read",
            "parameters": {
                "all": {"type": "boolean", "default": false, "description": "a|b"},
                "path": {"type": "octets", "required": true},
                "edits": {"type": "array", "items": {"type": "object", "properties": {
                    "old": {"type": "string", "required": true, "minLength": 1}}}},
            },
            "variants": [{"run": {"command": ["find"]}}],
            "timeout_s": 9,
        }))
        .unwrap()
    }

    /// Expected by hand after the two providers' reference pages.
    #[test]
    fn a_tool_is_what_both_providers_document() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {
                "all": {"type": "boolean", "default": false, "description": "a|b"},
                "path": {"type": "string"},
                "edits": {"type": "array", "items": {
                    "type": "object", "additionalProperties": false, "required": ["old"],
                    "properties": {"old": {"type": "string", "minLength": 1}}}},
            },
        });
        assert_eq!(
            spec().to_openai(),
            json!({"type": "function", "function": {
                "name": "find", "description": "Finds things.", "parameters": schema}})
        );
        assert_eq!(
            spec().to_anthropic(),
            json!({"name": "find", "description": "Finds things.", "input_schema": schema})
        );
    }

    #[test]
    fn a_person_reads_a_table_with_what_is_required_first() {
        let expected = "## find\n\nFinds things.\n\n\
            | argument | type | default | |\n| --- | --- | --- | --- |\n\
            | `path` | octets | required |  |\n\
            | `all` | boolean | `false` | a\\|b |\n\
            | `edits` | array of object |  |  |\n\n\
            It may run beside other reads. It is ended after 9 seconds. \
            Its result holds at most 65536 bytes of output.\n";
        assert_eq!(spec().to_markdown(), expected);
    }
}
