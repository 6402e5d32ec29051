use std::borrow::Cow;

use crate::ename;

/// Why a service does not do what it was asked: the text of the `Rerror`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    ename: Cow<'static, str>,
    closes: bool,
}

impl Refusal {
    /// A refusal after which the connection lives on. The text should say what to do.
    #[must_use]
    pub fn new(ename: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            ename: ename.into(),
            closes: false,
        }
    }

    /// A refusal that is sent and then closes the connection: a failed proof, for one.
    #[must_use]
    pub fn closing(ename: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            ename: ename.into(),
            closes: true,
        }
    }

    /// [`ename::PERMISSION_DENIED`]
    #[must_use]
    pub fn denied() -> Self {
        Self::new(ename::PERMISSION_DENIED)
    }

    /// [`ename::NOT_FOUND`]
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(ename::NOT_FOUND)
    }

    /// The text.
    #[must_use]
    pub fn ename(&self) -> &str {
        &self.ename
    }

    /// Whether the connection is closed after it.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.closes
    }
}
