//! The shape of a policy file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::explain;
use crate::{
    Access, Document, Dropped, Error, Layer, Limits, MAX_POLICY_BYTES, Network, Origin, Rule,
    Sourced,
};

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Which layer it is.
    pub layer: Layer,
    /// The file or the profile's name, for messages.
    pub file: String,
}

impl Source {
    /// A text of `layer` from `file`.
    #[must_use]
    pub fn new(layer: Layer, file: impl Into<String>) -> Self {
        Self {
            layer,
            file: file.into(),
        }
    }

    fn origin(&self, line: u64) -> Origin {
        Origin {
            layer: self.layer,
            file: Some(self.file.clone()),
            line: (line > 0).then_some(line),
        }
    }

    fn wrong(&self, at: serde_saphyr::Location, message: impl Into<String>) -> Error {
        Error::Document {
            file: self.file.clone(),
            line: at.line(),
            column: at.column(),
            message: message.into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    filesystem: Option<Filesystem>,
    caches: Option<BTreeMap<String, Vec<Spanned<String>>>>,
    network: Option<Spanned<Net>>,
    unix_sockets: Option<Vec<Spanned<String>>>,
    env: Option<Vec<Spanned<String>>>,
    limits: Option<Ceilings>,
    general: Option<General>,
    drop: Option<Drops>,
    advanced: Option<Advanced>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Filesystem {
    ro: Option<Vec<Spanned<String>>>,
    rox: Option<Vec<Spanned<String>>>,
    rw: Option<Vec<Spanned<String>>>,
    rwx: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Net {
    unrestricted: Option<bool>,
    none: Option<bool>,
    connect_tcp: Option<Vec<u16>>,
    bind_tcp: Option<Vec<u16>>,
    enabled: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ceilings {
    processes: Option<Spanned<u64>>,
    memory_mb: Option<Spanned<u64>>,
    file_size_mb: Option<Spanned<u64>>,
    open_files: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct General {
    best_effort: Option<Spanned<bool>>,
    log_level: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advanced {
    ldd: Option<Spanned<bool>>,
    add_exec: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drops {
    filesystem: Option<Vec<Spanned<String>>>,
    unix_sockets: Option<Vec<Spanned<String>>>,
    env: Option<Vec<Spanned<String>>>,
}

/// Reads one policy file.
///
/// Anchors, aliases and merge keys are refused: a policy is read by people,
/// and what it grants must stand where they look.
///
/// # Errors
/// [`Error::Document`] with file, line and column: not YAML, an unknown or
/// duplicate key (with the nearest right one), a wrong type, more than 64 KiB.
/// Whether paths and variables make sense is known only on the host
/// ([`crate::Layered::expand`]).
pub fn parse(text: &str, source: &Source) -> Result<Document, Error> {
    if text.len() > MAX_POLICY_BYTES {
        let message = format!(
            "{} bytes; a policy file may have {MAX_POLICY_BYTES}",
            text.len()
        );
        return Err(source.wrong(serde_saphyr::Location::UNKNOWN, message));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 8,
            max_documents: 1,
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
        },
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let file: Option<File> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| explain::error(&source.file, &error))?;
    file.map_or_else(|| Ok(Document::default()), |f| f.document(source))
}

impl File {
    fn document(self, source: &Source) -> Result<Document, Error> {
        let mut notes = Vec::new();
        let mut obsolete = |key: &str, line: u64| {
            notes.push(format!(
                "{}, line {line}: `{key}` has no effect any more",
                source.file
            ));
        };
        if let Some(level) = self.general.as_ref().and_then(|g| g.log_level.as_ref()) {
            obsolete("general.log_level", level.referenced.line());
        }
        if let Some(advanced) = &self.advanced {
            for (key, set) in [("ldd", &advanced.ldd), ("add_exec", &advanced.add_exec)] {
                if let Some(set) = set {
                    obsolete(&format!("advanced.{key}"), set.referenced.line());
                }
            }
        }
        let drop = match self.drop {
            Some(drop) => Dropped {
                filesystem: sourced(drop.filesystem, source),
                unix_sockets: sourced(drop.unix_sockets, source),
                env: names(drop.env, source)?,
            },
            None => Dropped::default(),
        };
        Ok(Document {
            filesystem: rules(
                self.filesystem.unwrap_or_default(),
                self.caches.unwrap_or_default(),
                source,
            )?,
            network: self.network.map(|n| network(n, source)).transpose()?,
            unix_sockets: sourced(self.unix_sockets, source),
            env: names(self.env, source)?,
            limits: self
                .limits
                .map_or_else(|| Ok(Limits::default()), |l| limits(l, source))?,
            best_effort: self
                .general
                .and_then(|g| g.best_effort)
                .map(|b| one(b, source)),
            drop,
            notes,
        })
    }
}

fn one<T>(spanned: Spanned<T>, source: &Source) -> Sourced<T> {
    Sourced {
        origin: source.origin(spanned.referenced.line()),
        value: spanned.value,
    }
}

fn sourced(list: Option<Vec<Spanned<String>>>, source: &Source) -> Vec<Sourced<String>> {
    let list = list.unwrap_or_default();
    list.into_iter().map(|s| one(s, source)).collect()
}

fn names(
    list: Option<Vec<Spanned<String>>>,
    source: &Source,
) -> Result<Vec<Sourced<String>>, Error> {
    for name in list.iter().flatten() {
        if let Some(message) = crate::environment::problem(&name.value) {
            return Err(source.wrong(name.referenced, format!("`{}`: {message}", name.value)));
        }
    }
    Ok(sourced(list, source))
}

fn rules(
    filesystem: Filesystem,
    caches: BTreeMap<String, Vec<Spanned<String>>>,
    source: &Source,
) -> Result<Vec<Rule>, Error> {
    let lists = [filesystem.ro, filesystem.rox, filesystem.rw, filesystem.rwx];
    let mut rules = Vec::new();
    for (access, list) in Access::ALL.into_iter().zip(lists) {
        for path in list.unwrap_or_default() {
            rules.push(rule(access, path, None, source)?);
        }
    }
    for (program, list) in caches {
        for path in list {
            // It lies where tools write, and nothing of a person's home is made
            // because of it.
            if source.layer == Layer::Project {
                let message = "a project file makes no directories; list it under `rwx`";
                return Err(source.wrong(path.referenced, message));
            }
            if program.is_empty() || program.contains('/') {
                let message = format!("`{program}` is no name of a program on PATH");
                return Err(source.wrong(path.referenced, message));
            }
            rules.push(rule(Access::Rwx, path, Some(&program), source)?);
        }
    }
    Ok(rules)
}

fn rule(
    access: Access,
    path: Spanned<String>,
    made_for: Option<&String>,
    source: &Source,
) -> Result<Rule, Error> {
    let text = path.value.as_str();
    if text.starts_with('~') {
        return Err(source.wrong(path.referenced, "`~` is not expanded; write {HOME}"));
    }
    if !text.starts_with(['/', '{']) {
        let message =
            format!("`{text}` is not absolute; write {{CWD}}/... for a path in the project");
        return Err(source.wrong(path.referenced, message));
    }
    Ok(Rule {
        access,
        origin: source.origin(path.referenced.line()),
        path: path.value,
        made_for: made_for.cloned(),
    })
}

fn network(net: Spanned<Net>, source: &Source) -> Result<Sourced<Network>, Error> {
    let at = net.referenced;
    let origin = source.origin(at.line());
    let net = net.value;
    let ports = net.connect_tcp.is_some() || net.bind_tcp.is_some();
    // `enabled` is the word of earlier files for the same choice.
    let open = net.unrestricted.or(net.enabled);
    let value = match (open, net.none, ports) {
        (Some(true), None | Some(false), false) => Network::Unrestricted,
        (None | Some(false), Some(true), false) | (Some(false), None, false) => Network::None,
        (None | Some(false), None | Some(false), true) => Network::Tcp {
            connect: net.connect_tcp.unwrap_or_default().into_iter().collect(),
            bind: net.bind_tcp.unwrap_or_default().into_iter().collect(),
        },
        _ => {
            let message = "say one of `unrestricted: true`, `none: true`, or `connect_tcp` and `bind_tcp` with ports";
            return Err(source.wrong(at, message));
        }
    };
    Ok(Sourced { value, origin })
}

fn limits(ceilings: Ceilings, source: &Source) -> Result<Limits, Error> {
    let all = [
        &ceilings.processes,
        &ceilings.memory_mb,
        &ceilings.file_size_mb,
        &ceilings.open_files,
    ];
    if let Some(zero) = all.into_iter().flatten().find(|l| l.value == 0) {
        return Err(source.wrong(zero.referenced, "a limit of 0 would let nothing run"));
    }
    let take = |limit: Option<Spanned<u64>>| limit.map(|l| one(l, source));
    Ok(Limits {
        processes: take(ceilings.processes),
        memory_mb: take(ceilings.memory_mb),
        file_size_mb: take(ceilings.file_size_mb),
        open_files: take(ceilings.open_files),
    })
}
