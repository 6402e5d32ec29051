//! For attempts on a host where the suite itself does not run: what it would
//! try, and the servers that it would have there.

use std::io::Result;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

use ollie_tests::attempts::ROWS;

/// Prints all attempts.
#[expect(clippy::print_stdout, reason = "it is what was asked for")]
pub(crate) fn attempts() {
    let all = ROWS.iter().map(|row| {
        serde_json::json!({
            "what": row.what,
            "code": row.code,
            "by": format!("{:?}", row.by),
            "need": format!("{:?}", row.need),
            "who": format!("{:?}", row.who),
            "since": row.since,
        })
    });
    println!("{}", serde_json::Value::Array(all.collect()));
}

/// Whether one of these words is understood, and what came of it.
pub(crate) fn run(words: &[&str]) -> Option<Result<()>> {
    match words {
        ["outside", directory, name] => Some(serve(Path::new(directory), name)),
        _ => None,
    }
}

/// `docker.sock`, `log.sock` and an abstract socket, until it is ended.
fn serve(directory: &Path, name: &str) -> Result<()> {
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    let _log = UnixDatagram::bind(directory.join("log.sock"))?;
    let _docker = UnixListener::bind(directory.join("docker.sock"))?;
    for socket in ["log.sock", "docker.sock"] {
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.join(socket), everybody)?;
    }
    loop {
        std::thread::park();
    }
}
