//! `policy trust`, `diff`, `check`, `why` and `schema`.

use std::path::Path;

use ollie_protocol::{Octets, ProjectStanding};
use ollie_sandbox::{Layer, Operation, PROJECT_FILE, Source, Verdict, parse};

use crate::error::Error;
use crate::options::{CheckOptions, ProjectOptions, TrustOptions, WhyOptions};
use crate::output;
use crate::printable::printable;
use crate::project::Decided;
use crate::setup::{self, ToolServer, policy_text};
use crate::trust::Trusted;
use crate::verbose::Verbose;

/// Grants a project what it asks for, as it is now.
pub(crate) async fn trust(options: &TrustOptions) -> Result<u8, Error> {
    let Some(project) = project(&options.project).await? else {
        return Err(Error::Usage(NONE.to_owned()));
    };
    if let Some(expected) = &options.digest
        && *expected != project.digest
    {
        return Err(Error::Usage(format!(
            "the file's SHA-256 is {}, not {expected}",
            project.digest
        )));
    }
    let place = place(&options.project, &project);
    let trusted = Trusted::at(&setup::own_paths()?);
    let resolved = project.record.resolved.as_deref().unwrap_or_default();
    if project.requests.is_empty() {
        output::print(&printable(&format!("it asks for nothing: {place}\n")))?;
        return Ok(0);
    }
    output::print(&printable(&format!("{place}\n{}", asked(&project))))?;
    let known = project.record.standing == ProjectStanding::Trusted;
    if !known && !options.yes && options.digest.is_none() && !agreed(&project.digest)? {
        output::note("not trusted");
        return Ok(1);
    }
    trusted.add(&project.key, resolved, &place)?;
    output::print("trusted, until the file or what it names changes\n")?;
    Ok(0)
}

/// What a project asks for, and what that comes to on its host.
fn asked(project: &Decided) -> String {
    let mut text = String::new();
    for request in &project.requests {
        text.push_str(&format!("  {request}\n"));
    }
    if !project.record.grants.is_empty() {
        text.push_str("on its host now:\n");
    }
    for grant in &project.record.grants {
        text.push_str(&format!("  {grant}\n"));
    }
    text
}

/// Asks the person. Where there is nobody to ask, whoever wrote the command has
/// to have looked: nothing is granted because nothing was said.
fn agreed(digest: &str) -> Result<bool, Error> {
    use std::io::IsTerminal as _;

    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::Usage(format!(
            "there is no terminal to ask on: look at what it asks for, and say \
             `olliesrv policy trust {digest}`, or --yes for whatever it is"
        )));
    }
    output::print("trust it? [y/N] ")?;
    let mut answer = String::new();
    let failed = |source| Error::Io {
        action: "read the answer",
        source,
    };
    std::io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// Prints what a project's file changes and whether that holds.
pub(crate) async fn diff(options: &ProjectOptions) -> Result<u8, Error> {
    let Some(project) = project(options).await? else {
        output::print(&format!("{NONE}\n"))?;
        return Ok(0);
    };
    let place = place(options, &project);
    let mut text = format!("{place}\nsha256 {}\n", project.digest);
    text.push_str(match project.record.standing {
        ProjectStanding::Trusted => "trusted, it has:\n",
        ProjectStanding::Untrusted => "not trusted; what it takes away holds, and it asks for:\n",
        _ => "it asks for nothing; what it takes away holds\n",
    });
    text.push_str(&asked(&project));
    output::print(&printable(&text))?;
    Ok(0)
}

/// Reads policy files as a session would, and says what is wrong.
pub(crate) async fn check(options: &CheckOptions) -> Result<u8, Error> {
    if options.files.is_empty() {
        let Some(project) = project(&options.project).await? else {
            return Err(Error::Usage(NONE.to_owned()));
        };
        let place = place(&options.project, &project);
        return right(&format!("{place}: its policy file"), project.rules);
    }
    for file in &options.files {
        let text = policy_text(file)?
            .ok_or_else(|| Error::Usage(format!("there is no {}", file.display())))?;
        let of_project = file.file_name() == Some(PROJECT_FILE.as_ref());
        let layer = if of_project {
            Layer::Project
        } else {
            Layer::User
        };
        let source = Source::new(layer, file.display().to_string());
        let document = parse(&text, &source).map_err(Error::Policy)?;
        if of_project {
            let base = setup::layers(setup::PROFILE, &setup::own_paths()?.policy())?;
            base.trusting(&document).map_err(Error::Policy)?;
        }
        right(&file.display().to_string(), document.len())?;
    }
    Ok(0)
}

fn right(what: &str, rules: usize) -> Result<u8, Error> {
    output::print(&printable(&format!("{what}: right, {rules} rules\n")))?;
    Ok(0)
}

/// Says whether the policy allows something, and which rule decides.
pub(crate) async fn why(options: &WhyOptions) -> Result<u8, Error> {
    if Operation::from_word(&options.operation).is_none() {
        let words = Operation::ALL.map(Operation::word).join(", ");
        return Err(Error::Usage(format!(
            "{}: one of {words} is expected",
            options.operation
        )));
    }
    let server = open(&options.project).await?;
    let path = Octets::from(options.path.clone().into_os_string());
    let verdict = server.conn.why::<Verdict>(&options.operation, &path).await;
    server.end().await;
    let verdict = verdict?;
    output::print(&printable(&format!("{verdict}\n")))?;
    Ok(u8::from(!verdict.allowed))
}

/// Prints the JSON schema of policy files.
pub(crate) fn schema() -> Result<u8, Error> {
    output::print(ollie_sandbox::schema())?;
    Ok(0)
}

const NONE: &str = "there is no .ollie-sandbox.yaml";

async fn open(options: &ProjectOptions) -> Result<ToolServer, Error> {
    let verbose = Verbose::new(&options.session);
    setup::open(&options.session, options.on.as_ref(), &verbose).await
}

/// What becomes of a project's file in a session that does nothing else.
async fn project(options: &ProjectOptions) -> Result<Option<Decided>, Error> {
    let mut server = open(options).await?;
    let project = server.project.take();
    server.end().await;
    Ok(project)
}

fn place(options: &ProjectOptions, project: &Decided) -> String {
    let directory = Path::new(project.directory.as_os_str()).display();
    match &options.on {
        Some(host) => format!("{host}:{directory}"),
        None => directory.to_string(),
    }
}
