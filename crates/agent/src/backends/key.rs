use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// The key of a model's provider. It prints as `ApiKey(..)`, and its memory is
/// wiped when the last copy goes away. (The copy in the HTTP client's headers
/// is marked as sensitive, which keeps it out of every `Debug`, but that one is
/// not wiped.)
#[derive(Clone)]
pub struct ApiKey(Arc<Zeroizing<String>>);

/// Why a text cannot be a key. It does not quote the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing but white space.
    #[error("the key is empty")]
    Empty,
    /// A header cannot carry it (RFC 9110, section 5.5).
    #[error(
        "the key has a character that is not printable ASCII: is it the right variable or file?"
    )]
    NotPrintable,
    /// More than [`ApiKey::SIZE_MAX`] bytes.
    #[error(
        "the key is longer than {} bytes: is it the right file?",
        ApiKey::SIZE_MAX
    )]
    TooLong,
}

impl ApiKey {
    /// Bytes that a key may have.
    pub const SIZE_MAX: usize = 8 * 1024;

    /// Takes a key as a file, a variable or a command gives it: white space
    /// around it, such as the last newline, is not part of it.
    ///
    /// # Errors
    ///
    /// If nothing is left, or something that is no key.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = Zeroizing::new(text.into());
        let key = text.trim();
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > Self::SIZE_MAX {
            return Err(KeyError::TooLong);
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::NotPrintable);
        }
        Ok(Self(Arc::new(Zeroizing::new(key.to_owned()))))
    }

    /// The key itself, for a header and for nothing else.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without this key. Some providers quote the key that they
    /// refuse.
    pub(crate) fn scrub(&self, text: &str) -> String {
        text.replace(self.expose(), "[key]")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_key_is_not_part_of_it() {
        let key = ApiKey::new(" sk-1234\n").expect("a key");
        assert_eq!(key.expose(), "sk-1234");
    }

    #[test]
    fn what_no_header_can_carry_is_refused_and_not_quoted() {
        for (text, error) in [
            ("", KeyError::Empty),
            (" \n", KeyError::Empty),
            ("sk-\u{fc}", KeyError::NotPrintable),
            ("two words", KeyError::NotPrintable),
            ("a\nb", KeyError::NotPrintable),
            (&"k".repeat(ApiKey::SIZE_MAX + 1), KeyError::TooLong),
        ] {
            let refused = ApiKey::new(text).expect_err(text);
            assert_eq!(refused, error);
            assert!(text.trim().is_empty() || !refused.to_string().contains(text));
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = ApiKey::new("sk-verysecret").expect("a key");
        assert_eq!(
            format!("{key:?} {:?}", Some(&key)),
            "ApiKey(..) Some(ApiKey(..))"
        );
        assert_eq!(key.scrub("no: sk-verysecret!"), "no: [key]!");
    }
}
