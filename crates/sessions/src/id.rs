use std::fmt;

use ollie_protocol::{Nonce, auth};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest id, in bytes.
const LONGEST: usize = 64;

/// What a session is called: its directory in the tree and on the disk.
///
/// 1 to 64 of `A-Z a-z 0-9 . _ -`, neither a dot nor a dash first, and not the
/// name of a file that stands beside sessions in the tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`Error::Name`] says what a name may be.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let problem = if name.is_empty() || name.len() > LONGEST {
            Some("1 to 64 characters")
        } else if name.starts_with(['.', '-']) {
            Some("neither a dot nor a dash first")
        } else if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        {
            Some("only letters, digits, dot, dash and underscore")
        } else if ["new", "idx"].contains(&name.as_str()) {
            Some("not the name of a file beside it")
        } else {
            None
        };
        match problem {
            Some(rule) => Err(Error::Name { name, rule }),
            None => Ok(Self(name)),
        }
    }

    /// A name that no other session has: ten hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Random`]
    pub(crate) fn fresh() -> Result<Self, Error> {
        let nonce = Nonce::random().map_err(|error| Error::Random(error.to_string()))?;
        Ok(Self(auth::to_hex(&nonce.as_bytes()[..5])))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_leave_its_directory_is_no_name() {
        for name in ["a", "fix-1.2", "A_b", &"x".repeat(64)] {
            assert_eq!(SessionId::new(name).unwrap().as_str(), name);
        }
        for name in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a/b",
            "a\0",
            "a b",
            "a\n",
            "\u{e9}",
            "new",
            "idx",
            &"x".repeat(65),
        ] {
            assert!(SessionId::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn fresh_names_differ() {
        let [one, two] = [0; 2].map(|_| SessionId::fresh().unwrap());
        assert_ne!(one, two);
        assert!(SessionId::new(one.as_str()).is_ok());
    }
}
