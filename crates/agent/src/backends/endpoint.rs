use std::path::PathBuf;
use std::time::Duration;

use super::ApiKey;

/// Where a provider is, and how long it may be silent.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its base, to which the paths of the API are appended: `http` or
    /// `https`, without a user name or password.
    pub url: String,
    /// Its key. Without one, none is sent.
    pub key: Option<ApiKey>,
    /// Time for a connection, TLS included. Default: 10 s.
    pub connect_timeout: Duration,
    /// The longest silence: before the answer begins, and between two pieces
    /// of it. Signs of life count as pieces. A model on the own machine reads
    /// a long prompt for minutes before its first word. Default: 5 min.
    pub idle_timeout: Duration,
    /// An HTTP proxy. Variables such as `HTTPS_PROXY` are not looked at.
    pub proxy: Option<String>,
    /// PEM file with certificates of authorities to trust beside those of the
    /// system.
    pub ca_file: Option<PathBuf>,
}

impl Endpoint {
    /// Default of [`connect_timeout`](Self::connect_timeout).
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    /// Default of [`idle_timeout`](Self::idle_timeout).
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

    /// An endpoint with the defaults.
    #[must_use]
    pub fn new(url: impl Into<String>, key: Option<ApiKey>) -> Self {
        Self {
            url: url.into(),
            key,
            connect_timeout: Self::CONNECT_TIMEOUT,
            idle_timeout: Self::IDLE_TIMEOUT,
            proxy: None,
            ca_file: None,
        }
    }
}
