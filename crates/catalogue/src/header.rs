//! Scripts that describe themselves.
//!
//! ```text
//! #!/bin/sh
//! # description: Counts the lines of a file.
//! # args: FILE [PATTERN] [LIMIT:integer]
//! # ollie:parallel read
//! ```
//!
//! The marks stand in the first lines of the file, behind any sign of a
//! comment. What stands in brackets may be left out. Names are in lower case
//! for the model, whatever they are here.

use std::collections::BTreeMap;
use std::path::Path;

use ollie_protocol::{
    Kind, OutputLimit, Parallel, Run, Schema, ToolOrigin, ToolSpec, Variant, limits,
};

use crate::{Error, Tool, file};

/// How many lines are looked at.
const LINES: usize = 30;

/// Reads the script at `path`; `None` if it is not executable or does not
/// describe itself.
pub(crate) fn read(path: &Path, origin: ToolOrigin) -> Result<Option<Tool>, Error> {
    let content = file::read(path, limits::SCRIPT_MAX)?;
    let text = String::from_utf8_lossy(&content.bytes);
    let Some(header) = Header::find(&text).filter(|_| content.is_executable) else {
        return Ok(None);
    };
    let wrong = |problem: String| Error::Script {
        path: path.to_owned(),
        problem,
    };
    let parallel = match header.parallel {
        None | Some("write") => Parallel::Write,
        Some("read") => Parallel::Read,
        Some(other) => {
            return Err(wrong(format!(
                "ollie:parallel is read or write, not {other:?}"
            )));
        }
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let sha256 = Tool::digest(&content.bytes);
    let spec = ToolSpec {
        name: name.into_owned(),
        description: header.description.to_owned(),
        parallel,
        parameters: arguments(header.args).map_err(wrong)?,
        variants: vec![Variant {
            when: None,
            run: Run::Script {
                sha256: sha256.clone(),
                args: Vec::new(),
            },
        }],
        timeout_s: None,
        output: OutputLimit::default(),
        origin,
    };
    spec.validate().map_err(|source| Error::Tool {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(Tool {
        spec,
        scripts: BTreeMap::from([(sha256, content.bytes.into())]),
    }))
}

#[derive(Debug, PartialEq, Eq)]
struct Header<'a> {
    description: &'a str,
    args: &'a str,
    parallel: Option<&'a str>,
}

impl<'a> Header<'a> {
    fn find(text: &'a str) -> Option<Self> {
        let lines = || text.lines().take(LINES);
        let behind = |mark: &str| {
            lines().find_map(|line| {
                let line = line.trim_start_matches(['#', '/', '-', ';', '%', '*', '"', ' ', '\t']);
                Some(line.strip_prefix(mark)?.trim())
            })
        };
        Some(Self {
            description: behind("description:")?,
            args: behind("args:").unwrap_or_default(),
            parallel: behind("ollie:parallel")
                .map(|word| word.split_whitespace().next().unwrap_or_default()),
        })
    }
}

/// `NAME`, `NAME:TYPE`, and the same in brackets, with spaces between them;
/// `<NAME>` is taken as well.
fn arguments(words: &str) -> Result<BTreeMap<String, Schema>, String> {
    let mut parameters = BTreeMap::new();
    for word in words.split_whitespace() {
        let optional = word
            .strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'));
        let plain = optional.unwrap_or(word).trim_matches(['<', '>']);
        let (name, kind) = match plain.split_once(':') {
            None => (plain, Kind::String),
            Some((name, "string")) => (name, Kind::String),
            Some((name, "integer")) => (name, Kind::Integer),
            Some((name, "number")) => (name, Kind::Number),
            Some((name, "boolean")) => (name, Kind::Boolean),
            Some((_, other)) => {
                return Err(format!(
                    "args: {word}: the type is string, integer, number or boolean, not {other:?}"
                ));
            }
        };
        let name = name.to_ascii_lowercase().replace('-', "_");
        let mut schema = Schema::new(kind);
        schema.required = optional.is_none();
        if parameters.insert(name, schema).is_some() {
            return Err(format!("args: {word} stands there twice"));
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(text: &str, mode: u32) -> Result<Option<Tool>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("count.sh");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        read(&path, ToolOrigin::User).map_err(|error| error.chain())
    }

    #[test]
    fn a_script_describes_itself_behind_any_comment_sign() {
        for sign in ["# ", "// ", "-- ", "#"] {
            let text = format!(
                "#!/bin/sh\n{sign}description: Counts.\n{sign}args: <FILE> [max-count:integer]\n\
                 {sign}ollie:parallel read\ncat\n"
            );
            let tool = script(&text, 0o755).unwrap().expect("it is a tool");
            let spec = tool.spec;
            assert_eq!(
                (spec.name.as_str(), spec.description.as_str()),
                ("count", "Counts.")
            );
            assert_eq!(spec.parallel, Parallel::Read);
            assert!(spec.parameters["file"].required);
            assert_eq!(spec.parameters["max_count"].kind, Kind::Integer);
            assert!(!spec.parameters["max_count"].required);
        }
    }

    #[test]
    fn what_is_no_tool_is_passed_over_and_a_wrong_one_is_told() {
        let text = "#!/bin/sh\n# description: Counts.\n";
        assert!(script(text, 0o644).unwrap().is_none());
        assert!(
            script("#!/bin/sh\necho description: no\n", 0o755)
                .unwrap()
                .is_none()
        );
        let wrong = script(&format!("{text}# args: a:list\n"), 0o755).unwrap_err();
        assert!(wrong.contains("\"list\""), "{wrong}");
        let wrong = script(&format!("{text}# ollie:parallel maybe\n"), 0o755).unwrap_err();
        assert!(wrong.contains("\"maybe\""), "{wrong}");
        let late = format!("{}# description: too late\n", "\n".repeat(LINES));
        assert!(script(&late, 0o755).unwrap().is_none());
    }
}
