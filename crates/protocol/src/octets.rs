use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are nearly always text: an argument, a path, a value.
///
/// In JSON a plain string when the bytes are UTF-8, else
/// `{"base64": "..."}`, so that a file name in latin-1 travels unharmed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Octets(Vec<u8>);

impl Octets {
    /// The bytes as they are.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as the operating system's string.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The bytes as text, with what is not UTF-8 replaced by U+FFFD.
    #[must_use]
    pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl std::fmt::Debug for Octets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_string_lossy())
    }
}

impl AsRef<OsStr> for Octets {
    fn as_ref(&self) -> &OsStr {
        self.as_os_str()
    }
}

impl From<Vec<u8>> for Octets {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<OsString> for Octets {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl From<&str> for Octets {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Octets {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Wire<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes { base64: String },
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Wire::Text(text.into()),
            Err(_) => Wire::Bytes {
                base64: STANDARD.encode(&self.0),
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Wire::deserialize(deserializer)? {
            Wire::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            Wire::Bytes { base64 } => STANDARD
                .decode(base64)
                .map(Self)
                .map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Octets;

    #[test]
    fn text_stays_text_and_other_bytes_become_base64() {
        let json = |b: &[u8]| serde_json::to_string(&Octets::from(b.to_vec())).unwrap();
        assert_eq!(json(b"caf\xc3\xa9"), "\"caf\u{e9}\"");
        assert_eq!(json(b"\xff\x00"), r#"{"base64":"/wA="}"#);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>) {
            let there = serde_json::to_string(&Octets::from(bytes.clone())).unwrap();
            let back: Octets = serde_json::from_str(&there).unwrap();
            proptest::prop_assert_eq!(back.as_bytes(), bytes);
        }
    }
}
