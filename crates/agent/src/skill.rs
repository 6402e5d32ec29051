use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ollie_protocol::limits::is_name;
use serde::Deserialize;
use serde_json::json;

use crate::{
    CallEnd, Chunk, Error, Hands, HandsError, ModelCall, Outcome, Parallel, ShellEnd, ToolDef,
};

/// The name of the tool that reads a skill.
pub(crate) const SKILL: &str = "skill";

/// Bytes of a skill's file.
const MOST: usize = 64 * 1024;

/// A text for a certain kind of work: the model is shown its name and its
/// description, and reads the rest when it needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    name: String,
    description: String,
    text: String,
}

/// Other keys are left to other programs that read the same files.
#[derive(Deserialize)]
struct FrontMatter {
    name: Option<String>,
    description: String,
}

impl Skill {
    /// Reads the file `skills/NAME.md`, at most 64 KiB: YAML with a
    /// `description` between two lines of `---`, then the text. A `name` in
    /// it must be that of the file.
    ///
    /// # Errors
    /// [`Error::Skill`] says what is missing.
    pub fn parse(name: &str, file: &str) -> Result<Self, Error> {
        let trouble = |problem: String| Error::Skill {
            name: name.to_owned(),
            problem,
        };
        if !is_name(name) {
            return Err(trouble(
                "a name has 1 to 64 characters of [A-Za-z0-9_.-] and begins with no dot".into(),
            ));
        }
        if file.len() > MOST {
            let length = file.len();
            return Err(trouble(format!(
                "it has {length} bytes, at most {MOST} are read: put the rest into a file that it \
                 names"
            )));
        }
        let inside = file
            .strip_prefix("---\n")
            .or_else(|| file.strip_prefix("---\r\n"))
            .ok_or_else(|| trouble("the first line is to be ---".into()))?;
        let mut at = 0_usize;
        let end = inside.split_inclusive('\n').find_map(|line| {
            let begin = at;
            at = at.saturating_add(line.len());
            (line.trim_end() == "---").then_some((begin, at))
        });
        let Some((end, begin)) = end else {
            return Err(trouble("the second line of --- is missing".into()));
        };
        let (yaml, text) = (
            inside.get(..end).unwrap_or_default(),
            inside.get(begin..).unwrap_or_default(),
        );
        let matter: FrontMatter =
            serde_saphyr::from_str(yaml).map_err(|error| trouble(error.to_string()))?;
        if matter.name.as_ref().is_some_and(|it| it != name) {
            return Err(trouble(format!(
                "it calls itself {:?}: rename it or its file",
                matter.name.unwrap_or_default()
            )));
        }
        let description = matter.description.split_whitespace().collect::<Vec<_>>();
        if description.is_empty() {
            return Err(trouble("the description is empty".into()));
        }
        Ok(Self {
            name: name.to_owned(),
            description: description.join(" "),
            text: text.trim().to_owned(),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for, in one line.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// Hands with skills: the others', and the tool `skill`, which is answered
/// here. A tool of that name which the others have is not reached.
pub struct SkilledHands {
    hands: Arc<dyn Hands>,
    skills: Vec<Skill>,
}

impl fmt::Debug for SkilledHands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skills = self.skills.iter().map(Skill::name);
        f.debug_list().entries(skills).finish()
    }
}

impl SkilledHands {
    /// Adds skills to hands.
    #[must_use]
    pub fn new(hands: Arc<dyn Hands>, skills: Vec<Skill>) -> Self {
        Self { hands, skills }
    }

    /// The part of a system prompt that lists the skills; empty if there are
    /// none.
    #[must_use]
    pub fn listing(skills: &[Skill]) -> String {
        if skills.is_empty() {
            return String::new();
        }
        let mut text = "Skills hold instructions for certain kinds of work. Before such work, \
                        read the skill with the tool `skill`:"
            .to_owned();
        for skill in skills {
            text.push_str("\n- ");
            text.push_str(&skill.name);
            text.push_str(": ");
            text.push_str(&skill.description);
        }
        text
    }

    fn definition(&self) -> ToolDef {
        let names: Vec<_> = self.skills.iter().map(Skill::name).collect();
        ToolDef {
            name: SKILL.to_owned(),
            description: "Read a skill: instructions for a certain kind of work.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": names, "description": "which one"},
                },
                "required": ["name"],
                "additionalProperties": false,
            }),
            parallel: Parallel::Read,
        }
    }

    fn read(&self, call: &ModelCall) -> Outcome {
        let arguments = match call.object() {
            Ok(arguments) => arguments,
            Err(problem) => return Outcome::error(problem),
        };
        let name = arguments.get("name").and_then(serde_json::Value::as_str);
        match self.skills.iter().find(|it| Some(it.name()) == name) {
            Some(skill) => Outcome::ok(skill.text.clone()),
            None => {
                let names: Vec<_> = self.skills.iter().map(Skill::name).collect();
                Outcome::error(format!(
                    "The argument `name` is to be one of: {}.",
                    names.join(", ")
                ))
            }
        }
    }
}

impl Hands for SkilledHands {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<ToolDef>, HandsError>> {
        async {
            let mut tools = self.hands.tools().await?;
            if !self.skills.is_empty() {
                tools.retain(|tool| tool.name != SKILL);
                tools.push(self.definition());
            }
            Ok(tools)
        }
        .boxed()
    }

    fn call<'a>(
        &'a self,
        call: &'a ModelCall,
        output: &'a mut (dyn FnMut(Chunk) + Send),
    ) -> BoxFuture<'a, CallEnd> {
        if call.name == SKILL && !self.skills.is_empty() {
            async { self.read(call).into() }.boxed()
        } else {
            self.hands.call(call, output)
        }
    }

    fn shell<'a>(
        &'a self,
        command: &'a str,
        stdin: Bytes,
        limit: Duration,
    ) -> BoxFuture<'a, Result<ShellEnd, HandsError>> {
        self.hands.shell(command, stdin, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_a_description_and_a_text() {
        let file = "---\nname: release\ndescription: >\n  how to\n  release\nlicense: MIT\n---\n\
                    # Steps\n---\n1. tag\n";
        let skill = Skill::parse("release", file).unwrap();
        assert_eq!(skill.description(), "how to release");
        assert_eq!(skill.text, "# Steps\n---\n1. tag");
        let listing = SkilledHands::listing(&[skill]);
        assert!(
            listing.ends_with("\n- release: how to release"),
            "{listing}"
        );
        assert_eq!(SkilledHands::listing(&[]), "");
        let dos = Skill::parse("a", "---\r\ndescription: d\r\n---\r\ntext\r\n").unwrap();
        assert_eq!(dos.text, "text");
    }

    #[test]
    fn what_is_no_skill_is_told() {
        for (name, file, word) in [
            ("a", "# Steps\n", "first line"),
            ("a", "---\ndescription: d\n", "second line"),
            ("a", "---\nname: a\n---\n", "description"),
            ("a", "---\ndescription: ' '\n---\n", "empty"),
            ("a", "---\nname: b\ndescription: d\n---\n", "\"b\""),
            ("a", "---\ndescription: [\n---\n", "a"),
            ("../a", "---\ndescription: d\n---\n", "name"),
            ("a", &"x".repeat(MOST + 1), "65537"),
        ] {
            let error = Skill::parse(name, file).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
