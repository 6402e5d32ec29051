use std::error::Error;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ollie_tests::{Devbox, Relay, World, await_that};

use crate::figures::{Figures, compare};

/// How far away the host is, and how many of the rounds that is worth.
const DISTANCES: [(u64, u32); 2] = [(0, 10), (50, 20)];

/// From the command to the first result on a host that ssh reaches, and the
/// first time there, each beside what ssh alone needs.
pub(crate) fn run(rounds: u32) -> Result<(), Box<dyn Error>> {
    let Some(world) = World::with_ssh("the figures of ssh") else {
        return Ok(());
    };
    let devbox = world.devbox().start();
    for (milliseconds, part) in DISTANCES {
        let relay = Relay::far(devbox.port(), Duration::from_millis(milliseconds));
        let host = Host::new(&devbox, devbox.through(&relay));
        host.first_result()?;
        let packed = host.packed(&world)?;
        let (mut warm, mut ended) = (Figures::default(), Figures::default());
        let mut plain = Figures::default();
        let (mut cold, mut copy) = (Figures::default(), Figures::default());
        let mut over = Figures::default();
        let served = world.serve_by(world.ollie(["serve"]).env("OLLIE_SSH", devbox.ssh()));
        let name = format!("at-{milliseconds}");
        served.session(&format!(
            "name={name} backend=ollama remote={}",
            host.target
        ));
        let remote = format!("session/{name}/remote");
        let connected = || served.read(&remote).contains("\"connected\"");
        assert!(await_that(Duration::from_secs(60), connected));
        let beside = Host {
            runtime: world.base().join("run"),
            ..host.clone()
        };
        for _ in 0..rounds.div_ceil(part) {
            plain.add(host.ssh("true", None)?);
            let (first, whole) = host.first_result()?;
            warm.add(first);
            ended.add(whole);
            over.add(beside.first_result()?.1);
            devbox.uninstall();
            cold.add(host.first_result()?.0);
            copy.add(host.ssh("cat >copy", Some(&packed))?);
        }
        let at = |what: &str| format!("{what}, {milliseconds} ms");
        compare(
            &at("warm attach to the first result"),
            &warm,
            "`ssh HOST true`",
            &plain,
            1.15,
        );
        compare(
            &at("the same to the confirmed end"),
            &ended,
            "`ssh HOST true`",
            &plain,
            1.25,
        );
        compare(
            &at("the same over a daemon's connection"),
            &over,
            "without a daemon",
            &ended,
            0.5,
        );
        compare(
            &at("first time there to the first result"),
            &cold,
            "`ssh HOST 'cat >copy'` of the same bytes",
            &copy,
            1.15,
        );
        assert_eq!(served.end().status, 0);
    }
    Ok(())
}

/// A host as ssh and ollie reach it.
#[derive(Clone)]
struct Host {
    ollie: PathBuf,
    home: PathBuf,
    /// Where a daemon would be.
    runtime: PathBuf,
    ssh: PathBuf,
    target: String,
}

impl Host {
    fn new(devbox: &Devbox<'_>, target: String) -> Self {
        let world = devbox.world();
        Self {
            ollie: world.base().join("bin/olliesrv"),
            home: world.home(),
            runtime: world.base().join("tmp"),
            ssh: devbox.ssh(),
            target,
        }
    }

    /// toolsrv as it travels.
    fn packed(&self, world: &World) -> Result<PathBuf, Box<dyn Error>> {
        let kept = self.home.join(".cache/ollie/packed");
        let newest = std::fs::read_dir(kept)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "xz-utils"))
            .max_by_key(|path| path.metadata().and_then(|stat| stat.modified()).ok())
            .ok_or("nothing was packed")?;
        let copy = world.base().join("packed");
        std::fs::copy(newest, &copy)?;
        Ok(copy)
    }

    /// One `ssh HOST COMMAND` from its start to its end.
    fn ssh(&self, command: &str, input: Option<&Path>) -> Result<Duration, Box<dyn Error>> {
        let (user_and_host, port) = self.target.rsplit_once(':').ok_or("no port")?;
        let input = match input {
            Some(path) => std::fs::File::open(path)?.into(),
            None => Stdio::null(),
        };
        let start = Instant::now();
        let status = Command::new(&self.ssh)
            .args(["-T", "-p", port, user_and_host, command])
            .stdin(input)
            .stdout(Stdio::null())
            .status()?;
        assert!(status.success(), "ssh fails");
        Ok(start.elapsed())
    }

    /// From the start of olliesrv to the command's output, and to its end.
    fn first_result(&self) -> Result<(Duration, Duration), Box<dyn Error>> {
        let start = Instant::now();
        let mut child = Command::new(&self.ollie)
            .args(["exec", "-n", &self.target, "--", "echo", "x"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("XDG_RUNTIME_DIR", &self.runtime)
            .env("OLLIE_SSH", &self.ssh)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = [0; 2];
        child
            .stdout
            .take()
            .ok_or("no pipe")?
            .read_exact(&mut output)?;
        let first = start.elapsed();
        assert!(&output == b"x\n" && child.wait()?.success(), "exec fails");
        Ok((first, start.elapsed()))
    }
}
