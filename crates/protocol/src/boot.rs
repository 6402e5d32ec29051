use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Error, Key, Nonce, Octets, ProjectFile, auth, limits};

/// What the spawner hands to a new toolsrv on its standard input, before any
/// 9P: `size[4] json[size]`, the size little-endian and without itself.
///
/// It travels on standard input because argv and environment can be read by
/// every process of the user, and a file would have to be deleted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// [`limits::PROTOCOL`].
    pub protocol: u32,
    /// A word chosen for this start; the ready line begins with it, so that
    /// whatever else a host prints is not mistaken for it.
    pub mark: String,
    /// The session's secret: the key of the first connection.
    #[serde(serialize_with = "key_to_hex", deserialize_with = "key_from_hex")]
    pub secret: Key,
    /// The server's nonce for the first handshake on this stream. With it the
    /// client can send its handshake together with this record, a round trip
    /// earlier than the ready line could tell a nonce. Nothing can be played
    /// again for that: the key of this handshake is the secret of this very
    /// record, fresh for each start and good for one connection. Default: the
    /// server makes one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_nonce_to_hex",
        deserialize_with = "some_nonce_from_hex"
    )]
    pub nonce: Option<Nonce>,
    /// The session's name, the uname of its connections.
    pub session: String,
    /// Working directory of the session. Default: where toolsrv was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Octets>,
    /// The policy layers, as the crate `sandbox` wrote them.
    pub policy: Box<RawValue>,
    /// Whether the person chose to run tools without enforcement.
    #[serde(default)]
    pub yolo: bool,
    /// Whether the project's own policy file is read. If there is one, its
    /// bytes follow the ready line, and calls wait until the file `project`
    /// was written. Default: it is not, and the results say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub project: bool,
}

impl Boot {
    /// The record with its length in front.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is longer than [`limits::BOOT_MAX`].
    pub fn to_frame(&self) -> Result<zeroize::Zeroizing<Vec<u8>>, Error> {
        let mut frame = zeroize::Zeroizing::new(vec![0; 4]);
        serde_json::to_writer(&mut *frame, self).map_err(|source| Error::Malformed {
            record: "boot record",
            source,
        })?;
        let size = frame.len() - 4;
        match u32::try_from(size) {
            Ok(prefix) if size <= limits::BOOT_MAX => {
                frame[..4].copy_from_slice(&prefix.to_le_bytes());
                Ok(frame)
            }
            _ => Err(Error::Invalid {
                record: "boot record",
                field: "policy",
                problem: format!("{size} bytes in all, at most {}", limits::BOOT_MAX),
            }),
        }
    }

    /// Reads the JSON behind the length.
    ///
    /// # Errors
    /// [`Error`] names the field. A newer protocol is told apart from
    /// nonsense.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let boot: Self = serde_json::from_slice(json).map_err(|source| Error::Malformed {
            record: "boot record",
            source,
        })?;
        let invalid = |field, problem: String| {
            Err(Error::Invalid {
                record: "boot record",
                field,
                problem,
            })
        };
        if boot.protocol != limits::PROTOCOL {
            return invalid(
                "protocol",
                format!(
                    "{} was asked for, this toolsrv speaks {}",
                    boot.protocol,
                    limits::PROTOCOL
                ),
            );
        }
        for (field, name) in [("mark", &boot.mark), ("session", &boot.session)] {
            if !limits::is_name(name) {
                return invalid(field, "1 to 64 bytes of [A-Za-z0-9_.-]".into());
            }
        }
        Ok(boot)
    }
}

/// The first line toolsrv prints: the boot record's mark, a space, this as
/// JSON, a newline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ready {
    /// 9P follows on the same stream, behind the bytes of `project`.
    Ready {
        /// [`limits::PROTOCOL`] of toolsrv.
        protocol: u32,
        /// The server's nonce for the first handshake on this stream, valid
        /// once: with it the client can send its whole handshake at once.
        #[serde(serialize_with = "nonce_to_hex", deserialize_with = "nonce_from_hex")]
        nonce: Nonce,
        /// Process id of the 9P server.
        pid: u32,
        /// The Unix socket for further connections of this session.
        socket: Octets,
        /// The project's policy file, if it was to be read and is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<ProjectFile>,
    },
    /// toolsrv ends; nothing was started.
    Refused {
        /// For programs: what stands in the way.
        kind: Obstacle,
        /// For people: what is wrong and what to do.
        reason: String,
    },
}

/// The one line that `toolsrv attach` prints: the mark it was given, a space,
/// this as JSON, a newline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Attach {
    /// What follows goes to the session and comes from it. No nonce is known:
    /// the handshake is that of the socket.
    Attached {
        /// [`limits::PROTOCOL`] of the program that attaches.
        protocol: u32,
    },
    /// There is no such session any more, or it cannot be reached.
    Refused {
        /// What is wrong.
        reason: String,
    },
}

/// What kept toolsrv from serving a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    /// The working directory of the boot record is missing or closed to us.
    WorkingDirectory,
    /// The policy cannot be understood, or not on this host.
    Policy,
    /// Anything else.
    Other,
}

fn key_to_hex<S: Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&zeroize::Zeroizing::new(auth::to_hex(key.as_bytes())))
}

fn key_from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
    bytes_from_hex(deserializer).map(Key::from_bytes)
}

fn nonce_to_hex<S: Serializer>(nonce: &Nonce, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&auth::to_hex(nonce.as_bytes()))
}

fn nonce_from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nonce, D::Error> {
    bytes_from_hex(deserializer).map(Nonce::from_bytes)
}

// serde gives a reference to the field.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn some_nonce_to_hex<S: Serializer>(
    nonce: &Option<Nonce>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match nonce {
        Some(nonce) => nonce_to_hex(nonce, serializer),
        None => serializer.serialize_none(),
    }
}

fn some_nonce_from_hex<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Nonce>, D::Error> {
    nonce_from_hex(d).map(Some)
}

fn bytes_from_hex<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; auth::LEN], D::Error> {
    let text = zeroize::Zeroizing::new(String::deserialize(d)?);
    auth::from_hex(&text).ok_or_else(|| {
        // The text itself is a secret and stays out of the message.
        serde::de::Error::custom("expected 64 hexadecimal digits")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot() -> Boot {
        Boot {
            protocol: limits::PROTOCOL,
            mark: "m1".into(),
            secret: Key::from_bytes([7; 32]),
            nonce: Some(Nonce::from_bytes([8; 32])),
            session: "s1".into(),
            cwd: None,
            policy: RawValue::from_string("{}".into()).unwrap(),
            yolo: false,
            project: false,
        }
    }

    #[test]
    fn a_boot_record_comes_back() {
        let frame = boot().to_frame().unwrap();
        let size = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        assert_eq!(size, frame.len() - 4);
        let back = Boot::parse(&frame[4..]).unwrap();
        assert_eq!(back.secret.as_bytes(), &[7; 32]);
        assert_eq!(back.nonce, Some(Nonce::from_bytes([8; 32])));
        assert_eq!(back.policy.get(), "{}");
    }

    #[test]
    fn another_protocol_is_named() {
        let record = Boot {
            protocol: 99,
            ..boot()
        };
        let error = Boot::parse(&record.to_frame().unwrap()[4..]).unwrap_err();
        assert!(error.to_string().contains("99"), "{error}");
    }

    #[test]
    fn a_malformed_secret_is_not_repeated_in_the_error() {
        let json = br#"{"protocol":1,"mark":"m","secret":"hunter2","session":"s","policy":{}}"#;
        let error = Boot::parse(json).unwrap_err();
        let whole = format!("{error:?}");
        assert!(!whole.contains("hunter2"), "{whole}");
    }
}
