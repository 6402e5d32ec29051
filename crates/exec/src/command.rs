use ollie_protocol::Octets;
use serde::{Deserialize, Serialize};

/// What to start. The server has checked it; the child only obeys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments, none with a NUL byte. A program without a slash
    /// is looked up along the PATH of [`env`](Self::env), **inside** the
    /// sandbox: a planted program is confined like any other.
    pub argv: Vec<Octets>,
    /// The whole environment as `NAME=value`; nothing else is passed.
    pub env: Vec<Octets>,
    /// Absolute working directory.
    pub cwd: Octets,
    /// Whether it is entered by a descriptor, which goes with the command to
    /// [`crate::Spawner::spawn`], and only as long as [`cwd`](Self::cwd) is
    /// its name; else the start fails with ESTALE.
    pub pinned: bool,
    /// Which of the policies given to the companion applies
    /// ([`crate::Spawner::add_policy`]).
    pub policy: u32,
    /// Milliseconds between SIGTERM and SIGKILL when the tree outlives the
    /// command, or its server.
    pub grace_ms: u64,
}

impl Command {
    /// Each path that execve(2) is tried on, in order, as execvp(3) does.
    pub(crate) fn candidates(&self) -> Vec<Vec<u8>> {
        let Some(program) = self.argv.first().map(Octets::as_bytes) else {
            return Vec::new();
        };
        if program.contains(&b'/') {
            return vec![program.to_vec()];
        }
        let path = self
            .env
            .iter()
            .find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="))
            .unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
        path.split(|&byte| byte == b':')
            .map(|directory| match directory {
                // An empty element means the current directory (environ(7)).
                b"" => [b"./", program].concat(),
                _ => [directory, b"/", program].concat(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    fn candidates(program: &str, env: &[&str]) -> Vec<String> {
        let command = Command {
            argv: vec![program.into()],
            env: env.iter().map(|&e| e.into()).collect(),
            cwd: "/".into(),
            pinned: false,
            policy: 0,
            grace_ms: 0,
        };
        let text = |path| String::from_utf8(path).unwrap();
        command.candidates().into_iter().map(text).collect()
    }

    #[test]
    fn a_program_is_looked_up_as_execvp_does() {
        assert_eq!(candidates("a", &["PATH=/x:/y"]), ["/x/a", "/y/a"]);
        assert_eq!(candidates("a", &["PATH=:/y"]), ["./a", "/y/a"]);
        assert_eq!(candidates("./a", &["PATH=/x"]), ["./a"]);
        assert_eq!(candidates("a", &["HOME=/"])[1], "/usr/bin/a");
    }
}
