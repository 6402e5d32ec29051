use std::collections::BTreeMap;
use std::path::Path;

use ollie_protocol::{Definition, ToolOrigin};

use crate::{Error, Tool, read};

/// The tools of one directory as they were last read.
///
/// Whoever watches the directory calls [`Catalogue::update`] when something in
/// it has changed, and tells every toolsrv what that returns.
#[derive(Debug, Default, Clone)]
pub struct Catalogue {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Entry {
    /// The last version that could be used.
    tool: Option<Tool>,
    /// Why the present one cannot.
    problem: Option<String>,
}

/// What has changed about one tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is new, or another one than before.
    Tool(Box<Tool>),
    /// What is there now cannot be used; if there was one before, it stays.
    Broken {
        /// The tool.
        name: String,
        /// Why.
        problem: String,
        /// Whether there was one before.
        kept: bool,
    },
    /// It is gone.
    Removed(String),
}

impl Change {
    /// What a toolsrv is told, without the bytes of scripts. Nothing of a
    /// broken tool that it has never had.
    #[must_use]
    pub fn definition(&self) -> Option<Definition> {
        match self {
            Self::Tool(tool) => Some(tool.definition(false)),
            Self::Broken { kept: false, .. } => None,
            Self::Broken { name, problem, .. } => Some(Definition::Broken {
                name: name.clone(),
                problem: problem.clone(),
            }),
            Self::Removed(name) => Some(Definition::Remove { name: name.clone() }),
        }
    }
}

impl Catalogue {
    /// Reads the directory again, and says what is other than before. A tool
    /// is the same as long as what it says and the SHA-256 of its scripts are.
    ///
    /// # Errors
    /// [`Error::Read`] if the directory is there and cannot be read; then
    /// nothing has changed.
    pub fn update(&mut self, directory: &Path, origin: ToolOrigin) -> Result<Vec<Change>, Error> {
        let found = read(directory, origin)?;
        let mut now: BTreeMap<String, Entry> = BTreeMap::new();
        for tool in found.tools {
            let entry = now.entry(tool.spec.name.clone()).or_default();
            entry.tool = Some(tool);
        }
        for (name, error) in found.broken {
            let before = self.entries.get(&name).and_then(|it| it.tool.clone());
            let entry = now.entry(name).or_default();
            entry.tool = entry.tool.take().or(before);
            entry.problem = Some(error.chain());
        }
        let mut changes = Vec::new();
        for (name, entry) in &now {
            let before = self.entries.get(name);
            if before == Some(entry) {
                continue;
            }
            if let Some(tool) = &entry.tool
                && before.and_then(|it| it.tool.as_ref()) != Some(tool)
            {
                changes.push(Change::Tool(Box::new(tool.clone())));
            }
            match &entry.problem {
                Some(problem) => changes.push(Change::Broken {
                    name: name.clone(),
                    problem: problem.clone(),
                    kept: entry.tool.is_some(),
                }),
                // It is as it was before it broke: say that all is well.
                None => {
                    if let Some(tool) = &entry.tool
                        && before.is_some_and(|it| it.problem.is_some())
                        && !matches!(changes.last(), Some(Change::Tool(it)) if it.spec.name == *name)
                    {
                        changes.push(Change::Tool(Box::new(tool.clone())));
                    }
                }
            }
        }
        for (name, entry) in &self.entries {
            if entry.tool.is_some() && !now.contains_key(name) {
                changes.push(Change::Removed(name.clone()));
            }
        }
        self.entries = now;
        Ok(changes)
    }

    /// The tools that can be used, by name.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.entries.values().filter_map(|it| it.tool.as_ref())
    }

    /// The tools that cannot be used as they are, and why.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .filter_map(|(name, it)| Some((name.as_str(), it.problem.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(changes: &[Change]) -> Vec<String> {
        changes
            .iter()
            .map(|change| match change {
                Change::Tool(tool) => format!("tool {}", tool.spec.name),
                Change::Broken { name, kept, .. } => format!("broken {name} kept={kept}"),
                Change::Removed(name) => format!("removed {name}"),
            })
            .collect()
    }

    #[test]
    fn only_what_changed_is_told_and_a_broken_version_keeps_the_old_one() {
        let top = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = top.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let mut catalogue = Catalogue::default();
        let mut update = || names(&catalogue.update(top.path(), ToolOrigin::User).unwrap());
        assert_eq!(update(), Vec::<String>::new());

        let yaml = "name: a\ndescription: A.\nvariants: [{ run: [./a.sh] }]\n";
        write("a/tool.yaml", yaml);
        write("a/a.sh", "echo 1\n");
        write("b.sh", "#!/bin/sh\n# description: B.\n");
        write(
            "README.md",
            "# description: not a tool, its name has a dot\n",
        );
        assert_eq!(update(), ["tool README", "tool a", "tool b"]);
        assert_eq!(update(), Vec::<String>::new());

        write("a/a.sh", "echo 2\n");
        assert_eq!(update(), ["tool a"]);

        write("a/tool.yaml", "name: a\ndescription: [\n");
        assert_eq!(update(), ["broken a kept=true"]);
        assert_eq!(update(), Vec::<String>::new());
        write("a/tool.yaml", yaml);
        assert_eq!(update(), ["tool a"]);

        write("c/tool.yaml", "name: d\n");
        assert_eq!(update(), ["broken c kept=false"]);
        std::fs::remove_file(top.path().join("b.sh")).unwrap();
        std::fs::remove_dir_all(top.path().join("c")).unwrap();
        assert_eq!(update(), ["removed b"]);
    }
}
