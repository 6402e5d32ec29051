use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::policy::Place;
use crate::show::visible;
use crate::{Grant, Network, Policy};

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
    /// Connect to a pathname Unix socket, or by TCP.
    Connect,
    /// Make a pathname Unix socket, or listen by TCP.
    Bind,
}

impl Operation {
    /// Every operation, for a command line's help.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Remove,
        Self::Execute,
        Self::Connect,
        Self::Bind,
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
            Self::Bind => "bind",
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
    /// The path, links resolved as far as it exists; for TCP the address as it
    /// was asked.
    #[serde(with = "crate::octets_path")]
    pub path: PathBuf,
    /// The rule that allows it, or the one that comes nearest, with its origin.
    pub rule: Option<String>,
    /// That it is or lies in a place of keys, passwords or ollie's own, in
    /// words. No profile grants those.
    pub kept: Option<String>,
    /// The line of a policy file that would allow it. Absent when it is
    /// allowed, and where the line would give away far more.
    pub allow: Option<String>,
    /// In words, what that line opens; or why none is proposed.
    pub opens: Option<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation.word(), visible(&self.path))?;
        match (self.allowed, &self.rule) {
            (true, Some(rule)) => return write!(f, " is allowed by {rule}"),
            (true, None) => return write!(f, " is allowed"),
            (false, Some(rule)) => write!(
                f,
                " is not allowed by the policy: no rule grants it; the nearest rule is {rule}"
            )?,
            (false, None) => write!(
                f,
                " is not allowed by the policy: no rule grants it, and none comes near"
            )?,
        }
        if let Some(kept) = &self.kept {
            write!(f, "; {kept}, which no profile grants")?;
        }
        match (&self.allow, &self.opens) {
            (Some(line), Some(opens)) => write!(f, ". To allow it: {line} ({opens})"),
            (Some(line), None) => write!(f, ". To allow it: {line}"),
            (None, Some(opens)) => write!(f, ". {opens}"),
            (None, None) => Ok(()),
        }
    }
}

impl Verdict {
    fn allowed(operation: Operation, path: PathBuf, rule: String) -> Self {
        Self {
            allowed: true,
            operation,
            path,
            rule: Some(rule),
            kept: None,
            allow: None,
            opens: None,
        }
    }
}

impl Policy {
    /// Whether the policy allows `operation` on `path`, and which rule says so.
    ///
    /// To connect or bind, what has no `/` and ends with `:PORT` is a TCP address
    /// (`host:443`, `:8080`, `[::1]:80`); of it only the port decides. All else
    /// is a path.
    ///
    /// A relative path is one in the working directory. Links are followed,
    /// as the kernel does for everything but [`Operation::Remove`] and
    /// [`Operation::Create`] on the last component.
    #[must_use]
    pub fn why(&self, operation: Operation, path: &Path) -> Verdict {
        if let Some(port) = port(operation, path) {
            return self.why_tcp(operation, path, port);
        }
        let path = self.cwd.join(path);
        let path = match operation {
            Operation::Create | Operation::Remove | Operation::Bind => resolve_parent(&path),
            _ => resolve(&path),
        };
        if operation == Operation::Connect {
            return self.why_connect(path);
        }
        // A file is made and removed in its directory, so that is what a rule
        // must allow; a rule on the file itself binds what is there now.
        let acts_on_directory = match operation {
            Operation::Create | Operation::Remove | Operation::Bind => true,
            Operation::Write => std::fs::symlink_metadata(&path).is_err(),
            _ => false,
        };
        let place = match path.parent() {
            Some(parent) if acts_on_directory => parent,
            _ => &path,
        };
        let enough = |g: &&Grant| match operation {
            Operation::Read | Operation::Connect => true,
            Operation::Write | Operation::Create | Operation::Remove | Operation::Bind => {
                g.access.writes()
            }
            Operation::Execute => g.access.executes(),
        };
        let covering = self.grants.iter().filter(|g| g.covers(place));
        let decisive = covering.filter(enough).max_by_key(|g| depth(&g.path));
        if let Some(rule) = decisive {
            return Verdict::allowed(operation, path, rule.to_string());
        }
        if let Some(verdict) = self.taken_away(operation, &path) {
            return verdict;
        }
        let (allow, opens) = self.line_for(operation, place, &path);
        Verdict {
            allowed: false,
            operation,
            rule: self.nearest(place).map(ToString::to_string),
            kept: self.kept_around(&path),
            allow,
            opens: Some(opens),
            path,
        }
    }

    /// The verdict where `drop` decides, and no line would help.
    fn taken_away(&self, operation: Operation, path: &Path) -> Option<Verdict> {
        let mut dropped = self.dropped.iter();
        let drop = dropped.find(|drop| path.starts_with(&drop.path))?;
        let rule = format!(
            "drop {} ({})",
            visible(Path::new(&drop.written)),
            drop.origin
        );
        Some(Verdict {
            allowed: false,
            operation,
            path: path.to_owned(),
            rule: Some(rule),
            kept: self.kept_around(path),
            allow: None,
            opens: Some("No rule is proposed, for none brings back what is dropped".to_owned()),
        })
    }

    /// Why no line about the network would help, if a project's file took it
    /// away: that is laid on top of the person's.
    pub(crate) fn network_is_taken_away(&self) -> Option<String> {
        let by_project = self.network.origin.layer == crate::Layer::Project;
        by_project.then(|| {
            "No rule is proposed, for the project's file leaves no more of the network, and none \
             of yours gives it back"
                .to_owned()
        })
    }

    fn why_connect(&self, path: PathBuf) -> Verdict {
        let listed = self.sockets.iter().find(|s| s.path == path);
        let written = self
            .grants
            .iter()
            .find(|g| g.access.writes() && g.covers(&path));
        let rule = match listed {
            Some(socket) => Some(format!(
                "unix_sockets {} ({})",
                visible(Path::new(&socket.written)),
                socket.origin
            )),
            None => written.map(ToString::to_string),
        };
        if let Some(rule) = rule {
            return Verdict::allowed(Operation::Connect, path, rule);
        }
        if let Some(verdict) = self.taken_away(Operation::Connect, &path) {
            return verdict;
        }
        let opens = "opens all that whoever answers there does for whoever asks".to_owned();
        Verdict {
            allowed: false,
            operation: Operation::Connect,
            rule: self.nearest(&path).map(ToString::to_string),
            kept: self.kept_around(&path),
            allow: Some(format!("unix_sockets: [{}]", self.spell(&path))),
            opens: Some(opens),
            path,
        }
    }

    fn why_tcp(&self, operation: Operation, address: &Path, port: u16) -> Verdict {
        let binds = operation == Operation::Bind;
        let (mut connect, mut bind) = match &self.network.value {
            Network::Tcp { connect, bind } => (connect.clone(), bind.clone()),
            _ => Default::default(),
        };
        let listed = if binds { &mut bind } else { &mut connect };
        let allowed = !self.network.value.is_restricted() || !listed.insert(port);
        let rule = self.network_rule();
        if allowed {
            return Verdict::allowed(operation, address.to_owned(), rule);
        }
        let lists = [("connect_tcp", connect), ("bind_tcp", bind)];
        let lists = lists.iter().filter(|(_, ports)| !ports.is_empty());
        let lists: Vec<_> = lists
            .map(|(key, ports)| {
                let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
                format!("{key}: [{}]", ports.join(", "))
            })
            .collect();
        let taken_away = self.network_is_taken_away();
        let opens = match binds {
            true => format!("lets tools listen on TCP port {port}"),
            false => format!("opens TCP port {port} of every host"),
        };
        Verdict {
            allowed,
            operation,
            path: address.to_owned(),
            rule: Some(rule),
            kept: None,
            allow: taken_away
                .is_none()
                .then(|| format!("network: {{ {} }}", lists.join(", "))),
            opens: Some(taken_away.unwrap_or(opens)),
        }
    }

    /// What the policy says of the network, with its origin.
    pub(crate) fn network_rule(&self) -> String {
        format!("network {} ({})", self.network.value, self.network.origin)
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

    /// The narrowest line that allows `operation` on `path`, for which a rule
    /// must be on `place`, and what it opens; or why there is none.
    fn line_for(
        &self,
        operation: Operation,
        place: &Path,
        path: &Path,
    ) -> (Option<String>, String) {
        let executes = |p: &Path| {
            self.grants
                .iter()
                .any(|g| g.access.executes() && g.covers(p))
        };
        let writes = |p: &Path| self.grants.iter().any(|g| g.access.writes() && g.covers(p));
        let (word, what) = match operation {
            Operation::Read => ("ro", "reading"),
            Operation::Execute if writes(place) => ("rwx", "executing"),
            Operation::Execute => ("rox", "executing"),
            _ if executes(place) => ("rwx", "writing"),
            _ => ("rw", "writing"),
        };
        let changes = matches!(
            operation,
            Operation::Write | Operation::Create | Operation::Remove
        );
        if changes && let Some(reason) = self.runs_later(path) {
            return (None, format!("No rule is proposed, for {reason}"));
        }
        let uses = matches!(operation, Operation::Read | Operation::Execute);
        if uses && std::fs::symlink_metadata(place).is_err_and(|error| is_absent(&error)) {
            let none = format!("No rule is proposed, for there is no {}", visible(place));
            return (None, none);
        }
        // A rule on what does not exist is skipped, so the line names the
        // directory that does.
        let existing = place.ancestors().find(|p| p.exists()).unwrap_or(place);
        let is_new = operation == Operation::Write && place != path;
        let alone = match is_new {
            true => "; make the file first, and a rule on it alone is enough to write to it",
            false => "",
        };
        if !existing.is_dir() {
            let line = format!("filesystem: {{ {word}: [{}] }}", self.spell(existing));
            return (Some(line), format!("opens {what} of this file alone"));
        }
        let shown = visible(existing);
        match self.too_much(existing, word.starts_with("rw")) {
            Some(reason) => (
                None,
                format!("No rule is proposed, for it would open {shown}, and {reason}{alone}"),
            ),
            None => (
                Some(format!(
                    "filesystem: {{ {word}: [{}] }}",
                    self.spell(existing)
                )),
                format!("opens {what} of all below {shown}{alone}"),
            ),
        }
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

/// The port, if this is about a TCP address.
fn port(operation: Operation, target: &Path) -> Option<u16> {
    let text = target.to_str().filter(|text| !text.contains('/'))?;
    let dials = matches!(operation, Operation::Connect | Operation::Bind);
    let (_, port) = text.rsplit_once(':').filter(|_| dials)?;
    port.parse().ok()
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
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
