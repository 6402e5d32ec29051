//! A path in JSON: a string, or base64 where it is not UTF-8, so that a
//! policy survives a project directory named in latin-1.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ollie_protocol::Octets;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    Octets::from(path.as_os_str().as_bytes().to_vec()).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Octets::deserialize(from).map(|o| PathBuf::from(o.as_os_str()))
}
