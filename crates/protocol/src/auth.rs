//! The proof that both ends know the session's key, without showing it.
//!
//! The client opens an afid with Tauth, then:
//!
//! ```text
//! Tread   nonce[32]             the server's, only if the ready line did not give it
//! Twrite  nonce[32] proof[32]   the client's
//! Tread   proof[32]             the server's
//! ```
//!
//! A proof is HMAC-SHA256 (RFC 2104) with the key over
//!
//! ```text
//! "ollie toolsrv auth 1" 0  role 0  server-nonce[32] client-nonce[32]
//!     uname[s] aname[s]
//! ```
//!
//! where `role` is `client` or `server`, so that neither side can be made to
//! answer its own challenge, and `[s]` is a 9P string: two bytes of length,
//! little-endian, then the bytes. Both nonces are fresh for each connection,
//! so a recorded connection cannot be played again.
//!
//! The key is the session secret on the first connection and a token on all
//! later ones ([`Key::token`]): both sides derive the tokens from the secret,
//! so they never travel, and both forget the secret. [`OWNER`] names the
//! person's side; the agent token cannot prove it, the owner token can.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The aname of the person's side: only it may approve what an agent may not.
pub const OWNER: &str = "@owner";

/// The class of every other client, for [`Key::token`].
pub const AGENT: &str = "agent";

/// Bytes of a nonce, a proof, a key.
pub const LEN: usize = 32;

const AUTH: &[u8] = b"ollie toolsrv auth 1\0";
const TOKEN: &[u8] = b"ollie toolsrv token 1\0";

/// A secret of a session or a token derived from one; zeroed when dropped and
/// never shown by `Debug`.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; LEN]);

/// A number used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce([u8; LEN]);

/// An HMAC over one handshake.
#[derive(Clone, Copy)]
pub struct Proof([u8; LEN]);

/// What both proofs of one handshake cover.
#[derive(Debug, Clone, Copy)]
pub struct Handshake<'a> {
    /// The server's nonce.
    pub server: Nonce,
    /// The client's nonce.
    pub client: Nonce,
    /// The session's name.
    pub uname: &'a str,
    /// The agent's name, or [`OWNER`].
    pub aname: &'a str,
}

impl Key {
    /// A new one from the kernel's random number generator (getrandom(2)).
    ///
    /// # Errors
    /// Only where the kernel has no getrandom, and then nothing can work.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; LEN];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Takes over the bytes of a key received from the other side.
    #[must_use]
    pub fn from_bytes(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be handed to the other side.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// The token of one class of clients, [`AGENT`] or [`OWNER`].
    #[must_use]
    pub fn token(&self, class: &str) -> Self {
        Self(self.mac(&[TOKEN, class.as_bytes()]))
    }

    /// The client's proof.
    #[must_use]
    pub fn client_proof(&self, handshake: &Handshake<'_>) -> Proof {
        self.prove(b"client\0", handshake)
    }

    /// The server's proof.
    #[must_use]
    pub fn server_proof(&self, handshake: &Handshake<'_>) -> Proof {
        self.prove(b"server\0", handshake)
    }

    fn prove(&self, role: &[u8], handshake: &Handshake<'_>) -> Proof {
        let length = |s: &str| u16::try_from(s.len()).unwrap_or(u16::MAX).to_le_bytes();
        Proof(self.mac(&[
            AUTH,
            role,
            &handshake.server.0,
            &handshake.client.0,
            &length(handshake.uname),
            handshake.uname.as_bytes(),
            &length(handshake.aname),
            handshake.aname.as_bytes(),
        ]))
    }

    fn mac(&self, parts: &[&[u8]]) -> [u8; LEN] {
        // HMAC takes a key of any length, so the one error cannot happen.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes a key of any length")
        };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Nonce {
    /// A new one.
    ///
    /// # Errors
    /// As [`Key::random`].
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; LEN];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// A nonce received from the other side.
    #[must_use]
    pub fn from_bytes(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl Proof {
    /// A proof received from the other side.
    #[must_use]
    pub fn from_bytes(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// Whether both are the same, in a time that tells nothing about where
    /// they differ.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof(..)")
    }
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 64 hexadecimal digits as 32 bytes; `None` for anything else.
#[must_use]
pub fn from_hex(text: &str) -> Option<[u8; LEN]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * LEN {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    fn handshake() -> Handshake<'static> {
        Handshake {
            server: Nonce([0x11; LEN]),
            client: Nonce([0x22; LEN]),
            uname: "sess",
            aname: "agent",
        }
    }

    // Computed with Python's hmac module from the description at the top.
    const CLIENT: &str = "b39d3bd6a4f0db98bedec5eee1cf8b9cf4d5daaa19747221d8db202e9ffb3a53";
    const SERVER: &str = "f03ce40097c5bd9243573870a37efa73f62b5cdbbe36e251f21f1a888b02949f";
    const TOKEN: &str = "5fb61674bfe310819dd5d01e3d77856caaea767b8cc8a5e4febaa7b400bbee75";

    #[test]
    fn proofs_and_tokens_are_those_of_another_implementation() {
        let hex = |p: Proof| to_hex(p.as_bytes());
        assert_eq!(hex(key().client_proof(&handshake())), CLIENT);
        assert_eq!(hex(key().server_proof(&handshake())), SERVER);
        assert_eq!(to_hex(key().token("agent").as_bytes()), TOKEN);
    }

    #[test]
    fn every_part_of_the_handshake_is_covered() {
        let base = handshake();
        let variants = [
            Handshake {
                server: Nonce([0x12; LEN]),
                ..base
            },
            Handshake {
                client: Nonce([0x23; LEN]),
                ..base
            },
            Handshake {
                uname: "other",
                ..base
            },
            Handshake {
                aname: OWNER,
                ..base
            },
            // The border between the two names is covered as well.
            Handshake {
                uname: "sessa",
                aname: "gent",
                ..base
            },
        ];
        for other in variants {
            let (a, b) = (key().client_proof(&base), key().client_proof(&other));
            assert!(!a.matches(&b), "{other:?}");
        }
        let client = key().client_proof(&base);
        assert!(!client.matches(&key().server_proof(&base)));
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(format!("{:?}", key()), "Key(..)");
    }

    #[test]
    fn hex_reads_what_it_wrote_and_nothing_else() {
        assert_eq!(from_hex(&to_hex(key().as_bytes())), Some(*key().as_bytes()));
        for bad in ["", "zz", &"0".repeat(63), &"g".repeat(64), &"0".repeat(66)] {
            assert_eq!(from_hex(bad), None, "{bad:?}");
        }
    }
}
