//! `policy trust`, `diff`, `check`, `why` and `schema`: what can be told
//! without starting a session.

use std::path::{Path, PathBuf};

use ollie_sandbox::{Layer, Operation, Source, parse};

use crate::error::Error;
use crate::options::{CheckOptions, ProjectOptions, TrustOptions, WhyOptions};
use crate::output;
use crate::paths::Paths;
use crate::printable::printable;
use crate::project::{Project, Standing, expand};
use crate::setup::{PROFILE, layers, own_paths, policy_text};

/// Grants a project what it asks for, as it is now.
pub(crate) fn trust(options: &TrustOptions) -> Result<u8, Error> {
    let (paths, project) = project(&options.project)?;
    let Some(project) = project else {
        return Err(Error::Usage(
            "there is no .ollie-sandbox.yaml here".to_owned(),
        ));
    };
    if let Some(expected) = &options.digest
        && *expected != project.digest
    {
        return Err(Error::Usage(format!(
            "the file's SHA-256 is {}, not {expected}",
            project.digest
        )));
    }
    let base = layers(profile(&options.project), &paths.policy())?;
    let requests = project.requests(&base);
    let wide = base.trusting(&project.document).map_err(Error::Policy)?;
    let key = project.key(&wide)?;
    let directory = project.directory.display().to_string();
    crate::trust::Trust::at(&paths).add(&key, &directory)?;
    let mut text = format!("trusted, until the file or what it names changes: {directory}\n");
    for request in requests {
        text.push_str(&format!("  {request}\n"));
    }
    output::print(&printable(&text))?;
    Ok(0)
}

/// Prints what a project's file changes and whether that holds.
pub(crate) fn diff(options: &ProjectOptions) -> Result<u8, Error> {
    let (paths, project) = project(options)?;
    let Some(project) = project else {
        output::print("there is no .ollie-sandbox.yaml here\n")?;
        return Ok(0);
    };
    let base = layers(profile(options), &paths.policy())?;
    let requests = project.requests(&base);
    let (_, standing) = project.lay_on(base, &paths, None)?;
    let mut text = format!(
        "{}\nsha256 {}\n",
        project.directory.display(),
        project.digest
    );
    text.push_str(match standing {
        Standing::NothingAsked => "it asks for nothing; what it takes away holds\n",
        Standing::Trusted => "trusted, it has:\n",
        Standing::Untrusted => "not trusted; what it takes away holds, and it asks for:\n",
    });
    for request in requests {
        text.push_str(&format!("  {request}\n"));
    }
    output::print(&printable(&text))?;
    Ok(0)
}

/// Reads policy files as a session would, and says what is wrong.
pub(crate) fn check(options: &CheckOptions) -> Result<u8, Error> {
    let directory = directory(None)?;
    let files = match options.files.as_slice() {
        [] => vec![directory.join(ollie_sandbox::PROJECT_FILE)],
        files => files.to_vec(),
    };
    let paths = own_paths()?;
    for file in files {
        let is_project = file.file_name() == Some(ollie_sandbox::PROJECT_FILE.as_ref());
        let count = if is_project {
            let parent = file
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let Some(project) = Project::read(parent.unwrap_or(Path::new(".")))? else {
                return Err(Error::Usage(format!("there is no {}", file.display())));
            };
            let base = layers(PROFILE, &paths.policy())?;
            let wide = base.trusting(&project.document).map_err(Error::Policy)?;
            expand(&wide, &project.directory)?;
            project.document.len()
        } else {
            let text = policy_text(&file)?
                .ok_or_else(|| Error::Usage(format!("there is no {}", file.display())))?;
            let source = Source::new(Layer::User, file.display().to_string());
            parse(&text, &source).map_err(Error::Policy)?.len()
        };
        output::print(&printable(&format!(
            "{}: right, {count} rules\n",
            file.display()
        )))?;
    }
    Ok(0)
}

/// Says whether the policy allows something, and which rule decides.
pub(crate) fn why(options: &WhyOptions) -> Result<u8, Error> {
    let operation = Operation::from_word(&options.operation).ok_or_else(|| {
        let words = Operation::ALL.map(Operation::word).join(", ");
        Error::Usage(format!("{}: one of {words} is expected", options.operation))
    })?;
    let (paths, project) = project(&options.project)?;
    let base = layers(profile(&options.project), &paths.policy())?;
    let layered = match &project {
        Some(project) => project.lay_on(base, &paths, None)?.0,
        None => base,
    };
    let policy = expand(
        &layered.project_read(),
        &directory(options.project.cwd.as_ref())?,
    )?;
    let verdict = policy.why(operation, &options.path);
    output::print(&printable(&format!("{verdict}\n")))?;
    Ok(u8::from(!verdict.allowed))
}

/// Prints the JSON schema of policy files.
pub(crate) fn schema() -> Result<u8, Error> {
    output::print(ollie_sandbox::schema())?;
    Ok(0)
}

fn profile(options: &ProjectOptions) -> &str {
    options.profile.as_deref().unwrap_or(PROFILE)
}

fn project(options: &ProjectOptions) -> Result<(Paths, Option<Project>), Error> {
    let project = Project::read(&directory(options.cwd.as_ref())?)?;
    Ok((own_paths()?, project))
}

fn directory(named: Option<&PathBuf>) -> Result<PathBuf, Error> {
    match named {
        Some(directory) => std::path::absolute(directory),
        None => std::env::current_dir(),
    }
    .map_err(|source| Error::Io {
        action: "find the working directory",
        source,
    })
}
