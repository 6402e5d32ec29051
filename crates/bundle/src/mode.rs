use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The permissions of a bundled file: it may be run, or it may not.
///
/// What else a mode can say (set-uid, who may write) depends on the machine
/// that packed, and nobody should have to trust it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `0644`.
    Plain,
    /// `0755`.
    Executable,
}

impl Mode {
    /// The permission bits, `0o644` or `0o755`.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Plain => 0o644,
            Self::Executable => 0o755,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Plain => "0644",
            Self::Executable => "0755",
        }
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        [Self::Plain, Self::Executable]
            .into_iter()
            .find(|mode| mode.text() == text)
            .ok_or_else(|| de::Error::custom("a mode is \"0644\" or \"0755\""))
    }
}
