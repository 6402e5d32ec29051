use std::time::SystemTime;

use ollie_agent::Variables;
use serde::{Deserialize, Serialize};

use crate::Settings;

/// The version of the stored form.
pub(crate) const VERSION: u32 = 1;

/// What is kept of a session beside its history and its logs. No key of a back
/// end is among it: keys are looked up when they are needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// [`VERSION`]
    pub(crate) version: u32,
    /// When it was made, milliseconds since 1970.
    #[serde(default)]
    pub(crate) created: u64,
    /// What it is set to.
    #[serde(default)]
    pub(crate) settings: Settings,
    /// What its prompt is told of the tool host, once that was met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prime: Option<Variables>,
}

impl Record {
    pub(crate) fn new(settings: Settings) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            version: VERSION,
            created: now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0)),
            settings,
            prime: None,
        }
    }
}
