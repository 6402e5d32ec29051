use ollie_protocol::{Enforced, Language};

use crate::session::Session;
use crate::variants::on_path;

/// `host_info`
pub(super) fn tell(session: &Session) -> String {
    let facts = crate::facts::gather(&session.environment, &session.cwd);
    let mut text = format!(
        "host: {} ({} {}, kernel {}, {})\nuser: {} ({}), home {}\nworking directory: {}\n",
        facts.hostname,
        facts.os,
        facts.arch,
        facts.kernel,
        facts.distribution,
        facts.user,
        facts.uid,
        facts.home.to_string_lossy(),
        facts.cwd.to_string_lossy(),
    );
    if let Some(git) = &facts.git {
        text.push_str(&format!(
            "git checkout: {}, {}{}\n",
            git.root.to_string_lossy(),
            git.branch.as_deref().unwrap_or("detached"),
            match &git.commit {
                Some(commit) => format!(" at {}", commit.get(..12).unwrap_or(commit)),
                None => ", no commit".to_owned(),
            }
        ));
    }
    if let Ok(processors) = std::thread::available_parallelism() {
        text.push_str(&format!("processors: {processors}\n"));
    }
    let path = session.call_variable("PATH").unwrap_or_default();
    let there: Vec<_> = Language::ALL
        .into_iter()
        .map(|language| language.program().0)
        .filter(|program| on_path(&path, program).is_some())
        .collect();
    text.push_str(&format!("interpreters: {}\n", there.join(" ")));
    text.push_str(&sandbox(session));
    text
}

fn sandbox(session: &Session) -> String {
    let Some(sandbox) = session.sandbox() else {
        return "sandbox: not decided yet\n".to_owned();
    };
    let policy = &sandbox.policy;
    let report = sandbox.confinement.as_ref().map(|it| &it.report);
    let mut text = match report {
        Ok(report) if report.enforced == Enforced::None => {
            return "sandbox: none; a command may do all that the user may\n".to_owned();
        }
        Ok(report) => format!("sandbox: profile {}\n", report.profile),
        Err(reason) => return format!("sandbox: {reason}\n"),
    };
    text.push_str(&format!("  network: {}\n", policy.network()));
    let writable: Vec<_> = policy
        .grants()
        .iter()
        .filter(|grant| grant.access.writes() && !grant.path.starts_with("/dev"))
        .map(|grant| grant.path.to_string_lossy().into_owned())
        .collect();
    text.push_str(&format!("  may be written: {}\n", writable.join(" ")));
    text.push_str("  may be read: that, and programs, libraries and settings of the system\n");
    text
}
