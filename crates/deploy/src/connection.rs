/// Whose ssh connection a session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Connection {
    /// One that ssh made for it, or that of a living master of the user's
    /// where nobody looked for one.
    Own,
    /// That of a living master of the user's.
    Users,
    /// One that was made for it, and that later sessions share.
    First,
    /// One that other sessions of this process have as well.
    Shared,
    /// One that another process of this user keeps.
    Daemon,
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Users => "user",
            Self::First => "first",
            Self::Shared => "shared",
            Self::Daemon => "daemon",
        })
    }
}
