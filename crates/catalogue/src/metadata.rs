//! `tool.yaml`.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use ollie_protocol::{
    Condition, Octets, OutputLimit, Parallel, Run, Schema, ToolOrigin, ToolSpec, Variant, limits,
};
use serde::Deserialize;

use crate::{Error, Tool, file};

/// The longest metadata file, in bytes.
const SIZE_MAX: usize = 128 * 1024;

/// The file as it is written. What a variant runs is a list of words there:
/// `builtin` and `native` are words of ours, what begins with `./` is a script
/// beside the file, anything else a program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    description: String,
    #[serde(default)]
    parallel: Parallel,
    #[serde(default)]
    parameters: BTreeMap<String, Schema>,
    variants: Vec<WrittenVariant>,
    timeout_s: Option<u64>,
    #[serde(default)]
    output: OutputLimit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVariant {
    when: Option<Condition>,
    run: Vec<String>,
}

/// Reads the `tool.yaml` at `path` and the scripts that it names.
pub(crate) fn read(path: &Path, origin: ToolOrigin) -> Result<Tool, Error> {
    let text = file::read(path, SIZE_MAX)?.bytes;
    let wrong = |message: String| Error::Document {
        path: path.to_owned(),
        line: 0,
        column: 0,
        message,
    };
    let text = String::from_utf8(text).map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
    let written = parse(path, &text)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut scripts = BTreeMap::new();
    let mut variants = Vec::new();
    for variant in written.variants {
        variants.push(Variant {
            when: variant.when,
            run: run(directory, &variant.run, &mut scripts).map_err(|error| match error {
                Problem::Words(problem) => Error::Script {
                    path: path.to_owned(),
                    problem,
                },
                Problem::Script(error) => error,
            })?,
        });
    }
    let spec = ToolSpec {
        name: written.name,
        description: written.description,
        parallel: written.parallel,
        parameters: written.parameters,
        variants,
        timeout_s: written.timeout_s,
        output: written.output,
        origin,
    };
    spec.validate().map_err(|source| Error::Tool {
        path: path.to_owned(),
        source,
    })?;
    let named = directory.file_name().map(std::ffi::OsStr::as_encoded_bytes);
    if named != Some(spec.name.as_bytes()) {
        return Err(Error::Script {
            path: path.to_owned(),
            problem: format!(
                "the tool is named {:?}, so its directory has to be",
                spec.name
            ),
        });
    }
    Ok(Tool { spec, scripts })
}

enum Problem {
    Words(String),
    Script(Error),
}

fn run(
    directory: &Path,
    words: &[String],
    scripts: &mut BTreeMap<String, Octets>,
) -> Result<Run, Problem> {
    let Some((first, rest)) = words.split_first() else {
        return Err(Problem::Words(
            "run is empty: name a program, or [./a-script], or [builtin, NAME]".to_owned(),
        ));
    };
    Ok(match (first.as_str(), rest) {
        ("builtin", rest) => Run::Builtin(rest.to_vec()),
        ("native", [name]) => Run::Native(name.clone()),
        (script, args) if script.starts_with("./") => {
            let inside = Path::new(script)
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !inside {
                return Err(Problem::Words(format!(
                    "the script {script} has to lie beside tool.yaml or below it"
                )));
            }
            let content =
                file::read(&directory.join(script), limits::SCRIPT_MAX).map_err(Problem::Script)?;
            let sha256 = Tool::digest(&content.bytes);
            scripts.insert(sha256.clone(), content.bytes.into());
            Run::Script {
                sha256,
                args: args.to_vec(),
            }
        }
        _ => Run::Command(words.to_vec()),
    })
}

fn parse(path: &Path, text: &str) -> Result<Written, Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_documents: 1,
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
        },
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet();
        let at = error.location().unwrap_or(serde_saphyr::Location::UNKNOWN);
        Error::Document {
            path: path.to_owned(),
            line: at.line(),
            column: at.column(),
            message: message(error),
        }
    })
}

/// A YAML error in the words of this program, without its place.
fn message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Yaml;
    match error {
        Yaml::SerdeUnknownField {
            field, expected, ..
        } => {
            let shown: String = field.chars().take(64).collect();
            format!("unknown key `{shown}`; known here: {}", expected.join(", "))
        }
        Yaml::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("the key `{key}` stands here a second time"),
            None => "a key stands here a second time".to_owned(),
        },
        other => {
            let text = other.to_string();
            let text = text.lines().next().unwrap_or_default();
            let text = text.split(" at line ").next().unwrap_or(text);
            text.strip_prefix("error: ").unwrap_or(text).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name: count
description: Counts.
parallel: read
parameters:
  pattern: { type: string, required: true }
  mode: { type: string, enum: [all, one], default: all }
  edits:
    type: array
    items:
      type: object
      parameters:
        old: { type: string, required: true }
variants:
  - when: { command: rg, min_version: \"13\" }
    run: [rg, --count]
  - run: [./count.sh, -v]
  - run: [builtin, file_grep]
timeout_s: 60
output: { max_bytes: 65536 }
";

    fn tool(text: &str) -> Result<Tool, Error> {
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("count");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("count.sh"), "#!/bin/sh\n").unwrap();
        std::fs::write(directory.join("tool.yaml"), text).unwrap();
        read(&directory.join("tool.yaml"), ToolOrigin::User)
    }

    #[test]
    fn a_file_becomes_what_it_says() {
        let tool = tool(GOOD).unwrap();
        // printf '#!/bin/sh\n' | sha256sum
        let sha256 = "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf";
        let spec = &tool.spec;
        assert_eq!(spec.parallel, Parallel::Read);
        assert_eq!(spec.timeout_s, Some(60));
        assert_eq!(
            spec.variants[0].run,
            Run::Command(["rg", "--count"].map(Into::into).into())
        );
        let Run::Script {
            sha256: found,
            args,
        } = &spec.variants[1].run
        else {
            panic!("a script");
        };
        assert_eq!(args, &["-v"]);
        assert_eq!(tool.scripts[found].as_bytes(), b"#!/bin/sh\n");
        assert_eq!(found, sha256);
        assert_eq!(
            spec.variants[2].run,
            Run::Builtin(vec!["file_grep".to_owned()])
        );
        let edits = &spec.parameters["edits"].items.as_ref().unwrap();
        assert!(edits.properties.as_ref().unwrap()["old"].required);
        assert_eq!(spec.parameters["mode"].default, Some("all".into()));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (from, to, says) in [
            (
                "timeout_s",
                "timeout",
                "tool.yaml:18:1: unknown key `timeout`",
            ),
            (
                "timeout_s: 60",
                "name: b",
                "tool.yaml:18:1: the key `name` stands here a second time",
            ),
            ("type: array", "type: list", "tool.yaml:8:11: "),
            (
                "{ command: rg, min",
                "{ comand: rg, min",
                "unknown key `comand`",
            ),
            (
                "required: true }\n  mode",
                "requird: true }\n  mode",
                "tool.yaml:5:28: unknown key `requird`",
            ),
            ("[./count.sh, -v]", "[./../count.sh]", "beside tool.yaml"),
            ("[./count.sh, -v]", "[./none.sh]", "none.sh"),
            ("[./count.sh, -v]", "[]", "run is empty"),
            ("name: count", "name: other", "so its directory has to be"),
            (
                "default: all",
                "default: two",
                "parameters.mode: expected one of",
            ),
            (
                "default: all",
                "default: 5",
                "parameters.mode: expected a string",
            ),
            ("command: rg, ", "", "variants[0].when.min_version"),
            ("name: count", "name: [", "tool.yaml:"),
        ] {
            let changed = GOOD.replacen(from, to, 1);
            assert_ne!(changed, GOOD, "{from}");
            let error = tool(&changed).unwrap_err().chain();
            assert!(error.contains(says), "{from} -> {to}: {error}");
        }
    }
}
