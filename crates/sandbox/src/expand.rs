//! From rules as written to rules as they hold on this host.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::cwd::Guard;
use crate::detect::{Found, detect};
use crate::layered::PROJECT_FILE;
use crate::policy::{Named, Place, Skipped};
use crate::show::{is_personal, visible};
use crate::variable::{Expanded, expand as variables};
use crate::{
    Error, Grant, HostView, Layer, Layered, Origin, Policy, Rule, Sourced, environment, planted,
};

impl Layered {
    /// Resolves every rule on this host.
    ///
    /// Variables are expanded and paths made canonical. A path that does not
    /// exist is skipped, with a note where a person named it. What lies on
    /// this host only (the Nix store, directories on PATH, the repository of a
    /// git worktree) is added with the origin `host`. `{CWD}` is left out where
    /// it holds more than a project, and a note says so.
    ///
    /// # Errors
    /// [`Error::Rule`] for a rule that is not one, or that is to be dropped
    /// and lies inside a granted directory, or names a variable that is not set
    /// here; [`Error::Resolve`] when the
    /// working directory does not exist; [`Error::TooLarge`].
    pub fn expand(&self, view: &HostView<'_>) -> Result<Policy, Error> {
        self.check()?;
        let cwd = std::fs::canonicalize(view.cwd).map_err(|source| Error::Resolve {
            what: "the working directory",
            path: view.cwd.to_owned(),
            source,
        })?;
        let mut work = Work {
            view,
            guard: Guard::new(view),
            cwd,
            grants: Vec::new(),
            skipped: Vec::new(),
            notes: self.notes.clone(),
        };
        let project = work.cwd.join(PROJECT_FILE);
        if !self.project_read && std::fs::symlink_metadata(&project).is_ok() {
            work.notes.push(format!(
                "{} was not read and has no effect here",
                visible(&project)
            ));
        }
        for rule in &self.filesystem {
            if let Some(path) = work.resolve(&rule.path, &rule.origin)? {
                work.refuse_projects_reach(rule, &path)?;
                work.add(Grant {
                    access: rule.access,
                    path,
                    written: rule.path.clone(),
                    origin: rule.origin.clone(),
                });
            }
        }
        for found in detect(view, &work.cwd, &work.guard) {
            work.add_found(found);
        }
        let mut sockets = Vec::new();
        for rule in &self.unix_sockets {
            if let Some(path) = work.resolve(&rule.value, &rule.origin)? {
                sockets.push(Named {
                    path,
                    written: rule.value.clone(),
                    origin: rule.origin.clone(),
                });
            }
        }
        work.refuse_planted(&mut sockets);
        let mut dropped = work.dropped(&self.drop.filesystem)?;
        work.drop_filesystem(&dropped)?;
        let dropped_sockets = work.dropped(&self.drop.unix_sockets)?;
        sockets.retain(|s| !dropped_sockets.iter().any(|d| s.path.starts_with(&d.path)));
        dropped.extend(dropped_sockets);
        work.keep_own_files()?;
        for name in self.env.iter().chain(&self.drop.env) {
            if let Some(message) = environment::problem(&name.value) {
                return Err(rule_error(&name.origin, &name.value, message));
            }
        }
        work.warn_of_writable_programs();
        Ok(Policy {
            profile: self.profile.clone(),
            cwd: work.cwd,
            home: view.home.map(|h| Place(h.to_owned())),
            tmpdir: view.tmpdir.map(|t| Place(t.to_owned())),
            grants: work.grants,
            sockets,
            dropped,
            network: self.network.clone(),
            env: self.env.clone(),
            env_dropped: self.drop.env.clone(),
            limits: self.limits.clone(),
            best_effort: self.best_effort.clone(),
            skipped: work.skipped,
            notes: work.notes,
            identity: view.identity.cloned(),
            kept: work.guard.kept(),
        })
    }
}

struct Work<'a> {
    view: &'a HostView<'a>,
    guard: Guard,
    cwd: PathBuf,
    grants: Vec<Grant>,
    skipped: Vec<Skipped>,
    notes: Vec<String>,
}

impl Work<'_> {
    /// The canonical path of a rule, or `None` and a reason kept.
    fn resolve(&mut self, written: &str, origin: &Origin) -> Result<Option<PathBuf>, Error> {
        let (path, names_cwd) = match variables(written, self.view, &self.cwd) {
            Expanded::Path { path, names_cwd } => (path, names_cwd),
            Expanded::Absent(name) => {
                return Ok(self.skip(written, origin, format!("{name} is not known here")));
            }
            // A person's file is for all of their hosts, and a project's for
            // all of its; a variable that only some of them set is no mistake.
            // Without the rule the policy is narrower, and a note says so.
            Expanded::Unset(message) if is_personal(origin.layer) => {
                return Ok(self.skip(written, origin, message));
            }
            Expanded::Unset(message) | Expanded::Wrong(message) => {
                return Err(rule_error(origin, written, message));
            }
        };
        let canonical = match std::fs::canonicalize(&path) {
            Ok(canonical) => canonical,
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::NotFound if written.contains('*') => {
                        "does not exist; `*` stands for itself in a path".to_owned()
                    }
                    io::ErrorKind::NotFound => "does not exist".to_owned(),
                    _ => format!("cannot be resolved: {error}"),
                };
                return Ok(self.skip(written, origin, why));
            }
        };
        if origin.layer == Layer::Profile
            && let Some(reason) = self.guard.leads_to_kept(&path, &canonical)
        {
            let why = format!("a link leads to {}, and {reason}", visible(&canonical));
            self.notes.push(format!("{written} is not granted: {why}"));
            return Ok(self.skip(written, origin, why));
        }
        if names_cwd && let Some(reason) = self.guard.refuses(&canonical) {
            self.refuse_cwd(written, origin, &canonical, &reason);
            return Ok(None);
        }
        Ok(Some(canonical))
    }

    fn skip(&mut self, written: &str, origin: &Origin, why: String) -> Option<PathBuf> {
        let skipped = Skipped {
            written: written.to_owned(),
            origin: origin.clone(),
            why,
        };
        if is_personal(origin.layer) {
            self.notes.push(format!("rule not applied: {skipped}"));
        }
        self.skipped.push(skipped);
        None
    }

    fn refuse_cwd(&mut self, written: &str, origin: &Origin, dir: &Path, reason: &str) {
        let mut note = format!(
            "{written} is not granted, because {} must not be given to tools as a whole: {reason}",
            visible(dir)
        );
        if dir == self.cwd {
            note.push_str(". Use --cwd to name a project directory");
        }
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        self.skipped.push(Skipped {
            written: written.to_owned(),
            origin: origin.clone(),
            why: reason.to_owned(),
        });
    }

    /// A project's file lies where tools write, so not even trust in it opens
    /// what makes a sandbox pointless.
    fn refuse_projects_reach(&self, rule: &Rule, path: &Path) -> Result<(), Error> {
        let reason = match rule.origin.layer {
            Layer::Project if rule.access.writes() => self.guard.refuses_project(path),
            Layer::Project if path.parent().is_none() || self.guard.holds_home(path) => {
                Some("it contains the home directory".to_owned())
            }
            _ => None,
        };
        match reason {
            Some(reason) => {
                let message = format!("a project file may not ask for it: {reason}");
                Err(rule_error(&rule.origin, &rule.path, message))
            }
            None => Ok(()),
        }
    }

    /// Whoever may write ollie's own files chooses what the next session
    /// believes, and reaches the sockets of others. A rule of a person's that
    /// says so is an error; one that a profile makes for every host is left out
    /// where ollie had no other place.
    fn keep_own_files(&mut self) -> Result<(), Error> {
        let mut kept = Vec::new();
        for grant in std::mem::take(&mut self.grants) {
            let mut own = self.view.ollie_roots.iter().chain(self.guard.linked());
            let own = own.find(|root| {
                let private = self.view.tmpdir == Some(root.as_path());
                let root = std::fs::canonicalize(root).unwrap_or_else(|_| (*root).clone());
                !private && root.starts_with(&grant.path)
            });
            let Some(own) = own.filter(|_| grant.access.writes()) else {
                kept.push(grant);
                continue;
            };
            let reason = format!(
                "it contains {}, which is ollie's own and which tools must not write",
                visible(own)
            );
            if is_personal(grant.origin.layer) {
                return Err(rule_error(&grant.origin, &grant.written, reason));
            }
            self.refuse_cwd(&grant.written, &grant.origin, &grant.path, &reason);
        }
        self.grants = kept;
        Ok(())
    }

    /// The same rule twice is kept once: `/bin` and `/usr/bin` on a merged
    /// system.
    fn add(&mut self, grant: Grant) {
        let known = |g: &Grant| g.path == grant.path && g.access == grant.access;
        if !self.grants.iter().any(known) {
            self.grants.push(grant);
        }
    }

    /// What was detected is told only where it adds something.
    fn add_found(&mut self, found: Found) {
        let covered = self
            .grants
            .iter()
            .any(|g| g.covers(&found.path) && g.access.union(found.access) == g.access);
        if !covered {
            self.grants.push(Grant {
                access: found.access,
                written: found.named.to_string_lossy().into_owned(),
                path: found.path,
                origin: Origin::host(found.what),
            });
        }
    }

    /// Takes out what a tool may have made to lead elsewhere, see
    /// [`crate::planted`].
    fn refuse_planted(&mut self, sockets: &mut Vec<Named>) {
        let writes = self.grants.iter().filter(|g| g.access.writes());
        let writable: Vec<PathBuf> = writes.map(|g| g.path.clone()).collect();
        let planted = |written: &str, origin: &Origin| {
            let path = match origin.layer {
                Layer::Host => PathBuf::from(written),
                _ => match variables(written, self.view, &self.cwd) {
                    Expanded::Path { path, .. } => path,
                    _ => return None,
                },
            };
            planted::link(&path, &writable)
        };
        // A rule that came over such a link must not vouch for itself: what
        // is believed to be writable are the others.
        let links: Vec<_> = self
            .grants
            .iter()
            .map(|g| planted(&g.written, &g.origin))
            .collect();
        let believed: Vec<PathBuf> = (self.grants.iter().zip(&links))
            .filter(|(g, link)| g.access.writes() && link.is_none())
            .map(|(g, _)| g.path.clone())
            .collect();
        let leads_out = |path: &Path| !believed.iter().any(|b| path.starts_with(b));
        let mut refused = Vec::new();
        for (grant, link) in self.grants.iter().zip(links) {
            if let Some(link) = link.filter(|_| leads_out(&grant.path)) {
                refused.push((grant.written.clone(), grant.origin.clone(), link));
            }
        }
        for socket in sockets.iter() {
            let link = planted(&socket.written, &socket.origin);
            if let Some(link) = link.filter(|_| leads_out(&socket.path)) {
                refused.push((socket.written.clone(), socket.origin.clone(), link));
            }
        }
        let is_refused = |written: &str, origin: &Origin| {
            refused.iter().any(|(w, o, _)| w == written && o == origin)
        };
        self.grants.retain(|g| !is_refused(&g.written, &g.origin));
        sockets.retain(|s| !is_refused(&s.written, &s.origin));
        for (written, origin, link) in &refused {
            let why = format!(
                "the link {} lies where tools can write, so a tool may have made it; name its target, if you trust it",
                visible(link)
            );
            self.skip(written, origin, why);
        }
    }

    fn drop_filesystem(&mut self, drops: &[Named]) -> Result<(), Error> {
        for drop in drops {
            self.grants.retain(|g| !g.path.starts_with(&drop.path));
            // Landlock cannot take a part out of a directory it gave, so this
            // would be a rule that does nothing.
            if let Some(over) = self.grants.iter().find(|g| g.covers(&drop.path)) {
                let message = format!(
                    "it lies inside the rule {over}, and a part of a granted directory cannot be taken away; drop {} and grant what is needed of it",
                    visible(Path::new(&over.written))
                );
                return Err(rule_error(&drop.origin, &drop.written, message));
            }
        }
        Ok(())
    }

    fn dropped(&self, drops: &[Sourced<String>]) -> Result<Vec<Named>, Error> {
        let named = |drop: &Sourced<String>| {
            Ok(Named {
                path: self.dropped_path(drop)?,
                written: drop.value.clone(),
                origin: drop.origin.clone(),
            })
        };
        drops.iter().map(named).collect()
    }

    /// What is to be dropped need not exist, but it must be understood.
    fn dropped_path(&self, drop: &Sourced<String>) -> Result<PathBuf, Error> {
        match variables(&drop.value, self.view, &self.cwd) {
            Expanded::Path { path, .. } => {
                Ok(std::fs::canonicalize(&path).unwrap_or_else(|_| lexical(&path)))
            }
            Expanded::Absent(name) => Err(rule_error(
                &drop.origin,
                &drop.value,
                format!("{name} is not known here, so it cannot be dropped"),
            )),
            // What is to be taken away and cannot be found would stay.
            Expanded::Unset(message) | Expanded::Wrong(message) => {
                Err(rule_error(&drop.origin, &drop.value, message))
            }
        }
    }

    /// A tool that can write a program of the person's can run as the person
    /// later, outside of any sandbox.
    fn warn_of_writable_programs(&mut self) {
        for program in self.guard.programs() {
            if let Some(grant) = self
                .grants
                .iter()
                .find(|g| g.access.writes() && g.covers(program))
            {
                let note = format!(
                    "tools can replace programs in {}, which is on PATH, because of the rule {grant}",
                    visible(program)
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }
}

fn rule_error(origin: &Origin, value: &str, message: String) -> Error {
    Error::Rule {
        origin: origin.clone(),
        value: value.to_owned(),
        message,
    }
}

/// The path with `.` and `..` taken out by their text alone.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}
