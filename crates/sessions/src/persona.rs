use std::path::Path;

use ollie_agent::{AgentFile, Config, Skill, SkilledHands, Variables, render};

use crate::plain::read_text;
use crate::{BackendFacts, Error, Settings};

/// What every agent is told, unless `prompts/system.md` says something else.
const SYSTEM: &str = include_str!("system.md");

/// What an agent is, from the files of the user's configuration:
/// `agents/NAME.json`, `prompts/system.md`, `skills/NAME.md`.
#[derive(Debug, Default)]
pub(crate) struct Persona {
    /// The agent's own file.
    pub(crate) file: AgentFile,
    system: String,
    skills: Vec<Skill>,
}

impl Persona {
    /// The agent `name`; without a name, the one that is called `default`, if
    /// there is one.
    pub(crate) fn read(config: &Path, name: &str) -> Result<Self, Error> {
        let wanted = if name.is_empty() { "default" } else { name };
        if !ollie_protocol::limits::is_name(wanted) {
            return Err(Error::Setting(format!("agent={wanted}: that is no name")));
        }
        let path = config.join("agents").join(format!("{wanted}.json"));
        let file = match text(&path)? {
            Some(json) => AgentFile::parse(&json).map_err(|error| wrong(&path, &error))?,
            None if name.is_empty() => AgentFile::default(),
            None => {
                return Err(Error::Setting(format!(
                    "agent={name}: there is no {path:?}"
                )));
            }
        };
        let system = text(&config.join("prompts/system.md"))?;
        Ok(Self {
            file,
            system: system.unwrap_or_else(|| SYSTEM.to_owned()),
            skills: skills(&config.join("skills"))?,
        })
    }

    /// How the agent works in a session.
    pub(crate) fn config(
        &self,
        session: &str,
        settings: &Settings,
        about: &BackendFacts,
        variables: &Variables,
    ) -> Result<Config, Error> {
        let mut parts = Vec::new();
        for template in [&self.system, &self.file.prompt] {
            let part = render(template, variables)?;
            parts.push(part.trim().to_owned());
        }
        parts.push(SkilledHands::listing(&self.skills));
        parts.retain(|part| !part.is_empty());
        let system = parts.join("\n\n");
        let file = &self.file;
        let mut config = file.config(session, &settings.agent, &settings.model, system);
        config.context_window = config.context_window.or(about.context_window);
        Ok(config)
    }

    /// What the agent can read up.
    pub(crate) fn into_skills(self) -> Vec<Skill> {
        self.skills
    }
}

/// Every skill of the directory, in the order of their names.
fn skills(directory: &Path) -> Result<Vec<Skill>, Error> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".md")?.to_owned()))
        .collect();
    names.sort();
    let mut skills = Vec::new();
    for name in names {
        let path = directory.join(format!("{name}.md"));
        if let Some(file) = text(&path)? {
            skills.push(Skill::parse(&name, &file).map_err(|error| wrong(&path, &error))?);
        }
    }
    Ok(skills)
}

fn text(path: &Path) -> Result<Option<String>, Error> {
    read_text(path).map_err(|error| wrong(path, &error))
}

fn wrong(path: &Path, error: &dyn std::error::Error) -> Error {
    Error::Setting(format!("{path:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        home
    }

    #[test]
    fn a_prompt_is_the_system_the_agent_and_the_skills() {
        let home = home(&[
            ("agents/a.json", r#"{"prompt":"Be ${PRIME_PLATFORM}."}"#),
            ("prompts/system.md", "In ${PRIME_CWD}.\n"),
            ("skills/b.md", "---\ndescription: two\n---\ntext"),
            ("skills/a.md", "---\ndescription: one\n---\ntext"),
        ]);
        let persona = Persona::read(home.path(), "a").unwrap();
        let variables = Variables {
            cwd: "/x".to_owned(),
            platform: "linux".to_owned(),
            is_git_repo: false,
            date: "2026-12-01".to_owned(),
        };
        let facts = BackendFacts {
            context_window: Some(9),
            ..BackendFacts::default()
        };
        let config = persona.config("s", &Settings::default(), &facts, &variables);
        let config = config.unwrap();
        let expected = ["In /x.\n\nBe linux.\n\n", "\n- a: one\n- b: two"];
        assert!(config.system.starts_with(expected[0]), "{}", config.system);
        assert!(config.system.ends_with(expected[1]), "{}", config.system);
        assert_eq!(config.context_window, Some(9));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_file() {
        let home = home(&[
            ("agents/a.json", r#"{"promt":"x"}"#),
            ("skills/s.md", "no front matter"),
        ]);
        for (name, says) in [
            ("a", "promt"),
            ("b", "there is no"),
            ("../a", "no name"),
            ("", "s.md"),
        ] {
            let error = Persona::read(home.path(), name).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
        }
    }
}
