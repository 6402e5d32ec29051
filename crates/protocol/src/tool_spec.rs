use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::{Fault, check_fields};
use crate::{Condition, Error, Schema, limits};

const RECORD: &str = "tool";

/// A tool as a host is told of it: what a model sees, and what is run.
///
/// It is the same record for the tools that toolsrv brings along, those of the
/// user and those of a project. It is written by people as `tool.yaml` and
/// travels as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// 1 to 64 bytes of `[A-Za-z0-9_-]`: what every provider of models takes.
    pub name: String,
    /// What it does, for the model. At most 16 KiB.
    pub description: String,
    /// Whether calls of it may run beside each other. Default: no.
    #[serde(default)]
    pub parallel: Parallel,
    /// Its arguments by their names, `[A-Za-z_][A-Za-z0-9_]*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Schema>,
    /// What is run: the first whose conditions hold on the host.
    pub variants: Vec<Variant>,
    /// After how many seconds a call is ended, unless it says otherwise.
    /// Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// How much a model gets to see.
    #[serde(default, skip_serializing_if = "OutputLimit::is_default")]
    pub output: OutputLimit,
    /// Whose it is.
    #[serde(default)]
    pub origin: ToolOrigin,
}

/// How calls of a tool go together with other calls of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parallel {
    /// It changes nothing: it may run beside other reads.
    Read,
    /// It runs alone.
    #[default]
    Write,
}

/// Whose a tool is. Of two of one name the later one in this list wins.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ToolOrigin {
    /// toolsrv brought it along.
    Standard,
    /// It comes with a project that the person has trusted.
    Project,
    /// It is the user's own.
    #[default]
    User,
}

impl std::fmt::Display for ToolOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Project => "project",
            Self::User => "user",
        })
    }
}

/// How much of the output of a call its result holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputLimit {
    /// Bytes, 1 KiB at least. Default and most: [`limits::CONTENT_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
}

impl OutputLimit {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One way to run a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Where it can be run. Default: everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// What is run.
    pub run: Run,
}

/// What a call of a tool runs.
///
/// Every program gets its arguments as one JSON object on standard input, and
/// as variables `OLLIE_ARG_<NAME>`; none of them is ever on a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Run {
    /// `toolsrv builtin NAME`, with these fixed arguments behind the name.
    Builtin(Vec<String>),
    /// toolsrv itself answers. For standard tools only.
    Native(String),
    /// A script.
    Script {
        /// SHA-256 of its bytes, 64 hexadecimal digits.
        sha256: String,
        /// Fixed arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
    },
    /// A program of the host, looked up along PATH, with fixed arguments.
    Command(Vec<String>),
}

impl ToolSpec {
    /// Checks what the shape alone does not say.
    ///
    /// # Errors
    /// [`Error::Tool`] names the tool, the field and what it should be.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |field: String, problem: String| Error::Tool {
            tool: self.name.clone(),
            field,
            problem,
        };
        let invalid = |field: &str, problem: &str| Err(wrong(field.to_owned(), problem.to_owned()));
        if !is_tool_name(&self.name) {
            return Err(Error::Invalid {
                record: RECORD,
                field: "name",
                problem: "1 to 64 bytes of [A-Za-z0-9_-], and not index, ctl or define".into(),
            });
        }
        if self.description.trim().is_empty() {
            return invalid("description", "is empty: a model knows the tool by it");
        }
        if self.description.len() > limits::DESCRIPTION_MAX {
            return invalid("description", "over 16 KiB");
        }
        if self.parameters.len() > limits::PARAMETERS_MAX {
            return invalid("parameters", "more than 64");
        }
        let mut upper = BTreeSet::new();
        for (name, schema) in &self.parameters {
            let field = format!("parameters.{name}");
            if !is_parameter_name(name) {
                let problem = "1 to 64 bytes of [A-Za-z0-9_], not starting with a digit";
                return invalid(&field, problem);
            }
            if !upper.insert(name.to_ascii_uppercase()) {
                return invalid(
                    &field,
                    "differs from another one by upper and lower case only",
                );
            }
            schema
                .validate(&field, 0)
                .map_err(|Fault { path, problem }| wrong(path, problem))?;
        }
        if self.variants.is_empty() || self.variants.len() > limits::VARIANTS_MAX {
            return invalid("variants", "1 to 16 are needed");
        }
        for (at, variant) in self.variants.iter().enumerate() {
            let check = variant.when.as_ref().map_or(Ok(()), Condition::validate);
            check
                .and_then(|()| self.check_run(&variant.run))
                .map_err(|(field, problem)| wrong(format!("variants[{at}].{field}"), problem))?;
        }
        if self.timeout_s.is_some_and(|s| s == 0 || s > 7 * 24 * 3600) {
            return invalid("timeout_s", "1 second to a week");
        }
        if self
            .output
            .max_bytes
            .is_some_and(|most| !(1024..=limits::CONTENT_MAX).contains(&most))
        {
            return invalid("output.max_bytes", "1024 to 65536");
        }
        Ok(())
    }

    fn check_run(&self, run: &Run) -> Result<(), (String, String)> {
        let wrong = |problem: &str| Err(("run".to_owned(), problem.to_owned()));
        let words = |words: &[String]| match words.first() {
            None => wrong("is empty: the first element is the program"),
            Some(program) if program.is_empty() => wrong("the program's name is empty"),
            Some(_) if words.iter().any(|word| word.contains('\0')) => wrong("holds a NUL byte"),
            Some(_) => Ok(()),
        };
        match run {
            Run::Native(_) if self.origin != ToolOrigin::Standard => {
                wrong("native is for what toolsrv brings along")
            }
            Run::Native(_) => Ok(()),
            Run::Script { sha256, .. } if crate::auth::from_hex(sha256).is_none() => {
                wrong("script: sha256 is 64 hexadecimal digits")
            }
            Run::Script { args, .. } if args.iter().any(|word| word.contains('\0')) => {
                wrong("holds a NUL byte")
            }
            Run::Script { .. } => Ok(()),
            Run::Builtin(argv) | Run::Command(argv) => words(argv),
        }
    }

    /// Checks the arguments of a call and fills in defaults.
    ///
    /// # Errors
    /// [`Error::Argument`] names the argument, however deep it lies.
    pub fn arguments(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        let mut args = given.clone();
        check_fields(&self.parameters, "", &mut args).map_err(|Fault { path, problem }| {
            Error::Argument {
                tool: self.name.clone(),
                argument: path,
                problem,
            }
        })?;
        Ok(args)
    }

    /// SHA-256 of every script that it may run.
    pub fn scripts(&self) -> impl Iterator<Item = &str> {
        self.variants
            .iter()
            .filter_map(|variant| match &variant.run {
                Run::Script { sha256, .. } => Some(sha256.as_str()),
                _ => None,
            })
    }

    /// The most bytes of output in a result.
    #[must_use]
    pub fn content_max(&self) -> usize {
        self.output
            .max_bytes
            .unwrap_or(limits::CONTENT_MAX)
            .clamp(1024, limits::CONTENT_MAX)
    }
}

/// Whether `name` may be a tool's.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    (1..=limits::NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && !matches!(name, "index" | "ctl" | "define")
}

fn is_parameter_name(name: &str) -> bool {
    (1..=limits::NAME_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(change: impl FnOnce(&mut Value)) -> ToolSpec {
        let mut json = json!({
            "name": "t", "description": "does it",
            "parameters": {"path": {"type": "octets", "required": true},
                           "count": {"type": "integer", "default": 3, "minimum": 1}},
            "variants": [{"run": {"command": ["t"]}}],
        });
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn arguments_that_do_not_fit_are_named() {
        let spec = spec(|_| ());
        let error = |given: Value| {
            let given = given.as_object().unwrap();
            spec.arguments(given).unwrap_err().to_string()
        };
        assert_eq!(error(json!({})), "t: argument path: is missing");
        assert_eq!(
            error(json!({"path": "a", "count": 0})),
            "t: argument count: 0 is less than 1"
        );
        assert_eq!(
            error(json!({"path": "a", "paht": 1})),
            "t: argument paht: is not known; known are count, path"
        );
        let given = json!({"path": "a", "count": null});
        let args = spec.arguments(given.as_object().unwrap()).unwrap();
        assert_eq!(Value::Object(args), json!({"path": "a", "count": 3}));
    }

    #[test]
    fn a_tool_that_makes_no_sense_is_refused_by_the_field() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 9] = [
            (|t| t["name"] = json!("a b"), "name"),
            (|t| t["name"] = json!("index"), "name"),
            (|t| t["description"] = json!(" "), "description"),
            (|t| t["variants"] = json!([]), "variants"),
            (
                |t| t["variants"][0]["run"] = json!({"command": []}),
                "variants[0].run",
            ),
            (
                |t| t["variants"][0]["run"] = json!({"native": "shell"}),
                "variants[0].run",
            ),
            (
                |t| t["variants"][0]["run"] = json!({"script": {"sha256": "ab"}}),
                "sha256",
            ),
            (
                |t| t["parameters"]["PATH"] = json!({"type": "string"}),
                "upper and lower",
            ),
            (
                |t| t["output"] = json!({"max_bytes": 5}),
                "output.max_bytes",
            ),
        ];
        for (change, says) in cases {
            let error = spec(change).validate().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        spec(|_| ()).validate().unwrap();
    }
}
