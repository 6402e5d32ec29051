//! A YAML error in the words of this program.

use serde_saphyr::Error as Yaml;

use super::nearest::nearest;
use crate::Error;

pub(crate) fn error(file: &str, error: &Yaml) -> Error {
    let error = error.without_snippet();
    let at = error.location().unwrap_or(serde_saphyr::Location::UNKNOWN);
    let message = match error {
        Yaml::SerdeUnknownField {
            field, expected, ..
        } => {
            let shown: String = field.chars().take(64).collect();
            match nearest(field, expected.iter().copied()) {
                Some(word) => format!("unknown key `{shown}`; did you mean `{word}`?"),
                None => format!("unknown key `{shown}`; known here: {}", expected.join(", ")),
            }
        }
        Yaml::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("the key `{key}` stands here a second time"),
            None => "a key stands here a second time".to_owned(),
        },
        other => {
            let text = other.to_string();
            let text = text.lines().next().unwrap_or_default();
            // The place is told before the message already.
            let text = text.split(" at line ").next().unwrap_or(text);
            text.strip_prefix("error: ").unwrap_or(text).to_owned()
        }
    };
    Error::Document {
        file: file.to_owned(),
        line: at.line(),
        column: at.column(),
        message,
    }
}
