//! The project's own policy file, `.ollie-sandbox.yaml`.
//!
//! It lies where the sandboxed tools themselves may write. So what narrows the
//! policy holds at once, and what widens it is a request until the person has
//! trusted exactly these bytes, at this place, with what they resolve to. It
//! is read once, before a session starts, and by this process only.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ollie_sandbox::{
    Document, HostView, Layer, Layered, MAX_POLICY_BYTES, PROJECT_FILE, Policy, Request, Source,
    parse,
};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::paths::Paths;
use crate::plain_file::{self, Links};
use crate::trust::Trust;

/// A project's file, read and understood.
#[derive(Debug)]
pub(crate) struct Project {
    /// The directory, canonical.
    pub(crate) directory: PathBuf,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub(crate) digest: String,
    pub(crate) document: Document,
}

/// What became of a project's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There are none.
    NothingAsked,
    /// They hold: the person has trusted them.
    Trusted,
    /// They do not hold.
    Untrusted,
}

impl Project {
    /// The file in `directory`, if there is one.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let io = |source| Error::PolicyFile {
            path: directory.join(PROJECT_FILE),
            source,
        };
        let directory = match directory.canonicalize() {
            Ok(directory) => directory,
            // The session will say that it is not there.
            Err(_) => return Ok(None),
        };
        let file = directory.join(PROJECT_FILE);
        let read = plain_file::read(&file, MAX_POLICY_BYTES, Links::Refused);
        let Some(text) = read.map_err(io)? else {
            return Ok(None);
        };
        let source = Source::new(Layer::Project, PROJECT_FILE);
        Ok(Some(Self {
            document: parse(&text, &source).map_err(Error::Policy)?,
            digest: hex(&Sha256::digest(&text)),
            directory,
        }))
    }

    /// What it asks for beyond `base`.
    pub(crate) fn requests(&self, base: &Layered) -> Vec<Request> {
        base.requests(&self.document)
    }

    /// Lays it on `base`: all of it if that is trusted, else what narrows.
    /// `named` is the digest that the person gave for this session.
    pub(crate) fn lay_on(
        &self,
        base: Layered,
        paths: &Paths,
        named: Option<&str>,
    ) -> Result<(Layered, Standing), Error> {
        let requests = self.requests(&base);
        let wide = base
            .clone()
            .trusting(&self.document)
            .map_err(Error::Policy)?;
        if requests.is_empty() {
            return Ok((wide, Standing::NothingAsked));
        }
        let key = self.key(&wide)?;
        if named == Some(self.digest.as_str()) || Trust::at(paths).holds(&key)? {
            return Ok((wide, Standing::Trusted));
        }
        let narrow = base.narrowed(&self.document).map_err(Error::Policy)?;
        Ok((
            narrow.noting([self.summary(&requests)]),
            Standing::Untrusted,
        ))
    }

    /// What a person is told who has not trusted it.
    pub(crate) fn summary(&self, requests: &[Request]) -> String {
        let list: Vec<_> = requests.iter().map(ToString::to_string).collect();
        format!(
            "the project asks for more than it has: {}. `olliesrv policy trust` grants it, or \
             --trust-project {} for one session",
            list.join("; "),
            self.digest
        )
    }

    /// What trust is given to: these bytes, this directory, this machine, and
    /// all that they come to here. Another link in the way is another key.
    pub(crate) fn key(&self, wide: &Layered) -> Result<String, Error> {
        let policy = expand(wide, &self.directory)?;
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(b"ollie trust 1, this machine");
        add(self.directory.as_os_str().as_bytes());
        add(self.digest.as_bytes());
        for (access, path) in policy.added_by(Layer::Project) {
            add(access.as_bytes());
            add(path.as_os_str().as_bytes());
        }
        Ok(hex(&hash.finalize()))
    }
}

/// A policy as it holds on this machine, in `directory`.
pub(crate) fn expand(layered: &Layered, directory: &Path) -> Result<Policy, Error> {
    let path = std::env::var_os("PATH");
    let home = std::env::home_dir();
    // The private directory of a session, which is there only with a session.
    let tmpdir = directory.join(".ollie-no-session");
    layered
        .expand(&HostView {
            cwd: directory,
            home: home.as_deref(),
            tmpdir: Some(&tmpdir),
            path: path.as_deref(),
            tools_path: None,
            ollie_roots: &[],
            env: &|name| std::env::var_os(name),
            identity: None,
        })
        .map_err(Error::Policy)
}

/// The digest of a project's file as it is now; `None` where there is none or
/// none that would be read.
pub(crate) fn digest_now(directory: &Path) -> Option<String> {
    let file = directory.join(PROJECT_FILE);
    let text = plain_file::read(&file, MAX_POLICY_BYTES, Links::Refused).ok()??;
    Some(hex(&Sha256::digest(text)))
}

fn hex(bytes: &[u8]) -> String {
    ollie_protocol::auth::to_hex(bytes)
}
