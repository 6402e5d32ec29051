//! A policy as a Landlock ruleset.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};

use super::rights::{Kind, rights};
use super::sys;
use crate::show::visible;
use crate::{Access, Error, Network, Policy};

/// Builds the ruleset. What vanished since the policy was expanded is left
/// out, with a note.
///
/// Everything the crate knows, up to ABI 10, is handled, and what this kernel
/// lacks is masked; ABI 1 is required.
pub(crate) fn build(policy: &Policy, notes: &mut Vec<String>) -> Result<Option<OwnedFd>, Error> {
    let mut ruleset = create(policy.network()).map_err(|e| failed("its rights", e))?;
    for (path, wanted) in wanted(policy) {
        let file = match sys::open_path(path) {
            Ok(file) => file,
            Err(error) => {
                notes.push(format!(
                    "{} is not granted: it changed or vanished ({error})",
                    visible(path)
                ));
                continue;
            }
        };
        let kind = kind(&file, path).map_err(|e| failed(&visible(path), e))?;
        let mut access = BitFlags::<AccessFs>::EMPTY;
        if let Some(word) = wanted.access {
            access |= rights(word, kind);
        }
        if wanted.connect {
            access |= AccessFs::ResolveUnix;
        }
        ruleset = ruleset
            .add_rule(PathBeneath::new(file.as_fd(), access))
            .map_err(|e| failed(&visible(path), e))?;
    }
    ports(ruleset, policy.network()).map(Into::into)
}

fn ports(mut ruleset: RulesetCreated, network: &Network) -> Result<RulesetCreated, Error> {
    if let Network::Tcp { connect, bind } = network {
        for (ports, right) in [(connect, AccessNet::ConnectTcp), (bind, AccessNet::BindTcp)] {
            for port in ports {
                ruleset = ruleset
                    .add_rule(NetPort::new(*port, right))
                    .map_err(|e| failed(&format!("port {port}"), e))?;
            }
        }
    }
    Ok(ruleset)
}

/// The ruleset of the domain that a call's is nested in: what does not depend
/// on files. `None` below ABI 4, which knows none of it.
pub(crate) fn outer(network: &Network) -> Result<Option<OwnedFd>, Error> {
    // A domain that does not speak of REFER denies it (the one right for which
    // that is so), so this one gives it everywhere and leaves it to the inner.
    let top = sys::open_path(Path::new("/")).map_err(|e| failed("the outer domain", e))?;
    let build = || {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::Refer)?;
        created(ruleset, network)?.add_rule(PathBeneath::new(top, AccessFs::Refer))
    };
    build()
        .map_err(|e| failed("the outer domain", e))
        .and_then(|ruleset| ports(ruleset, network))
        .map(Into::into)
}

fn create(network: &Network) -> Result<RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V10))?;
    created(ruleset, network)
}

fn created(ruleset: Ruleset, network: &Network) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = ruleset.scope(make_bitflags!(Scope::{AbstractUnixSocket | Signal}))?;
    if network.is_restricted() {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V10))?;
    }
    ruleset.create()
}

#[derive(Default)]
struct Wanted {
    access: Option<Access>,
    connect: bool,
}

/// Each path once, with the union of what its rules say.
fn wanted(policy: &Policy) -> BTreeMap<&Path, Wanted> {
    let mut wanted = BTreeMap::<&Path, Wanted>::new();
    for grant in &policy.grants {
        let entry = wanted.entry(&grant.path).or_default();
        let access = entry.access.map_or(grant.access, |a| a.union(grant.access));
        entry.access = Some(access);
    }
    for socket in &policy.sockets {
        wanted.entry(&socket.path).or_default().connect = true;
    }
    wanted
}

fn kind(file: &std::fs::File, path: &Path) -> std::io::Result<Kind> {
    let kind = file.metadata()?.file_type();
    Ok(if kind.is_dir() {
        Kind::Directory {
            of_devices: path.starts_with("/dev"),
        }
    } else if kind.is_char_device() || kind.is_block_device() {
        Kind::Device
    } else {
        Kind::Other
    })
}

fn failed(context: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Ruleset {
        context: context.to_owned(),
        source: Box::new(error),
    }
}
