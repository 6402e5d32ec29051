use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::kind;
use crate::name::Name;
use crate::replace::{How, Target};
use crate::version::Version;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: Name,
    content: String,
    #[serde(default)]
    create_dirs: bool,
    expected_hash: Option<String>,
}

/// Gives a file new content.
pub(crate) fn run(arguments: &Arguments) -> Result<String, Error> {
    let name = &arguments.path;
    let target = Target::find(name)?;
    if let Some(expected) = &arguments.expected_hash {
        must_be(name, &target, expected)?;
    }
    let made = match target.path().parent() {
        Some(parent) if target.before().is_none() => directories(name, parent, arguments)?,
        _ => Vec::new(),
    };
    let content = arguments.content.as_bytes();
    let unchanged = arguments.expected_hash.is_some();
    let how = target.replace(content, unchanged).inspect_err(|_| {
        for directory in made.iter().rev() {
            // Somebody else may use it by now.
            let _ = std::fs::remove_dir(directory);
        }
    })?;
    let before = target.before().map_or(0, std::fs::Metadata::len);
    let mut words = vec![
        match &how {
            How::Created => format!("{name}: created with {} bytes", content.len()),
            _ => format!("{name}: {} bytes in place of {before}", content.len()),
        },
        Version::of_new(target.path(), content).to_string(),
    ];
    if !content.is_empty() && !content.ends_with(b"\n") {
        words.push("no newline at the end".to_owned());
    }
    words.extend(how.remark());
    Ok(format!("[{}]\n", words.join("; ")))
}

/// Refuses if the file has another version.
fn must_be(name: &Name, target: &Target, expected: &str) -> Result<(), Error> {
    let now = match target.before() {
        None => None,
        Some(_) => {
            let (file, about) = kind::open(name)?;
            Version::of_file(&file, &about).map_err(Error::io("read", name))?
        }
    };
    match now {
        Some(version) if version.is(expected) => Ok(()),
        Some(version) => Err(Error::NotChanged {
            name: name.clone(),
            problem: format!("it is not {expected} any more but {version}; read it again"),
        }),
        None => Err(Error::NotChanged {
            name: name.clone(),
            problem: format!("it is not {expected}: it is gone or being written to"),
        }),
    }
}

/// Makes what is missing above the file, and returns what was made.
fn directories(name: &Name, parent: &Path, arguments: &Arguments) -> Result<Vec<PathBuf>, Error> {
    let missing: Vec<&Path> = parent
        .ancestors()
        .take_while(|directory| *directory != Path::new("") && !directory.exists())
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    if !arguments.create_dirs {
        return Err(Error::refused(
            name,
            format!(
                "there is no directory {}; `create_dirs` makes it",
                Name::from(parent)
            ),
        ));
    }
    let mut made = Vec::new();
    for directory in missing.into_iter().rev() {
        match std::fs::create_dir(directory) {
            Ok(()) => made.push(directory.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                for directory in made.iter().rev() {
                    let _ = std::fs::remove_dir(directory);
                }
                return Err(Error::io("make the directories above", name)(error));
            }
        }
    }
    Ok(made)
}
