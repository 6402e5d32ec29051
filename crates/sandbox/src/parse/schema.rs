/// The JSON schema of a policy file (draft 2020-12), for editors.
#[must_use]
pub fn schema() -> &'static str {
    include_str!("policy.schema.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Source, parse};

    /// The keys that the parser names when it meets one that it does not know.
    fn known(yaml: &str) -> Vec<String> {
        let error = parse(yaml, &Source::new(Layer::User, "f"))
            .unwrap_err()
            .to_string();
        let (_, list) = error.split_once("known here: ").unwrap();
        let mut known: Vec<_> = list.split(", ").map(str::to_owned).collect();
        known.sort();
        known
    }

    #[test]
    fn schema_and_parser_know_the_same_keys() {
        let schema: serde_json::Value = serde_json::from_str(schema()).unwrap();
        let mut sections = vec![(schema.clone(), known("volumes_of_x: 1"))];
        for section in [
            "filesystem",
            "network",
            "limits",
            "general",
            "drop",
            "advanced",
        ] {
            let yaml = format!("{section}: {{ volumes_of_x: 1 }}");
            sections.push((schema["properties"][section].clone(), known(&yaml)));
        }
        for (object, known) in sections {
            assert_eq!(object["additionalProperties"], false, "{object}");
            let keys = object["properties"].as_object().unwrap().keys();
            let mut keys: Vec<_> = keys.cloned().collect();
            keys.sort();
            assert_eq!(keys, known);
        }
    }
}
