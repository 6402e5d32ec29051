use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The longest target, in bytes: a host name has 253 (RFC 1035), a user name
/// 32 (useradd(8)), and an address may have a zone.
const LONGEST: usize = 512;

/// Where to go: `[user@]host[:port]`, where `host` is a name, an alias of
/// ssh_config(5), an IPv4 address, an IPv6 address, or an IPv6 address in
/// brackets (which it needs in front of a port).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    text: String,
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl Target {
    /// The user, if one was named. Default: what ssh_config(5) says.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if one was named. Default: what ssh_config(5) says.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |problem| Error::Target {
            target: text.to_owned(),
            problem,
        };
        if text.len() > LONGEST {
            return Err(refuse("it is too long"));
        }
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, text),
        };
        let (host, port) = split_port(rest).map_err(refuse)?;
        for part in user.into_iter().chain([host]) {
            check(part).map_err(refuse)?;
        }
        let port = port
            .map(|port| match port.parse() {
                Ok(0) | Err(_) => Err(refuse("its port is no number from 1 to 65535")),
                Ok(number) => Ok(number),
            })
            .transpose()?;
        Ok(Self {
            text: text.to_owned(),
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }
}

fn split_port(rest: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(bracketed) = rest.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']').ok_or("a bracket is not closed")?;
        if !host.contains(':') {
            return Err("only an IPv6 address stands in brackets");
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("after the bracket comes nothing, or a colon and the port"),
        };
    }
    match rest.split_once(':') {
        // More than one colon: an IPv6 address, which has no room for a port.
        Some((_, after)) if after.contains(':') => Ok((rest, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((rest, None)),
    }
}

/// ssh puts both into ProxyCommand and Match exec, where a shell reads them;
/// and what begins with a dash would be an option (CVE-2017-1000117,
/// CVE-2023-51385).
fn check(part: &str) -> Result<(), &'static str> {
    if part.is_empty() {
        return Err("expected [user@]host[:port]");
    }
    if part.starts_with('-') {
        return Err("neither user nor host may begin with a dash");
    }
    let harmless =
        |c: char| !c.is_control() && !c.is_whitespace() && !"'`\"$\\;&<>|(){}*?".contains(c);
    if part.chars().all(harmless) {
        Ok(())
    } else {
        Err("it has a character that a shell would not take as it is")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_taken_apart() {
        for (text, user, host, port) in [
            ("devbox", None, "devbox", None),
            ("me@devbox", Some("me"), "devbox", None),
            ("me@devbox:2222", Some("me"), "devbox", Some(2222)),
            ("a@b@devbox", Some("a@b"), "devbox", None),
            ("[::1]:22", None, "::1", Some(22)),
            ("me@[fe80::1%eth0]", Some("me"), "fe80::1%eth0", None),
            ("2001:db8::7", None, "2001:db8::7", None),
            ("10.0.0.1:65535", None, "10.0.0.1", Some(65535)),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(
                (target.user(), target.host(), target.port()),
                (user, host, port),
                "{text}"
            );
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn what_could_be_an_option_or_a_command_is_refused() {
        let long = "x".repeat(513);
        for text in [
            "",
            "@",
            "me@",
            "@host",
            "-oProxyCommand=x",
            "me@-host",
            "-l@host",
            "host:",
            "host:0",
            "host:65536",
            "host:ssh",
            "[::1",
            "[::1]x",
            "[host]:22",
            "a b",
            "a\nb",
            "a;b",
            "$(x)",
            "a`b`",
            "a'b",
            "a\u{7f}",
            &long,
        ] {
            let parsed = text.parse::<Target>();
            assert!(matches!(parsed, Err(Error::Target { .. })), "{text:?}");
        }
    }
}
