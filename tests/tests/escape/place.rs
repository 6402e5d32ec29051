//! Where the attempts are made: a home with secrets, servers outside, and
//! another call of the same user.

use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_tests::{Finished, Running, User, World};

use crate::Outcome;
use ollie_tests::attempts::{By, Need, Row, Who};

/// Files that nobody may read.
pub(crate) const SECRETS: [&str; 10] = [
    "home/.ssh/id_ed25519",
    "home/.aws/credentials",
    "home/.gnupg/secring.gpg",
    "home/.kube/config",
    "home/.docker/config.json",
    "home/.netrc",
    "home/.bash_history",
    "home/.sshfoo/id",
    "home/project2/file",
    "outside/victim",
];

/// Each round of a race hands over from process to process a few times, which
/// takes a hundred times as long where many others wait for a processor.
const LIMIT: Duration = Duration::from_secs(180);

pub(crate) struct Place {
    helper: PathBuf,
    /// A call of another session, which sleeps.
    sibling: Running,
    sibling_pid: u32,
    toolsrv_socket: PathBuf,
    unix: UnixListener,
    _log: UnixDatagram,
    _abstract: UnixListener,
    abstract_name: String,
    tcp: std::net::TcpListener,
    superuser: Option<PathBuf>,
    /// Last, because it looks whether everything has ended.
    world: World,
}

impl Place {
    pub(crate) fn new(user: User) -> Self {
        let world = World::new(user);
        let helper = world.base().join("ollie-escape");
        std::fs::copy(env!("CARGO_BIN_EXE_ollie-escape"), &helper).unwrap();
        std::fs::set_permissions(&helper, PermissionsExt::from_mode(0o755)).unwrap();
        // A program that becomes root, as sudo does.
        let superuser = User::root("setuid programs").map(|_| {
            let program = world.base().join("superuser");
            std::fs::copy(&helper, &program).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
            program
        });
        let unix = world.outside().join("docker.sock");
        let listener = UnixListener::bind(&unix).unwrap();
        std::fs::set_permissions(&unix, PermissionsExt::from_mode(0o777)).unwrap();
        listener.set_nonblocking(true).unwrap();
        // As /dev/log.
        let log = world.outside().join("log.sock");
        let datagrams = UnixDatagram::bind(&log).unwrap();
        std::fs::set_permissions(&log, PermissionsExt::from_mode(0o777)).unwrap();
        let abstract_name = format!("ollie-escape{}", world.base().display());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sibling = world
            .ollie(["exec", "--", "sh", "-c", "echo $$; exec sleep 600"])
            .limit(Duration::from_secs(600))
            .untapped()
            .spawn();
        let mut place = Self {
            helper,
            sibling,
            sibling_pid: 0,
            toolsrv_socket: PathBuf::new(),
            unix: listener,
            _log: datagrams,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            tcp: std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap(),
            superuser,
            world,
        };
        place.await_sibling();
        place
    }

    fn await_sibling(&mut self) {
        let mut line = String::new();
        let mut stdout = self.sibling.take_stdout();
        let mut byte = [0];
        while stdout.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(char::from(byte[0]));
        }
        self.sibling_pid = line.parse().unwrap();
        self.toolsrv_socket = find_socket(&self.world.base().join("run")).unwrap();
    }

    /// What an attempt changes when it succeeds, as it was before.
    fn reset(&self, need: Need) {
        let world = &self.world;
        for path in SECRETS {
            world.write(path, "PRIVATE KEY\n");
        }
        for (path, text) in [
            ("home/.bashrc", "# untouched\n"),
            ("home/.cargo/bin/cargo", "#!/bin/sh\n"),
            ("home/bin/git", "#!/bin/sh\n"),
        ] {
            world.write(path, text);
        }
        std::fs::create_dir_all(world.home().join(".config/autostart")).unwrap();
        for path in [".config", ".config/autostart"] {
            world.give(&world.home().join(path));
        }
        for path in [
            "outside/new",
            "outside/dir",
            "home/.config/autostart/x.desktop",
        ] {
            let path = world.base().join(path);
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        }
        // The project begins empty.
        for entry in std::fs::read_dir(world.project()).unwrap() {
            let path = entry.unwrap().path();
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
        world.write("home/project/file", "mine\n");
        world.write(
            "home/.config/ollie/sandbox.yaml",
            policy(&self.programs(), need),
        );
    }

    fn programs(&self) -> Vec<PathBuf> {
        std::iter::once(&self.helper)
            .chain(&self.superuser)
            .cloned()
            .collect()
    }

    /// The code with the names of this place set.
    fn code(&self, row: &Row) -> String {
        let line = |name: &str, value: &dyn std::fmt::Display| format!("{name}='{value}'\n");
        let mut code = line("E", &self.helper.display());
        code += &line("OUT", &self.world.outside().display());
        code += &line("SIBLING", &self.sibling_pid);
        code += &line("TOOLSRV_SOCKET", &self.toolsrv_socket.display());
        code += &line("ABSTRACT", &self.abstract_name);
        code += &line("PORT", &self.tcp.local_addr().unwrap().port());
        if let Some(superuser) = &self.superuser {
            code += &line("SUPERUSER", &superuser.display());
        }
        code + row.code
    }

    fn run(&self, row: &Row, without: Option<By>) -> Finished {
        self.reset(row.need);
        let code = self.code(row);
        let invocation = match without {
            None => self.world.ollie(["exec", "--", "sh", "-c", &code]),
            Some(by) if by.parts().is_empty() => self
                .world
                .ollie(["exec", "--yolo", "--", "sh", "-c", &code]),
            Some(by) => self
                .world
                .command(&self.helper)
                .arg("without")
                .args(by.parts())
                .args(["--", "sh", "-c", &code]),
        };
        invocation
            .env("SOME_TOKEN", "s3cret")
            .env("LD_AUDIT", "")
            .limit(LIMIT)
            .run()
    }

    /// How many connections there were to the server outside, by code that
    /// must end well.
    pub(crate) fn visitors_of(&self, code: &'static str, without: Option<By>) -> usize {
        let row = Row::race(code);
        let _ = self.run(&row, without).ok();
        std::iter::from_fn(|| self.unix.accept().ok()).count()
    }

    /// Runs code that must work, in the sandbox.
    pub(crate) fn work(&self, code: &'static str) -> Finished {
        self.run(&Row::race(code), None)
    }

    pub(crate) fn try_row(&self, row: &Row) -> Result<Outcome, String> {
        if row.who == Who::Ordinary && self.world.user() == User::Root {
            return Ok(Outcome::Refused);
        }
        let end = self.run(row, None);
        if end.status == 0 {
            return Err(format!(
                "ESCAPED: {} as {:?}: {end}",
                row.what,
                self.world.user()
            ));
        }
        if end.status == 99 || end.status == 127 || end.status == 125 {
            return Err(format!("NOT TRIED: {}: {end}", row.what));
        }
        if !row.shows_for(self.world.user()) {
            return Ok(Outcome::Refused);
        }
        let end = self.run(row, Some(row.by));
        match end.status {
            0 => Ok(Outcome::Shown),
            _ => Err(format!(
                "SHOWS NOTHING, it fails without {:?} as well: {} as {:?}: {end}",
                row.by,
                row.what,
                self.world.user()
            )),
        }
    }
}

/// The user's policy file. The programs lie beside secrets, so each is listed
/// alone.
pub(crate) fn policy(programs: &[PathBuf], need: Need) -> String {
    let network = match need {
        Need::Default => "",
        Need::NoNetwork => "network: { none: true }\n",
        Need::OtherPorts => "network: { connect_tcp: [1], bind_tcp: [1] }\n",
    };
    let programs: Vec<_> = programs
        .iter()
        .map(|path| path.display())
        .map(|p| p.to_string())
        .collect();
    format!(
        "filesystem: {{ rox: [{}] }}\n{network}",
        programs.join(", ")
    )
}

/// The socket of the session that runs.
pub(crate) fn find_socket(below: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::FileTypeExt as _;
    let mut open = vec![below.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().ok()?;
            if kind.is_socket() {
                return Some(entry.path());
            }
            if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
    None
}
