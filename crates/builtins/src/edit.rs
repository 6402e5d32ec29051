use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use serde::Deserialize;

use crate::edit_apply::apply;
use crate::edit_diff::unified;
use crate::error::Error;
use crate::kind;
use crate::name::Name;
use crate::replace::Target;
use crate::text::Text;
use crate::version::{Version, same_state};

/// Files up to this size are edited.
const LARGEST: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: Name,
    edits: Vec<Edit>,
    expected_hash: Option<String>,
}

/// One change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(crate) old: String,
    pub(crate) new: String,
    #[serde(default)]
    pub(crate) replace_all: bool,
}

/// Makes all of the changes to a file, or none.
pub(crate) fn run(arguments: &Arguments) -> Result<String, Error> {
    let name = &arguments.path;
    if arguments.edits.is_empty() {
        return Err(Error::value(
            "edits",
            "is empty: there is nothing to change",
        ));
    }
    let draft = Draft::read(name, arguments.expected_hash.as_deref())?;
    let after = draft.edit(&arguments.edits)?;
    let raw = after.encode().map_err(|one| {
        draft.refuse(format!(
            "it is in {}, which has no character {one:?} (U+{:04X})",
            after.encoding,
            u32::from(one)
        ))
    })?;
    if raw == draft.raw {
        return Err(draft.refuse("the edits cancel each other out".to_owned()));
    }
    // Before the change: what it takes is not to come between the change and
    // the word of it.
    let diff = unified(name, &draft.text.bytes, &after.bytes);
    let how = draft.target.replace(&raw, true)?;
    let mut words = vec![
        format!("{name}: {} bytes", raw.len()),
        after.encoding.to_string(),
        Version::of_new(draft.target.path(), &raw).to_string(),
    ];
    words.extend(how.remark());
    Ok(format!("{diff}[{}]\n", words.join("; ")))
}

/// A file as it was read, to be changed only if it is still that.
#[derive(Debug)]
struct Draft {
    name: Name,
    target: Target,
    raw: Vec<u8>,
    text: Text,
}

impl Draft {
    fn read(name: &Name, expected: Option<&str>) -> Result<Self, Error> {
        let target = Target::find(name)?;
        let (file, about) = kind::open(name)?;
        if about.size() > LARGEST {
            return Err(Error::refused(
                name,
                format!(
                    "{} bytes are more than this tool edits ({} MiB)",
                    about.size(),
                    LARGEST >> 20
                ),
            ));
        }
        let mut raw = Vec::new();
        file.take(LARGEST)
            .read_to_end(&mut raw)
            .map_err(Error::io("read", name))?;
        let unchanged = target
            .before()
            .is_some_and(|before| same_state(before, &about));
        if !unchanged || raw.len() as u64 != about.size() {
            target.must_be_unchanged()?;
            return Err(Error::refused(
                name,
                "was replaced while it was read, or is no file to be edited",
            ));
        }
        if let Some(expected) = expected {
            let version = Version::of_content(&raw);
            if !version.is(expected) && !Version::of_metadata(&about).is(expected) {
                return Err(Error::NotChanged {
                    name: name.clone(),
                    problem: format!("it is not {expected} any more but {version}; read it again"),
                });
            }
        }
        let Some(text) = Text::decode(&raw) else {
            return Err(Error::refused(name, "is not well-formed UTF-16"));
        };
        Ok(Self {
            name: name.clone(),
            target,
            raw,
            text,
        })
    }

    /// The text with all changes, each made to the result of the one before.
    fn edit(&self, edits: &[Edit]) -> Result<Text, Error> {
        let mut text = self.text.clone();
        for (edit, number) in edits.iter().zip(1..) {
            text.bytes = apply(&text.bytes, edit).map_err(|problem| {
                self.refuse(match edits.len() {
                    1 => problem,
                    all => format!("edit {number} of {all}: {problem}"),
                })
            })?;
        }
        Ok(text)
    }

    fn refuse(&self, problem: String) -> Error {
        Error::NotChanged {
            name: self.name.clone(),
            problem,
        }
    }
}
