use serde::Deserialize;

use crate::{Config, Error, Hooks, Limits, SKILL, Sampling, Visible};

/// The file `agents/NAME.json`. Every key may be left out; a key that is not
/// here is refused.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct AgentFile {
    /// Follows the system prompt that every agent has; see
    /// [`render`](crate::render) for its variables.
    pub prompt: String,
    /// Commands around a turn.
    hooks: HookTable,
    /// The tools that the model is shown. Default: every one.
    tools: Option<Vec<String>>,
    /// Empty: no tool leaves the sandbox, so there is none to trust.
    trusted_tools: Vec<String>,
    /// The model's name at the back end.
    pub model: Option<String>,
    /// The back end.
    pub backend: Option<String>,
    /// [`Limits::steps`].
    max_steps: Option<u32>,
    /// [`Config::context_window`].
    pub context_window: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    max_tokens: Option<u64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    stop: Vec<String>,
    /// The profile of the sandbox.
    pub sandbox: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct HookTable {
    pre_turn: Commands,
    post_turn: Commands,
}

/// One command, or several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a command, or a list of commands")]
enum Commands {
    One(String),
    Several(Vec<String>),
}

impl Default for Commands {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Commands {
    fn list(&self) -> Vec<String> {
        match self {
            Self::One(command) => vec![command.clone()],
            Self::Several(commands) => commands.clone(),
        }
    }
}

impl AgentFile {
    /// Reads and checks the file's text.
    ///
    /// # Errors
    /// [`Error::AgentFile`] with line and column, or with the key whose value
    /// is out of its range.
    pub fn parse(json: &str) -> Result<Self, Error> {
        let file: Self =
            serde_json::from_str(json).map_err(|error| Error::AgentFile(error.to_string()))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), Error> {
        let ranges = [
            ("temperature", self.temperature, 0.0, 2.0),
            ("topP", self.top_p, 0.0, 1.0),
            ("frequencyPenalty", self.frequency_penalty, -2.0, 2.0),
            ("presencePenalty", self.presence_penalty, -2.0, 2.0),
        ];
        for (key, value, least, most) in ranges {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                return Err(Error::AgentFile(format!(
                    "{key} is to be from {least} to {most}"
                )));
            }
        }
        let numbers = [
            ("maxSteps", self.max_steps.map(u64::from)),
            ("maxTokens", self.max_tokens),
            ("contextWindow", self.context_window),
        ];
        for (key, value) in numbers {
            if value == Some(0) {
                return Err(Error::AgentFile(format!("{key} is to be at least 1")));
            }
        }
        if !self.trusted_tools.is_empty() {
            return Err(Error::AgentFile(
                "trustedTools would name tools that leave the sandbox without a question; a \
                 person is asked for each call that leaves it, so remove the key"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// The settings of an agent that goes by this file.
    #[must_use]
    pub fn config(&self, session: &str, agent: &str, model: &str, system: String) -> Config {
        let mut limits = Limits::default();
        if let Some(steps) = self.max_steps {
            limits.steps = steps;
        }
        Config {
            session: session.to_owned(),
            agent: agent.to_owned(),
            model: model.to_owned(),
            system,
            // Skills are listed in the prompt, so they can be read.
            tools: match &self.tools {
                None => Visible::All,
                Some(names) => {
                    let skill = std::iter::once(SKILL.to_owned());
                    Visible::Only(names.iter().cloned().chain(skill).collect())
                }
            },
            sampling: Sampling {
                temperature: self.temperature,
                top_p: self.top_p,
                max_tokens: self.max_tokens,
                frequency_penalty: self.frequency_penalty,
                presence_penalty: self.presence_penalty,
                stop: self.stop.clone(),
            },
            context_window: self.context_window,
            hooks: Hooks {
                pre_turn: self.hooks.pre_turn.list(),
                post_turn: self.hooks.post_turn.list(),
            },
            limits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_effect() {
        let file = AgentFile::parse(
            r#"{"prompt": "Be brief.", "hooks": {"preTurn": "a", "postTurn": ["b", "c"]},
                "tools": ["shell"], "trustedTools": [], "model": "m", "backend": "ollama",
                "maxSteps": 7, "contextWindow": 9000, "temperature": 0.5, "topP": 0.9,
                "maxTokens": 100, "frequencyPenalty": -1, "presencePenalty": 1,
                "stop": ["END"], "sandbox": "strict"}"#,
        )
        .unwrap();
        assert_eq!(file.prompt, "Be brief.");
        assert_eq!(file.model.as_deref(), Some("m"));
        assert_eq!(file.backend.as_deref(), Some("ollama"));
        assert_eq!(file.sandbox.as_deref(), Some("strict"));
        let config = file.config("s", "a", "other", "You help.".into());
        assert_eq!(config.model, "other");
        assert!(config.tools.shows("shell") && config.tools.shows("skill"));
        assert!(!config.tools.shows("file_read"));
        assert_eq!(config.hooks.pre_turn, ["a"]);
        assert_eq!(config.hooks.post_turn, ["b", "c"]);
        assert_eq!(config.limits.steps, 7);
        assert_eq!(config.context_window, Some(9000));
        let expected = Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_tokens: Some(100),
            frequency_penalty: Some(-1.0),
            presence_penalty: Some(1.0),
            stop: vec!["END".into()],
        };
        assert_eq!(config.sampling, expected);
    }

    #[test]
    fn an_empty_file_is_an_agent() {
        let file = AgentFile::parse("{}").unwrap();
        assert_eq!(file, AgentFile::default());
        let config = file.config("s", "a", "m", String::new());
        assert_eq!(config.tools, Visible::All);
        assert_eq!(config.limits, Limits::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (json, words) in [
            ("{\n \"modle\": \"m\"}", ["modle", "line 2"]),
            (
                r#"{"hooks": {"agentSpawn": "a"}}"#,
                ["agentSpawn", "line 1"],
            ),
            (
                r#"{"hooks": {"preTurn": 1}}"#,
                ["a list of commands", "line 1"],
            ),
            (r#"{"temperature": 3}"#, ["temperature", "from 0 to 2"]),
            (r#"{"maxSteps": 0}"#, ["maxSteps", "at least 1"]),
            (r#"{"maxSteps": -1}"#, ["u32", "line 1"]),
            (r#"{"trustedTools": ["shell"]}"#, ["trustedTools", "remove"]),
            (r#"{"model": "a", "model": "b"}"#, ["model", "duplicate"]),
        ] {
            let error = AgentFile::parse(json).unwrap_err().to_string();
            assert!(words.iter().all(|it| error.contains(it)), "{error}");
        }
    }
}
