use crate::{Access, Layer, Limits, Network, Origin, Rule, Sourced};

/// One layer of a policy, each rule with its origin.
///
/// Made by `parse` from YAML, or piece by piece from options of a session. As
/// JSON a project's travels to the host where its file lies.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Grants on the file system.
    pub filesystem: Vec<Rule>,
    /// The network, where this layer says something about it.
    pub network: Option<Sourced<Network>>,
    /// Pathname Unix sockets a tool may connect to.
    pub unix_sockets: Vec<Sourced<String>>,
    /// Names of the environment that pass, a trailing `*` being a prefix.
    pub env: Vec<Sourced<String>>,
    /// Ceilings.
    pub limits: Limits,
    /// Whether single rights that the kernel lacks may be done without.
    pub best_effort: Option<Sourced<bool>>,
    /// What this layer takes away, whoever granted it.
    pub drop: Dropped,
    /// What the person should know about this layer, for example that a key
    /// of an earlier version has no effect any more.
    pub notes: Vec<String>,
}

/// What a layer takes away. It holds against earlier and later layers alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// Grants on these paths and below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filesystem: Vec<Sourced<String>>,
    /// Sockets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unix_sockets: Vec<Sourced<String>>,
    /// Names of the environment; a trailing `*` is a prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Sourced<String>>,
}

impl Document {
    /// Adds one grant that an option of the session asks for, `--rw PATH` for
    /// example; `option` is what `policy show` names as its origin.
    #[must_use]
    pub fn grant(mut self, access: Access, path: impl Into<String>, option: &str) -> Self {
        self.filesystem.push(Rule {
            access,
            path: path.into(),
            origin: Origin {
                layer: Layer::Session,
                file: Some(option.to_owned()),
                line: None,
            },
            made_for: None,
        });
        self
    }

    /// How many rules it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filesystem.len()
            + self.unix_sockets.len()
            + self.env.len()
            + self.drop.filesystem.len()
            + self.drop.unix_sockets.len()
            + self.drop.env.len()
    }

    /// Whether it says nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
