//! A YAML error in the words of this program.

use serde_saphyr::Error as Yaml;
use serde_saphyr::budget::BudgetBreach;

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
        Yaml::Unexpected { expected, .. } => match *expected {
            "sequence start" => "a list is expected here, as in `[a, b]`".to_owned(),
            "mapping start" => "keys are expected here, as in `key: value`".to_owned(),
            "string scalar" => "a text is expected here".to_owned(),
            other => format!("{other} is expected here"),
        },
        Yaml::InvalidScalar { ty, .. } => match *ty {
            "u16" => "a port is expected here, a number from 0 to 65535".to_owned(),
            "u64" => "a whole number is expected here".to_owned(),
            other => format!("this is no {other}"),
        },
        Yaml::InvalidBooleanStrict { .. } => "`true` or `false` is expected here".to_owned(),
        Yaml::NullIntoString { .. } => "a text is expected here, and there is none".to_owned(),
        Yaml::Budget { breach, .. } => budget(breach).to_owned(),
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

fn budget(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => {
            "anchors and aliases are not taken in a policy; write the rule where it applies"
        }
        BudgetBreach::MergeKeys { .. } => "`<<` is not taken in a policy",
        BudgetBreach::Documents { .. } => "a policy file has one document; take the `---` out",
        BudgetBreach::Depth { .. } => "nested more deeply than any policy is",
        _ => "larger than any policy is",
    }
}
