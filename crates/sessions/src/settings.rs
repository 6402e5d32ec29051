use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest value of a setting, in bytes.
const VALUE_MAX: usize = 4096;

/// What a session is set to. All of it is kept with the session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The working directory of its tools: absolute on this machine; on
    /// another host, relative ones start at the home directory. Default: the
    /// directory where olliesrv was started, and the home directory there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model back end.
    #[serde(default)]
    pub backend: String,
    /// The model.
    #[serde(default)]
    pub model: String,
    /// The agent: prompt, tools and limits.
    #[serde(default)]
    pub agent: String,
    /// The host of its tools; this machine, if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The profile that its sandbox policy starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Which way 9P goes to another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// SHA-256 of the project's policy file that the person trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// Whether the person chose to have no sandbox at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub yolo: bool,
}

/// The settings by their names, in the order of the file `cfg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Name,
    Cwd,
    Backend,
    Model,
    Agent,
    Remote,
    Sandbox,
    Transport,
    Trust,
    Yolo,
}

impl Key {
    pub(crate) const ALL: [(Self, &'static str); 10] = [
        (Self::Name, "name"),
        (Self::Cwd, "cwd"),
        (Self::Backend, "backend"),
        (Self::Model, "model"),
        (Self::Agent, "agent"),
        (Self::Remote, "remote"),
        (Self::Sandbox, "sandbox"),
        (Self::Transport, "transport"),
        (Self::Trust, "trust"),
        (Self::Yolo, "yolo"),
    ];

    fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(key, _)| *key == self)
            .map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, known)| *known == name).map(|(key, _)| key)
    }
}

impl Settings {
    /// Sets one; an empty value takes it back. [`Key::Name`] is none of them.
    pub(crate) fn set(&mut self, key: Key, value: String) -> Result<(), Error> {
        check(key.name(), &value)?;
        let some = (!value.is_empty()).then_some(value);
        match key {
            Key::Name => {}
            Key::Cwd => self.cwd = some,
            Key::Backend => self.backend = some.unwrap_or_default(),
            Key::Model => self.model = some.unwrap_or_default(),
            Key::Agent => self.agent = some.unwrap_or_default(),
            Key::Remote => self.remote = some,
            Key::Sandbox => self.sandbox = some,
            Key::Transport => self.transport = some,
            Key::Trust => self.trust = some,
            Key::Yolo => {
                self.yolo = match some.as_deref() {
                    None | Some("false") => false,
                    Some("true") => true,
                    Some(other) => {
                        return Err(Error::Setting(format!("yolo={other}: write true or false")));
                    }
                }
            }
        }
        Ok(())
    }

    /// The value of one, as it is written.
    pub(crate) fn get(&self, key: Key) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        match key {
            Key::Name => String::new(),
            Key::Cwd => text(&self.cwd),
            Key::Backend => self.backend.clone(),
            Key::Model => self.model.clone(),
            Key::Agent => self.agent.clone(),
            Key::Remote => text(&self.remote),
            Key::Sandbox => text(&self.sandbox),
            Key::Transport => text(&self.transport),
            Key::Trust => text(&self.trust),
            Key::Yolo => self.yolo.to_string(),
        }
    }
}

/// Reads `key=value` pairs, one a line or several separated by spaces. A value
/// goes to the end of its line or to the next ` word=`, and is kept as it is.
pub(crate) fn pairs(text: &str) -> Result<Vec<(Key, String)>, Error> {
    let mut pairs: Vec<(Key, String)> = Vec::new();
    for line in text.split('\n') {
        let starts = starts(line);
        if starts.first().is_none_or(|(at, _)| *at > 0) {
            if line.trim().is_empty() {
                continue;
            }
            return Err(Error::Setting(format!("{line:?}: expected key=value")));
        }
        let ends = starts.iter().skip(1).map(|(at, _)| *at);
        for ((at, equals), end) in starts.iter().zip(ends.chain([line.len() + 1])) {
            let (name, value) = (&line[*at..*equals], &line[equals + 1..end - 1]);
            let key = Key::named(name).ok_or_else(|| unknown(name))?;
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(Error::Setting(format!("{name} is given twice")));
            }
            check(name, value)?;
            pairs.push((key, value.to_owned()));
        }
    }
    Ok(pairs)
}

/// Where a `word=` begins, at the start of the line or behind a space, and
/// where its `=` is.
fn starts(line: &str) -> Vec<(usize, usize)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for word in line.split(' ') {
        let name = word.find('=').filter(|length| {
            *length > 0
                && word[..*length]
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase())
        });
        if let Some(length) = name {
            starts.push((at, at + length));
        }
        at += word.len() + 1;
    }
    starts
}

fn check(name: &str, value: &str) -> Result<(), Error> {
    if value.len() > VALUE_MAX || value.contains(char::is_control) {
        return Err(Error::Setting(format!(
            "{name}: at most {VALUE_MAX} bytes, and no control characters"
        )));
    }
    Ok(())
}

fn unknown(name: &str) -> Error {
    let known: Vec<_> = Key::ALL.iter().map(|(_, name)| *name).collect();
    Error::Setting(format!(
        "{name:?} is no setting; there are {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Key, String)> {
        pairs(text).unwrap()
    }

    #[test]
    fn pairs_stand_on_lines_or_beside_each_other() {
        let both = [
            (Key::Cwd, "/home/ada/my files".to_owned()),
            (Key::Remote, "devbox".to_owned()),
        ];
        assert_eq!(read("cwd=/home/ada/my files\nremote=devbox\n"), both);
        assert_eq!(read("cwd=/home/ada/my files remote=devbox"), both);
        assert_eq!(read(""), []);
        // Kept as it is: this is another directory than `a`.
        assert_eq!(read("cwd=/a \n"), [(Key::Cwd, "/a ".to_owned())]);
        assert_eq!(read("model=a=b"), [(Key::Model, "a=b".to_owned())]);
        assert_eq!(read("model="), [(Key::Model, String::new())]);
    }

    #[test]
    fn what_is_misspelt_or_twice_is_an_error() {
        for (text, says) in [
            ("modle=x", "modle"),
            ("cwd=/x modle=y", "modle"),
            ("cwd", "key=value"),
            ("cwd=/a\ncwd=/b", "twice"),
            ("cwd=/a\tb", "control"),
            ("yolo", "key=value"),
            (" cwd=/a", "key=value"),
            ("\u{e9}=1", "key=value"),
        ] {
            let error = pairs(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        assert!(Settings::default().set(Key::Yolo, "maybe".into()).is_err());
    }
}
