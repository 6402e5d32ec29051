//! After a failed call: what of it was the policy.

use std::ffi::OsStr;
use std::path::Path;

use ollie_protocol::{Denial, DenialSource};

use crate::dialled::{self, Dialled};
use crate::show::visible;
use crate::stderr::{self, Complaint};
use crate::{Operation, Policy, Verdict, modebits};

/// The most denials told for one call.
const MAX_DENIALS: usize = 8;

/// The most lines and bytes looked at, from the end.
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 64 * 1024;

/// What can be told about a failed call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explained {
    /// What the policy does not allow.
    pub denials: Vec<Denial>,
    /// Whether a message says that something was refused, and neither a rule
    /// nor mode bits explain it.
    pub unexplained: bool,
}

impl Policy {
    /// Explains a failed call: which of the paths in its arguments and its
    /// error messages the policy does not allow.
    ///
    /// The kernel tells an unprivileged process nothing, so this is inferred,
    /// and each [`Denial`] says so. A path that the policy allows is never
    /// blamed on it, nor one that mode bits would refuse anyway, because the
    /// line that would allow it would not help. At most 8 are told.
    #[must_use]
    pub fn denials(&self, argv: &[impl AsRef<OsStr>], cwd: &Path, stderr_tail: &[u8]) -> Explained {
        let tail = &stderr_tail[stderr_tail.len().saturating_sub(MAX_BYTES)..];
        let text = String::from_utf8_lossy(tail);
        let lines: Vec<_> = text.lines().collect();
        let mut explained = Explained::default();
        let denials = &mut explained.denials;
        let mut unexplained = false;
        for at in (0..lines.len()).rev().take(MAX_LINES) {
            if let Some(dialled) = dialled::read_at(&lines, at)
                && self.blame_network(&dialled, denials)
            {
                continue;
            }
            let Some(complaint) = stderr::read_at(&lines, at) else {
                continue;
            };
            let mut known = false;
            for path in &complaint.paths {
                let guesses = guesses(&complaint, argv, path);
                known |= self.blame(guesses, &cwd.join(path), denials);
            }
            unexplained |= !known;
        }
        // Programs that say only "permission denied" leave the arguments.
        if unexplained && denials.is_empty() {
            for word in argv.iter().skip(1).map(AsRef::as_ref) {
                if looks_like_path(word) {
                    unexplained &= !self.blame(&UNKNOWN, &cwd.join(word), denials);
                }
            }
        }
        denials.reverse();
        explained.unexplained = unexplained;
        explained
    }

    /// Whether it was what the policy says of the network, which is then told.
    fn blame_network(&self, dialled: &Dialled, denials: &mut Vec<Denial>) -> bool {
        if !self.network.value.is_restricted() {
            return false;
        }
        let denial = match dialled {
            Dialled::Address(operation, address) => {
                let verdict = self.why(*operation, Path::new(address));
                if verdict.allowed {
                    return false;
                }
                inferred(verdict)
            }
            Dialled::Name | Dialled::Something => {
                let (target, opens) = match dialled {
                    Dialled::Name => (
                        "a server of names",
                        "opens the network as a whole; names are resolved by UDP, which no list \
                         of ports opens",
                    ),
                    _ => (
                        "the network",
                        "opens the network as a whole; `connect_tcp` and `bind_tcp` with ports \
                         open less",
                    ),
                };
                let taken_away = self.network_is_taken_away();
                Denial {
                    operation: Operation::Connect.word().to_owned(),
                    target: target.to_owned(),
                    source: DenialSource::Inferred,
                    nearest: Some(self.network_rule()),
                    allow: taken_away
                        .is_none()
                        .then(|| "network: { unrestricted: true }".to_owned()),
                    opens: Some(taken_away.unwrap_or_else(|| opens.to_owned())),
                }
            }
        };
        tell(denial, denials);
        true
    }

    /// Whether it is known why something was refused: the policy, which is then
    /// told, or mode bits.
    fn blame(&self, guesses: &[Operation], path: &Path, denials: &mut Vec<Denial>) -> bool {
        let guesses = match is_socket(path) {
            true => &[Operation::Connect],
            false => guesses,
        };
        for (number, operation) in guesses.iter().enumerate() {
            if *operation == Operation::Execute && !is_program(path) {
                continue;
            }
            let verdict = self.why(*operation, path);
            let bits_allow = self
                .identity
                .as_ref()
                .is_none_or(|who| modebits::allow(who, *operation, &verdict.path));
            match (verdict.allowed, bits_allow) {
                (true, true) => continue,
                // Mode bits refuse what was tried first; that is the whole
                // explanation, and it is not the policy's. What is not there at
                // all was not refused by them.
                (_, false) => return is_there(&verdict.path),
                (false, true) => {}
            }
            let mut denial = inferred(verdict);
            // Reading it is allowed, and the message does not say that anything
            // else was tried. A line on a guess could be what a tool is after.
            if number > 0 && *operation == Operation::Write {
                denial.allow = None;
                denial.opens = Some(format!(
                    "Reading it is allowed; if it was to be written, `policy why write {}` says \
                     what would allow that",
                    denial.target
                ));
            }
            tell(denial, denials);
            return true;
        }
        false
    }
}

fn inferred(verdict: Verdict) -> Denial {
    let opens = match (verdict.opens, verdict.kept) {
        (opens, None) => opens,
        (Some(opens), Some(kept)) => Some(format!("{opens}; {kept}, which no profile grants")),
        (None, Some(kept)) => Some(kept),
    };
    Denial {
        operation: verdict.operation.word().to_owned(),
        target: visible(&verdict.path),
        source: DenialSource::Inferred,
        nearest: verdict.rule,
        allow: verdict.allow,
        opens,
    }
}

fn tell(denial: Denial, denials: &mut Vec<Denial>) {
    let told = denials.iter().any(|d| d.target == denial.target);
    if !told && denials.len() < MAX_DENIALS {
        denials.push(denial);
    }
}

fn looks_like_path(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    text.contains('/') && !text.contains(char::is_whitespace) && !text.contains("://")
}

/// What may have been tried, the likelier first.
fn guesses(complaint: &Complaint, argv: &[impl AsRef<OsStr>], path: &str) -> &'static [Operation] {
    match complaint.tried {
        Some(Operation::Create) => &[Operation::Create],
        Some(Operation::Write) => &[Operation::Write],
        Some(Operation::Remove) => &[Operation::Remove],
        Some(Operation::Execute) => &[Operation::Execute, Operation::Read],
        Some(Operation::Read) => &[Operation::Read],
        Some(Operation::Connect) => &[Operation::Connect],
        Some(Operation::Bind) => &[Operation::Bind],
        // A shell names a file in the same words when it cannot write to it
        // and when it is no program. Only a redirection writes.
        None if complaint.by_shell && redirects(argv, path) => &[Operation::Write],
        None if complaint.by_shell => &[Operation::Read, Operation::Execute],
        None => &UNKNOWN,
    }
}

const UNKNOWN: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Execute];

/// Whether a script in `argv` has a `>` before the name of `path`. The names
/// are compared and not the paths, because the script's has not been through
/// the shell.
fn redirects(argv: &[impl AsRef<OsStr>], path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    argv.iter().any(|word| {
        let text = word.as_ref().to_string_lossy().into_owned();
        text.split('>').skip(1).any(|after| {
            let after = after.trim_start_matches(['|', '&', ' ', '\t', '"', '\'']);
            let end = after.find(|c: char| c.is_whitespace() || ";|&)\"'".contains(c));
            let token = &after[..end.unwrap_or(after.len())];
            token.rsplit('/').next() == Some(name)
        })
    })
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

fn is_there(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    !matches!(found, Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
