//! What the host is told before there is a toolsrv: one command that quotes
//! nothing a login shell would touch, and a script on its standard input.

use ollie_bundle::Manifest;

/// The script without its assignments.
const SCRIPT: &str = include_str!("stage0.sh");

/// What toolsrv is started for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Serve<'a> {
    /// A session that ends with its connection.
    Passing,
    /// One that may be given a lease.
    Lasting,
    /// One that has a lease, and this socket if it still is there.
    Again(&'a str),
}

/// A stage 0 for one start.
#[derive(Debug)]
pub(crate) struct Stage0 {
    /// The command for the login shell.
    pub(crate) command: String,
    /// What is written to its standard input first.
    pub(crate) script: String,
}

impl Stage0 {
    /// `word` begins every line of the answer; `skip` are roots that failed, a line
    /// each.
    ///
    /// The login shell is replaced, unless it is `restricted`: then it may
    /// start a program and not become one (rbash(1)).
    pub(crate) fn new(
        word: &str,
        manifest: &Manifest,
        skip: &str,
        serve: &Serve<'_>,
        restricted: bool,
    ) -> Self {
        let mut wanted = String::new();
        for entry in manifest.files() {
            let arch = entry
                .path()
                .strip_prefix("toolsrv/linux-")
                .and_then(|rest| rest.strip_suffix("/toolsrv"));
            if let Some(arch) = arch {
                wanted.push_str(&format!("{arch} {} {} ", entry.sha256(), entry.size()));
            }
        }
        let (how, socket) = match serve {
            Serve::Passing => ("serve", String::new()),
            Serve::Lasting => ("serve --lasting", String::new()),
            Serve::Again(socket) => ("serve --lasting", socket.to_string()),
        };
        let mut script = format!(
            "on={} ow={} os={} og={} ol={}\n",
            quoted(word),
            quoted(wanted.trim_end()),
            quoted(skip),
            quoted(how),
            quoted(&socket)
        );
        for line in SCRIPT.lines().map(str::trim_start) {
            if !line.starts_with('#') {
                // The host reads it byte by byte.
                script.push_str(&line.replace("ollie_", "o"));
                script.push('\n');
            }
        }
        // csh, fish, nushell and all the others agree on a word in single
        // quotes. Some programs take more than they were asked for, so nothing
        // follows the script before it has answered. `dd` takes two system
        // calls for each byte, and is only for where there is no `head`.
        let size = script.len();
        let exec = if restricted { "" } else { "exec " };
        let command =
            format!("{exec}sh -c 'eval \"$(head -c {size} 2>/dev/null || dd bs=1 count={size})\"'");
        Self { command, script }
    }
}

/// A word as sh(1) reads it back, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_to_a_shell() {
        let hostile = "a'b\"$(exit 9)`exit 9`\\ \n'";
        let script = format!("printf %s {}", quoted(hostile));
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), hostile);
    }
}
