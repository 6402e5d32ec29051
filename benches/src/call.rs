use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use ninep_rs::ClientConfig;
use ollie_client::{CallEvent, ToolsrvConn};
use ollie_deploy::Plan;
use ollie_protocol::{CallId, ToolCall};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::figures::{Figures, compare};

/// Bytes of a message of the reference's round trip.
const MESSAGE: usize = 120;

/// A tool call on a warm local session, and the start of a session.
pub(crate) async fn run(rounds: u32) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let dist = std::env::var_os("OLLIE_DIST").map_or_else(|| "target/dist".into(), PathBuf::from);
    let plan = Plan {
        bundle: dist.join("ollie-bundle.tar.xz"),
        policy: String::from_utf8(ollie_sandbox::layer("default", &[])?.to_json()?)?,
        cwd: Some(directory.path().as_os_str().to_owned().into()),
        yolo: false,
        project: false,
        session: "bench".to_owned(),
        lease: None,
        withheld: Vec::new(),
    };
    let installed = ollie_deploy::install(&plan.bundle, &directory.path().join("cache"))?;

    let (mut process, channel) = ollie_deploy::spawn_local(&installed, &plan).await?;
    let conn = process
        .connect(channel, "bench", ClientConfig::default())
        .await?;
    let mut echo = Echo::new()?;
    let (mut calls, mut shells, mut trips, mut floor) = Default::default();
    for round in 0..rounds {
        let start = Instant::now();
        call(&conn, round).await?;
        add(&mut calls, start);
        let start = Instant::now();
        shell()?;
        add(&mut shells, start);
        let start = Instant::now();
        echo.round_trip().await?;
        add(&mut trips, start);
        let start = Instant::now();
        shell()?;
        echo.round_trip().await?;
        add(&mut floor, start);
    }
    compare(
        "tool call `sh -c true`, warm local session",
        &calls,
        "`sh -c true` and a socket round trip",
        &floor,
        1.5,
    );
    drop(conn);
    process.ended().await;

    let mut starts = Figures::default();
    for _ in 0..rounds.div_ceil(10) {
        let start = Instant::now();
        let (process, channel) = ollie_deploy::spawn_local(&installed, &plan).await?;
        starts.add(start.elapsed());
        drop(channel);
        process.ended().await;
    }
    compare(
        "toolsrv from start to ready",
        &starts,
        "`sh -c true`",
        &shells,
        10.0,
    );
    Ok(())
}

fn add(figures: &mut Figures, start: Instant) {
    figures.add(start.elapsed());
}

async fn call(conn: &ToolsrvConn, round: u32) -> Result<(), Box<dyn Error>> {
    let mut call = ToolCall::new(CallId::new(format!("bench-{round}"))?, "shell");
    call.args.insert("code".to_owned(), "true".into());
    let mut running = conn.call(&call)?;
    while let Some(event) = running.next().await? {
        if let CallEvent::Result(result) = event {
            assert!(result.ok, "{result:?}");
        }
    }
    Ok(())
}

fn shell() -> Result<(), Box<dyn Error>> {
    let output = std::process::Command::new("sh")
        .args(["-c", "true"])
        .stdin(Stdio::null())
        .output()?;
    assert!(output.status.success(), "sh fails");
    Ok(())
}

/// A socket whose other end, in a thread with a runtime of its own, sends
/// back what it gets.
struct Echo(UnixStream);

impl Echo {
    fn new() -> Result<Self, Box<dyn Error>> {
        let (near, far) = std::os::unix::net::UnixStream::pair()?;
        near.set_nonblocking(true)?;
        std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let mut far = far;
            let mut message = [0; MESSAGE];
            while far.read_exact(&mut message).is_ok() && far.write_all(&message).is_ok() {}
        });
        Ok(Self(UnixStream::from_std(near)?))
    }

    async fn round_trip(&mut self) -> Result<(), Box<dyn Error>> {
        let mut message = [7; MESSAGE];
        self.0.write_all(&message).await?;
        self.0.read_exact(&mut message).await?;
        Ok(())
    }
}
