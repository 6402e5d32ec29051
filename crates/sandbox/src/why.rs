use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::policy::Place;
use crate::show::visible;
use crate::{Grant, Policy};

/// What a process wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Operation {
    /// Read a file or list a directory.
    Read,
    /// Write to a file; create it where it does not exist.
    Write,
    /// Make a new file, directory, link, socket or FIFO; rename to here.
    Create,
    /// Remove; rename from here.
    Remove,
    /// Execute a file.
    Execute,
    /// Connect to a pathname Unix socket.
    Connect,
}

impl Operation {
    /// Every operation, for a command line's help.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Remove,
        Self::Execute,
        Self::Connect,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Execute => "execute",
            Self::Connect => "connect",
        }
    }

    /// The operation of this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.word() == word)
    }
}

/// What the policy says about one operation on one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether the policy allows it. Mode bits and the host's own rules may
    /// still refuse.
    pub allowed: bool,
    /// What was asked.
    pub operation: Operation,
    /// The path, links resolved as far as it exists.
    #[serde(with = "crate::octets_path")]
    pub path: PathBuf,
    /// The rule that allows it, or the one that comes nearest.
    pub rule: Option<Grant>,
    /// The line of a policy file that would allow it. Absent when it is
    /// allowed, and where the line would give away the whole home directory.
    pub allow: Option<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation.word(), visible(&self.path))?;
        match (self.allowed, &self.rule) {
            (true, Some(rule)) => write!(f, " is allowed by {rule}"),
            (true, None) => write!(f, " is allowed"),
            (false, rule) => {
                write!(f, " is not allowed by the policy")?;
                match rule {
                    Some(rule) => write!(f, "; the nearest rule is {rule}")?,
                    None => write!(f, "; no rule comes near")?,
                }
                match &self.allow {
                    Some(line) => write!(f, ". To allow it: {line}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Policy {
    /// Whether the policy allows `operation` on `path`, and which rule says so.
    ///
    /// A relative path is one in the working directory. Links are followed,
    /// as the kernel does for everything but [`Operation::Remove`] and
    /// [`Operation::Create`] on the last component.
    #[must_use]
    pub fn why(&self, operation: Operation, path: &Path) -> Verdict {
        let path = self.cwd.join(path);
        let path = match operation {
            Operation::Create | Operation::Remove => resolve_parent(&path),
            _ => resolve(&path),
        };
        if operation == Operation::Connect {
            return self.why_connect(path);
        }
        // A file is made and removed in its directory, so that is what a rule
        // must allow; a rule on the file itself binds what is there now.
        let acts_on_directory = match operation {
            Operation::Create | Operation::Remove => true,
            Operation::Write => std::fs::symlink_metadata(&path).is_err(),
            _ => false,
        };
        let place = match path.parent() {
            Some(parent) if acts_on_directory => parent,
            _ => &path,
        };
        let enough = |g: &&Grant| match operation {
            Operation::Read | Operation::Connect => true,
            Operation::Write | Operation::Create | Operation::Remove => g.access.writes(),
            Operation::Execute => g.access.executes(),
        };
        let covering = self.grants.iter().filter(|g| g.covers(place));
        let decisive = covering.filter(enough).max_by_key(|g| depth(&g.path));
        Verdict {
            allowed: decisive.is_some(),
            operation,
            rule: decisive.or_else(|| self.nearest(place)).cloned(),
            allow: decisive
                .is_none()
                .then(|| self.line_for(operation, place))
                .flatten(),
            path,
        }
    }

    fn why_connect(&self, path: PathBuf) -> Verdict {
        let listed = self.sockets.iter().find(|s| s.path == path);
        let written = self
            .grants
            .iter()
            .find(|g| g.access.writes() && g.covers(&path));
        let rule = match listed {
            Some(socket) => Some(Grant {
                access: crate::Access::Rw,
                path: socket.path.clone(),
                written: socket.written.clone(),
                origin: socket.origin.clone(),
            }),
            None => written.cloned(),
        };
        Verdict {
            allowed: rule.is_some(),
            operation: Operation::Connect,
            allow: rule
                .is_none()
                .then(|| format!("unix_sockets: [{}]", self.spell(&path))),
            rule: rule.or_else(|| self.nearest(&path).cloned()),
            path,
        }
    }

    /// The rule that comes nearest: one that covers the path and gives too
    /// little, else one that shares a directory with it that says something.
    /// The home directory and the top ones say nothing, every rule shares
    /// them.
    fn nearest(&self, path: &Path) -> Option<&Grant> {
        let home = self.home.as_ref().map_or(0, |h| depth(&h.0));
        let vague = home.max(2);
        self.grants
            .iter()
            .map(|g| (g.covers(path), common(&g.path, path), g))
            .filter(|(covers, shared, _)| *covers || *shared > vague)
            .max_by_key(|(covers, shared, g)| (*covers, *shared, std::cmp::Reverse(depth(&g.path))))
            .map(|(_, _, g)| g)
    }

    fn line_for(&self, operation: Operation, place: &Path) -> Option<String> {
        let executes = |p: &Path| {
            self.grants
                .iter()
                .any(|g| g.access.executes() && g.covers(p))
        };
        let writes = |p: &Path| self.grants.iter().any(|g| g.access.writes() && g.covers(p));
        let word = match operation {
            Operation::Read => "ro",
            Operation::Execute if writes(place) => "rwx",
            Operation::Execute => "rox",
            _ if executes(place) => "rwx",
            _ => "rw",
        };
        // A rule on what does not exist is skipped, so the line names the
        // directory that does.
        let existing = place.ancestors().find(|p| p.exists())?;
        let too_much = existing.parent().is_none()
            || self
                .home
                .as_ref()
                .is_some_and(|h| h.0.starts_with(existing));
        (!too_much).then(|| format!("filesystem: {{ {word}: [{}] }}", self.spell(existing)))
    }

    /// A path as a policy file writes it. YAML reads a JSON string.
    fn spell(&self, path: &Path) -> String {
        let braces = |p: &Path| p.to_string_lossy().replace('{', "{{").replace('}', "}}");
        let text = match &self.home {
            Some(Place(home)) if home.parent().is_some() => match path.strip_prefix(home) {
                Ok(rest) => format!("{{HOME}}/{}", braces(rest)),
                Err(_) => braces(path),
            },
            _ => braces(path),
        };
        serde_json::Value::String(text).to_string()
    }
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

fn common(a: &Path, b: &Path) -> usize {
    a.components()
        .zip(b.components())
        .take_while(|(a, b)| a == b)
        .count()
}

/// Links resolved as far as the path exists, the rest taken by its text.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    for existing in path.ancestors() {
        if let Ok(canonical) = std::fs::canonicalize(existing) {
            let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
            return crate::expand::lexical(&canonical.join(rest));
        }
    }
    crate::expand::lexical(path)
}

fn resolve_parent(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => resolve(path),
    }
}
