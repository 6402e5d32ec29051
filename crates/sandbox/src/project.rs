//! The project's file: it lies where the sandboxed tool itself may write.

use std::fmt;

use crate::{Document, Error, Layered, Network, Origin, Rule, Sourced};

/// Something that a project asks for and does not have until the person has
/// trusted its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What it is, as a line of the file would say it.
    pub what: String,
    /// Where the file says it.
    pub origin: Origin,
    /// What granting it would mean, where that is more than the words say.
    pub meaning: Option<&'static str>,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({})",
            crate::show::visible(self.what.as_ref()),
            self.origin
        )?;
        match self.meaning {
            Some(meaning) => write!(f, ": {meaning}"),
            None => Ok(()),
        }
    }
}

impl Layered {
    /// What of a project's file holds without any trust: drops, a narrower
    /// network, lower limits.
    ///
    /// # Errors
    /// [`Error::Rule`] for what a project may never set, [`Error::TooLarge`].
    pub fn narrowed(self, project: &Document) -> Result<Self, Error> {
        forbidden(project)?;
        let network = project.network.as_ref().map(|asked| Sourced {
            value: meet(&self.network.value, &asked.value),
            origin: asked.origin.clone(),
        });
        let mut limits = project.limits.clone();
        for (asked, held) in [
            (&mut limits.processes, &self.limits.processes),
            (&mut limits.memory_mb, &self.limits.memory_mb),
            (&mut limits.file_size_mb, &self.limits.file_size_mb),
            (&mut limits.open_files, &self.limits.open_files),
        ] {
            let higher = matches!((&asked, held), (Some(a), Some(h)) if a.value > h.value);
            if higher {
                *asked = None;
            }
        }
        let changed = network.filter(|n| n.value != self.network.value);
        self.with(&Document {
            network: changed,
            limits,
            drop: project.drop.clone(),
            notes: project.notes.clone(),
            ..Document::default()
        })
    }

    /// What of a project's file does not hold before it is trusted, in the
    /// order of the file's keys. Empty when there is nothing to ask.
    #[must_use]
    pub fn requests(&self, project: &Document) -> Vec<Request> {
        let mut requests = Vec::new();
        let mut ask = |what: String, origin: &Origin, meaning| {
            requests.push(Request {
                what,
                origin: origin.clone(),
                meaning,
            });
        };
        for rule in &project.filesystem {
            let held = |r: &Rule| r.path == rule.path && r.access.union(rule.access) == r.access;
            if !self.filesystem.iter().any(held) {
                ask(
                    format!("{} {}", rule.access, rule.path),
                    &rule.origin,
                    meaning(&rule.path),
                );
            }
        }
        if let Some(network) = &project.network
            && meet(&self.network.value, &network.value) != network.value
        {
            ask(format!("network {}", network.value), &network.origin, None);
        }
        for socket in &project.unix_sockets {
            if !self.unix_sockets.iter().any(|s| s.value == socket.value) {
                ask(
                    format!("connect to {}", socket.value),
                    &socket.origin,
                    meaning(&socket.value),
                );
            }
        }
        for name in &project.env {
            if !self.env.iter().any(|e| e.value == name.value) {
                ask(format!("the variable {}", name.value), &name.origin, None);
            }
        }
        for ((key, held), (_, asked)) in self.limits.named().iter().zip(project.limits.named()) {
            if let (Some(held), Some(asked)) = (held, asked)
                && asked.value > held.value
            {
                ask(format!("limits.{key} {}", asked.value), &asked.origin, None);
            }
        }
        requests
    }

    /// The whole of a project's file on top, for when the person has trusted
    /// it.
    ///
    /// # Errors
    /// As [`Layered::narrowed`].
    pub fn trusting(self, project: &Document) -> Result<Self, Error> {
        forbidden(project)?;
        self.with(project)
    }
}

/// What no trust makes right. What can be told only from the resolved path
/// (directories on PATH, places of keys) is refused when the policy is
/// expanded.
fn forbidden(project: &Document) -> Result<(), Error> {
    let wrong = |origin: &Origin, value: &str, message: &str| {
        Err(Error::Rule {
            origin: origin.clone(),
            value: value.to_owned(),
            message: message.to_owned(),
        })
    };
    if let Some(best_effort) = &project.best_effort {
        return wrong(
            &best_effort.origin,
            "best_effort",
            "a project file may not set it",
        );
    }
    for rule in &project.filesystem {
        let path = rule.path.trim_end_matches('/');
        if path.is_empty() || path == "{HOME}" {
            return wrong(
                &rule.origin,
                &rule.path,
                "a project file may not ask for it as a whole",
            );
        }
    }
    for name in &project.env {
        let loads_code = [
            "LD_",
            "BASH_ENV",
            "ENV",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "PERL5OPT",
            "GIT_SSH",
        ];
        let prefix = name.value.strip_suffix('*');
        let loads =
            |c: &&str| name.value.starts_with(*c) || prefix.is_some_and(|p| c.starts_with(p));
        if loads_code.iter().any(loads) || prefix.is_some_and(|p| p.len() < 3) {
            return wrong(
                &name.origin,
                &name.value,
                "a project file may not ask for a variable that makes programs load code",
            );
        }
    }
    Ok(())
}

/// What both networks allow.
fn meet(a: &Network, b: &Network) -> Network {
    match (a, b) {
        (Network::Unrestricted, other) | (other, Network::Unrestricted) => other.clone(),
        (Network::None, _) | (_, Network::None) => Network::None,
        (
            Network::Tcp { connect, bind },
            Network::Tcp {
                connect: other_connect,
                bind: other_bind,
            },
        ) => Network::Tcp {
            connect: connect & other_connect,
            bind: bind & other_bind,
        },
    }
}

/// What a rule on `path` means beyond its words, for paths where that is more
/// than a file.
pub(crate) fn meaning(path: &str) -> Option<&'static str> {
    let ends = |names: &[&str]| names.iter().any(|n| path.ends_with(n));
    if ends(&["docker.sock", "podman.sock", "containerd.sock", "crio.sock"]) {
        Some(
            "who can talk to it can start a container with the whole host in it, which equals root on that host",
        )
    } else if path.contains("ssh-agent") || ends(&["S.gpg-agent", "S.gpg-agent.ssh", "agent.sock"])
    {
        Some("who can talk to it can use your keys, on every host that takes them")
    } else if ends(&["/bus", "system_bus_socket"]) || path.contains("systemd") {
        Some("who can talk to it can start programs of yours, outside of the sandbox")
    } else if ends(&[
        "/.profile",
        "/.bashrc",
        "/.bash_profile",
        "/.zshrc",
        "/.zshenv",
        "/.zprofile",
        "/.gitconfig",
        "/.config/git/config",
        "/.config/fish/config.fish",
        "/ld.so.preload",
    ]) || ["/autostart", "/etc/cron", "/etc/profile.d", "/etc/sudoers"]
        .iter()
        .any(|part| path.contains(part))
    {
        Some("what is written there runs later, outside of the sandbox")
    } else if path == "/etc"
        || ends(&["/etc/shadow", "/etc/gshadow"])
        || path.contains("/etc/ssh")
        || path.contains("/.ssh")
        || path.contains("/.gnupg")
        || path.contains("/.aws")
        || path.contains("/.docker")
    {
        Some("it holds keys or passwords")
    } else {
        None
    }
}
