use std::path::{Path, PathBuf};

use ollie_protocol::{ToolOrigin, is_tool_name};

use crate::{Error, Tool, header, metadata};

/// The most entries of a directory of tools that are looked at.
const ENTRIES_MAX: usize = 4096;

/// What a directory of tools holds.
#[derive(Debug, Default)]
pub struct Found {
    /// The tools, by name.
    pub tools: Vec<Tool>,
    /// Those that cannot be used: the name, as far as it is known, and why.
    pub broken: Vec<(String, Error)>,
}

/// Reads the tools of `directory`; none if it is not there.
///
/// Looked at are directories that hold a `tool.yaml`, and executable files
/// whose first lines describe them. Everything else is passed over.
///
/// # Errors
/// [`Error::Read`] if the directory is there and cannot be read. What is wrong
/// with one tool is in [`Found::broken`] and keeps no other from being used.
pub fn read(directory: &Path, origin: ToolOrigin) -> Result<Found, Error> {
    let failed = |source| Error::Read {
        path: directory.to_owned(),
        source,
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let mut found = Found::default();
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if stem.starts_with('.') {
            continue;
        }
        let metadata = path.join("tool.yaml");
        let read = if path.is_dir() {
            match metadata.exists() {
                true => metadata::read(&metadata, origin).map(Some),
                false => continue,
            }
        } else if path.is_file() && is_tool_name(&stem) {
            header::read(&path, origin)
        } else {
            continue;
        };
        let known = |name: &str| found.tools.iter().any(|tool| tool.spec.name == name);
        match read {
            Ok(None) => {}
            Ok(Some(tool)) if known(&tool.spec.name) => found.broken.push((
                tool.spec.name.clone(),
                Error::Script {
                    path: path.clone(),
                    problem: "another tool beside it has the same name".to_owned(),
                },
            )),
            Ok(Some(tool)) => found.tools.push(tool),
            Err(error) => found.broken.push((stem.into_owned(), error)),
        }
    }
    Ok(found)
}
