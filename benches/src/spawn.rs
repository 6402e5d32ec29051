use std::error::Error;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ollie_exec::{Command, Companion, Litter, Report, Spawner};
use ollie_sandbox::{Enforcement, HostView};
use tokio::io::AsyncReadExt as _;

use crate::figures::{Figures, beside, compare};

/// Sandboxed spawns beside plain ones, in this very process.
pub(crate) struct Bench {
    companion: Companion,
    directory: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            companion: Companion::fork(&Litter::default())?,
            directory: tempfile::tempdir()?,
        })
    }

    pub(crate) async fn run(self, rounds: u32) -> Result<(), Box<dyn Error>> {
        let spawner = Spawner::new(self.companion)?;
        let confined = spawner
            .add_policy(&enforcement(&self.directory, false)?)
            .await?;
        let unconfined = spawner
            .add_policy(&enforcement(&self.directory, true)?)
            .await?;
        let [mut plain, mut sandboxed, mut yolo, mut bubblewrap]: [Figures; 4] = Default::default();
        let bwrap = Path::new(BWRAP).exists();
        for _ in 0..rounds {
            let start = Instant::now();
            let output = std::process::Command::new("/bin/true")
                .stdin(Stdio::null())
                .output()?;
            plain.add(start.elapsed());
            assert!(output.status.success(), "/bin/true fails");
            for (policy, figures) in [(confined, &mut sandboxed), (unconfined, &mut yolo)] {
                let start = Instant::now();
                one(&spawner, policy).await?;
                figures.add(start.elapsed());
            }
            if bwrap {
                bubblewrap.add(in_bubblewrap()?);
            }
        }
        let of = "plain spawn with pipes (std::process)";
        compare("spawn, everything on", &sandboxed, of, &plain, 1.25);
        compare(
            "the same without a sandbox (--yolo)",
            &yolo,
            of,
            &plain,
            1.25,
        );
        if bwrap {
            beside(
                "bwrap, namespaces and nothing else",
                &bubblewrap,
                of,
                &plain,
            );
        }
        Ok(())
    }
}

/// Another sandbox, where it is installed, for comparison.
const BWRAP: &str = "/usr/bin/bwrap";

/// One spawn in namespaces of its own, with the host's files read-only.
fn in_bubblewrap() -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    let output = std::process::Command::new(BWRAP)
        .args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"])
        .args(["--dev", "/dev", "--proc", "/proc", "/bin/true"])
        .stdin(Stdio::null())
        .output()?;
    assert!(output.status.success(), "bwrap fails");
    Ok(start.elapsed())
}

/// One call from the order to the confirmed end of its tree.
async fn one(spawner: &Spawner, policy: u32) -> Result<(), Box<dyn Error>> {
    let command = Command {
        argv: vec!["/bin/true".into()],
        env: vec!["PATH=/usr/bin:/bin".into()],
        cwd: "/".into(),
        policy,
        grace_ms: 0,
        pinned: false,
    };
    let mut running = spawner.spawn(&command, false, None).await?;
    loop {
        match running.control.report().await {
            Some(Report::Ended { .. }) => break,
            Some(Report::NotStarted { step, errno }) => {
                return Err(format!("not started: {step:?}, errno {errno}").into());
            }
            Some(_) => {}
            None => return Err("the supervisor is gone".into()),
        }
    }
    let mut output = Vec::new();
    running.stdout.read_to_end(&mut output).await?;
    running.stderr.read_to_end(&mut output).await?;
    Ok(())
}

/// The default profile for a project directory, compiled.
fn enforcement(directory: &tempfile::TempDir, yolo: bool) -> Result<Enforcement, Box<dyn Error>> {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let policy = ollie_sandbox::layer("default", &[])?.expand(&HostView {
        cwd: directory.path(),
        home: home.as_deref(),
        tmpdir: None,
        path: None,
        tools_path: None,
        program: None,
        ollie_roots: &[],
        env: &|name| std::env::var_os(name),
        identity: None,
    })?;
    Ok(ollie_sandbox::compile(&policy, yolo)?.0)
}
