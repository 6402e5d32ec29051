use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::ssh::destination;
use crate::{Error, Remote};

/// How long ssh may think about its configuration.
const LIMIT: Duration = Duration::from_secs(10);

/// Who a host is to ssh, whatever name leads there: `user@hostname:port` as
/// `ssh -G` resolves them (ssh(1)). Nothing is connected.
///
/// # Errors
/// [`Error::Start`] if ssh cannot be started; [`Error::Identity`] if it does
/// not tell.
pub async fn identity(remote: &Remote) -> Result<String, Error> {
    let unknown = || Error::Identity {
        target: remote.target.to_string(),
    };
    parse(&resolved(remote).await?).ok_or_else(unknown)
}

/// All that ssh's configuration says about a host.
pub(crate) async fn resolved(remote: &Remote) -> Result<String, Error> {
    let asking = Command::new(&remote.ssh)
        .arg("-G")
        .args(destination(&remote.target))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let unknown = || Error::Identity {
        target: remote.target.to_string(),
    };
    let output = tokio::time::timeout(LIMIT, asking)
        .await
        .map_err(|_| unknown())?
        .map_err(|source| Error::Start {
            program: remote.ssh.clone(),
            source,
        })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(unknown()),
    }
}

fn parse(text: &str) -> Option<String> {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    };
    let (user, hostname, port) = (value("user")?, value("hostname")?, value("port")?);
    Some(format!("{user}@{hostname}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_its_user_name_and_port() {
        let text = "host box\nuser me\nuserknownhostsfile /x\nhostname 10.0.0.7\nport 2222\n";
        assert_eq!(parse(text).as_deref(), Some("me@10.0.0.7:2222"));
        assert_eq!(parse("user me\n"), None);
    }
}
