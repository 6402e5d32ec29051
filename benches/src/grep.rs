use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use ninep_rs::ClientConfig;
use ollie_client::{CallEvent, ToolsrvConn};
use ollie_deploy::Plan;
use ollie_protocol::{CallId, ToolCall};

use crate::figures::{Figures, compare};

/// The tree: so many directories with so many files each.
const DIRECTORIES: u32 = 500;
const FILES: u32 = 100;

/// What is looked for. It is in one file of a hundred.
const NEEDLE: &str = "a_needle";

/// `file_grep` in the sandbox, over a warm session, beside `rg` on the host.
pub(crate) async fn run(rounds: u32) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    // What is ollie's own lies beside the project: tools must not have it.
    let project = directory.path().join("project");
    plant(&project.join("tree"))?;
    let dist = std::env::var_os("OLLIE_DIST").map_or_else(|| "target/dist".into(), PathBuf::from);
    std::fs::copy(dist.join("toolsrv"), project.join("toolsrv"))?;
    let plan = Plan {
        bundle: dist.join("ollie-bundle.tar.xz"),
        policy: String::from_utf8(ollie_sandbox::layer("default", &[])?.to_json()?)?,
        cwd: Some(project.as_os_str().to_owned().into()),
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
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    for round in 0..rounds.div_ceil(20) {
        let start = Instant::now();
        call(&conn, round).await?;
        ours.add(start.elapsed());
        let start = Instant::now();
        ripgrep(&project)?;
        theirs.add(start.elapsed());
    }
    compare(
        "file_grep, 50,000 files, sandboxed",
        &ours,
        "`rg` on the host",
        &theirs,
        1.2,
    );
    drop(conn);
    process.ended().await;
    Ok(())
}

/// Source text, as much as it looks like it: 2 KB a file.
fn plant(tree: &Path) -> Result<(), Box<dyn Error>> {
    for number in 0..DIRECTORIES {
        let directory = tree.join(format!("module{number}"));
        std::fs::create_dir_all(&directory)?;
        for file in 0..FILES {
            let mut text = String::new();
            for line in 0..50 {
                writeln!(
                    text,
                    "    let value_{line} = compute(value, {file} + {number});"
                )?;
            }
            if (number + file) % 100 == 0 {
                writeln!(text, "    return {NEEDLE};")?;
            }
            std::fs::write(directory.join(format!("file{file}.rs")), text)?;
        }
    }
    Ok(())
}

async fn call(conn: &ToolsrvConn, round: u32) -> Result<(), Box<dyn Error>> {
    let request = serde_json::json!({"pattern": NEEDLE, "path": "tree", "limit": 1000});
    let code = format!("exec ./toolsrv builtin file_grep <<'end'\n{request}\nend\n");
    let mut call = ToolCall::new(CallId::new(format!("grep-{round}"))?, "shell");
    call.args.insert("code".to_owned(), code.into());
    let mut running = conn.call(&call)?;
    while let Some(event) = running.next().await? {
        if let CallEvent::Result(result) = event {
            assert!(result.ok, "{result:?}");
        }
    }
    Ok(())
}

fn ripgrep(directory: &Path) -> Result<(), Box<dyn Error>> {
    let output = std::process::Command::new("rg")
        .args(["--no-config", "--line-number", NEEDLE, "tree"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("rg, which is compared with, cannot be started: {error}"))?;
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, 500, "rg finds what was planted");
    Ok(())
}
