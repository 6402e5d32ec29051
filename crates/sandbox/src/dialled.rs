//! The network in the messages of programs.
//!
//! The shapes are those of netcat, ssh, curl, wget, bash, Node, Go, Java,
//! Python and the resolver of libc.

use crate::Operation;

/// What a program says of the network.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dialled {
    /// A TCP address, `host:port`, to connect to or to listen on.
    Address(Operation, String),
    /// A name was not resolved. That takes UDP.
    Name,
    /// Something of the network was refused, and the message does not say what.
    Something,
}

const REFUSALS: [&str; 4] = [
    "permission denied",
    "operation not permitted",
    "eacces",
    "eperm",
];

/// How resolvers fail that reach nobody.
const UNRESOLVED: [&str; 8] = [
    "could not resolve",
    "couldn't resolve",
    "name resolution",
    "name or service not known",
    "unable to resolve host",
    "eai_again",
    "unknownhostexception",
    "no address associated with",
];

/// Words around a socket.
const NETWORK: [&str; 9] = [
    "connect",
    "dial",
    "listen",
    "bind",
    "socket",
    "tcp",
    "urlopen",
    "java.net.",
    "http",
];

/// How many lines above a refusal tell what it is about.
const ABOVE: usize = 12;

/// Reads line `at`; `None` where it is not about the network.
pub(crate) fn read_at(lines: &[&str], at: usize) -> Option<Dialled> {
    let line = lines.get(at)?;
    let lower = line.to_ascii_lowercase();
    if UNRESOLVED.iter().any(|words| lower.contains(words)) {
        return Some(Dialled::Name);
    }
    let refused = REFUSALS.iter().any(|words| lower.contains(words));
    // curl does not tell why it could not connect.
    if !refused && !lower.contains("failed to connect to ") {
        return None;
    }
    let told = |line: &str| NETWORK.iter().any(|word| line.contains(word));
    let local = |line: &str| line.contains("socketpair") || line.contains("unix");
    if told(&lower) && !local(&lower) {
        if let Some(address) = address(line) {
            let listens = lower.contains("listen") || lower.contains("bind");
            let operation = match listens {
                true => Operation::Bind,
                false => Operation::Connect,
            };
            return Some(Dialled::Address(operation, address));
        }
        // A path says more than a word that may be part of it.
        if !lower.contains('/') || lower.contains("java.net.") {
            return Some(Dialled::Something);
        }
    }
    if lower.contains('/') {
        return None;
    }
    let above = lines.get(at.saturating_sub(ABOVE)..at).unwrap_or_default();
    let calls = ["socket.", "socket(", ".connect(", ".bind(", "java.net."];
    let about = |line: &&str| calls.iter().any(|call| line.contains(call)) && !local(line);
    above.iter().any(about).then_some(Dialled::Something)
}

/// The first address of a line: `host:port`, `host port 80`, `/dev/tcp/host/80`.
fn address(line: &str) -> Option<String> {
    if let Some((_, rest)) = line.split_once("/dev/tcp/") {
        let mut parts = rest.split(['/', ':', ' ']);
        let (host, port) = (parts.next()?, parts.next()?);
        return port
            .parse::<u16>()
            .ok()
            .map(|port| format!("{host}:{port}"));
    }
    let trimmed = |c: char| ".,;:()'\"".contains(c);
    let words: Vec<_> = line.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let end = word
            .trim_end_matches(trimmed)
            .trim_start_matches(['(', '\'', '"']);
        if let Some((host, port)) = end.rsplit_once(':')
            && port.parse::<u16>().is_ok()
            && !host.contains('/')
            && (host.is_empty() || host.contains(['.', ':']) || host == "localhost")
        {
            return Some(end.to_owned());
        }
        let port = words.get(at + 1).map(|port| port.trim_end_matches(trimmed));
        if *word == "port"
            && let Some(port) = port.and_then(|port| port.parse::<u16>().ok())
        {
            let host = at.checked_sub(1).and_then(|before| words.get(before));
            let host = host.map_or("", |host| host.trim_matches(trimmed));
            return Some(format!("{host}:{port}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differently_shaped_programs_are_understood() {
        let to = |address: &str| Some(Dialled::Address(Operation::Connect, address.to_owned()));
        let on = |address: &str| Some(Dialled::Address(Operation::Bind, address.to_owned()));
        for (line, expected) in [
            (
                "nc: connect to 127.0.0.1 port 80 (tcp) failed: Permission denied",
                to("127.0.0.1:80"),
            ),
            (
                "ssh: connect to host box.example.org port 22: Permission denied",
                to("box.example.org:22"),
            ),
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 8080 after 0 ms: Could not connect to server",
                to("127.0.0.1:8080"),
            ),
            (
                "Connecting to 127.0.0.1:80... failed: Permission denied.",
                to("127.0.0.1:80"),
            ),
            (
                "bash: line 1: /dev/tcp/127.0.0.1/80: Permission denied",
                to("127.0.0.1:80"),
            ),
            ("Error: connect EACCES 127.0.0.1:80", to("127.0.0.1:80")),
            (
                "Error: listen EACCES: permission denied 0.0.0.0:8080",
                on("0.0.0.0:8080"),
            ),
            (
                "dial tcp [::1]:443: connect: permission denied",
                to("[::1]:443"),
            ),
            ("listen tcp :80: bind: permission denied", on(":80")),
            (
                "curl: (6) Could not resolve host: example.org",
                Some(Dialled::Name),
            ),
            (
                "socket.gaierror: [Errno -3] Temporary failure in name resolution",
                Some(Dialled::Name),
            ),
            (
                "Error: getaddrinfo EAI_AGAIN example.org",
                Some(Dialled::Name),
            ),
            (
                "java.net.SocketException: Permission denied",
                Some(Dialled::Something),
            ),
            (
                "urllib.error.URLError: <urlopen error [Errno 13] Permission denied>",
                Some(Dialled::Something),
            ),
            ("cat: /h/a: Permission denied", None),
            ("/h/t.py:12: Permission denied", None),
            ("open /h/socket.md: permission denied", None),
            ("connection refused", None),
        ] {
            assert_eq!(read_at(&[line], 0), expected, "{line}");
        }
        let frames = [
            "  File \"/h/t.py\", line 1, in <module>",
            "    socket.socket()",
            "PermissionError: [Errno 13] Permission denied",
        ];
        assert_eq!(read_at(&frames, 2), Some(Dialled::Something));
        let frames = ["    a, b = socket.socketpair()", frames[2]];
        assert_eq!(read_at(&frames, 1), None);
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "\\PC{0,80}") {
            let _ = read_at(&[&format!("{line} connect: permission denied")], 0);
            let _ = read_at(&[&format!("connect permission denied {line} port {line}")], 0);
        }
    }
}
