//! A 9P client by somebody else, pyroute2's, against the engine. It
//! cannot authenticate, so it speaks to a server that asks for nothing; the
//! peer of toolsrv itself is the client in docs/protocol.md.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ninep_rs::{AuthFile, Directory, Node, Refusal, ServerConfig, Service, Text, serve};
use ollie_tests::gap;

/// The release that was tried.
const PYROUTE2: &str = "pyroute2==0.9.7";

/// What the client does. It has no call for Topen, so that one is made of its
/// own message; a walk, a read and an error are its own.
const SCRIPT: &str = r#"
import asyncio, sys
from pyroute2.plan9 import msg_tclunk, msg_topen, msg_tstat
from pyroute2.plan9.client import Plan9ClientSocket

async def main():
    client = Plan9ClientSocket(address=('127.0.0.1', int(sys.argv[1])))
    await client.start_session()
    fid = await client.fid('drawer/poem')
    opening = msg_topen()
    opening['fid'], opening['mode'] = fid, 0
    await client.request(opening)
    text = bytes((await client.read(fid))['data'])
    rest = bytes((await client.read(fid, offset=3, count=4))['data'])
    asking = msg_tstat()
    asking['fid'] = fid
    stat = (await client.request(asking))['stat']
    print(text.decode(), rest.decode(), stat['name'], stat['length'], sep='|')
    closing = msg_tclunk()
    closing['fid'] = fid
    await client.request(closing)

asyncio.run(main())
"#;

struct Library;

impl Service for Library {
    fn attach(
        &self,
        _uname: &str,
        _aname: &str,
        _auth: Option<&dyn AuthFile>,
    ) -> Result<Arc<dyn Node>, Refusal> {
        let poem = Text::new("poem", 2, || "so much depends".into());
        let drawer = Directory::new("drawer", 1, vec![Arc::new(poem)]);
        Ok(Arc::new(Directory::new("/", 0, vec![Arc::new(drawer)])))
    }
}

#[tokio::test]
async fn the_client_of_pyroute2_reads_a_file() {
    let Some(python) = python() else {
        return;
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (reader, writer) = stream.into_split();
        serve(reader, writer, Arc::new(Library), ServerConfig::default()).await
    });
    let client = tokio::task::spawn_blocking(move || {
        Command::new("timeout")
            .arg("60")
            .arg(python)
            .args(["-c", SCRIPT, &port.to_string()])
            .output()
            .unwrap()
    });
    let output = client.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), "so much depends|much|poem|15", "{complained}");
    server.abort();
}

/// A Python with pyroute2, in an environment of its own that is kept for the
/// next run.
fn python() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pyroute2");
    let python = place.join("bin/python");
    let quietly = |command: &mut Command| {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let there = || {
        let import = format!(
            "from importlib.metadata import version as v; assert f'pyroute2=={{v(\"pyroute2\")}}' == '{PYROUTE2}'"
        );
        quietly(
            Command::new(&python)
                .args(["-c", &import])
                .stderr(Stdio::null()),
        )
    };
    let made = there()
        || quietly(Command::new("python3").args(["-m", "venv"]).arg(&place))
            && quietly(Command::new(&python).args(["-m", "pip", "--quiet", "install", PYROUTE2]))
            && there();
    if !made {
        gap(
            "pyroute2's client against the 9P engine",
            "it could not be installed: needs python3, python3-venv and a Python package index",
        );
    }
    made.then_some(python)
}
