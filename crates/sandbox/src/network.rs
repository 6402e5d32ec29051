use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What a tool may do on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// Everything the host's own processes may do, except raw and packet
    /// sockets and exotic address families.
    Unrestricted,
    /// No internet sockets at all. Unix sockets inside the call still work.
    None,
    /// TCP to and on the listed ports; no UDP, no other protocol.
    Tcp {
        /// Ports that may be connected to, on any address.
        connect: BTreeSet<u16>,
        /// Ports that may be bound.
        bind: BTreeSet<u16>,
    },
}

impl Network {
    /// Whether anything is refused that the host would allow.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        !matches!(self, Self::Unrestricted)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unrestricted => f.write_str("unrestricted"),
            Self::None => f.write_str("none"),
            Self::Tcp { connect, bind } => {
                write!(f, "connect_tcp {connect:?}, bind_tcp {bind:?}, no UDP")
            }
        }
    }
}
