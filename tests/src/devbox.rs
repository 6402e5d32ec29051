use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::must::must;
use crate::processes::entries;
use crate::{Invocation, Process, Relay, Tree, User, Wire, World, await_that, gap};

/// How long sshd may take until it answers. Measured: 30 ms.
const START: Duration = Duration::from_secs(20);
/// How long the last process of a session may live on.
const MOMENT: Duration = Duration::from_secs(15);

/// A host of one account that ssh reaches: a real sshd on loopback in a mount
/// namespace of its own, so that nothing of this machine changes.
///
/// ```text
/// there            here
/// /home/dev        BASE/devbox/home/dev, the account's home
/// /tmp /var/tmp    BASE/devbox/tmp, .../vartmp
/// /dev/shm         BASE/devbox/shm
/// /run             BASE/devbox/run; /run/devbox has sshd's files
/// /etc/passwd ...  with the one account more
/// ```
///
/// The client is root, because ssh wants its user to have an account here.
/// When this is dropped, sshd is ended with all it started, and of a session
/// nothing may be left.
#[derive(Debug)]
pub struct Devbox<'w> {
    world: &'w World,
    place: PathBuf,
    uid: u32,
    address: String,
    port: u16,
    sshd: Child,
    home: String,
    left_is_fine: bool,
}

/// What a [`Devbox`] shall be like.
#[derive(Debug)]
pub struct DevboxBuilder<'w> {
    world: &'w World,
    name: String,
    shell: String,
    home: String,
    config: String,
    hook: String,
    path: Option<Vec<String>>,
    /// A network namespace.
    network: Option<String>,
    address: String,
}

impl World {
    /// A world for tests with a [`Devbox`]; a gap where it cannot be had.
    #[must_use]
    pub fn with_ssh(what: &str) -> Option<Self> {
        let user = User::root(what)?;
        for program in ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/unshare"] {
            if !Path::new(program).exists() {
                gap(what, &format!("needs {program}"));
                return None;
            }
        }
        Some(Self::new(user))
    }

    /// A host with dash as its login shell, unless the builder says otherwise.
    #[must_use]
    pub fn devbox(&self) -> DevboxBuilder<'_> {
        self.share_packed();
        DevboxBuilder {
            world: self,
            name: "devbox".to_owned(),
            shell: "/bin/dash".to_owned(),
            home: "/home/dev".to_owned(),
            config: String::new(),
            hook: String::new(),
            path: None,
            network: None,
            address: "127.0.0.1".to_owned(),
        }
    }

    /// One compressed toolsrv is enough for all tests: it takes a second.
    fn share_packed(&self) {
        let own = self.home().join(".cache/ollie/packed");
        if own.exists() {
            return;
        }
        let bundle = self.dist().bundle();
        let shared = bundle.with_file_name(".packed");
        directory(&shared, 0o755);
        directory(&self.home().join(".cache/ollie"), 0o700);
        must(
            std::os::unix::fs::symlink(must(shared.canonicalize(), "find a directory"), own),
            "link a directory",
        );
    }
}

impl<'w> DevboxBuilder<'w> {
    /// Another name than `devbox`, for one more host in the same world. Their
    /// accounts have one number, so processes are those of all of them.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The login shell, a program of this machine.
    #[must_use]
    pub fn shell(mut self, program: &str) -> Self {
        program.clone_into(&mut self.shell);
        self
    }

    /// The home directory that passwd(5) names; it is made below `/home`.
    #[must_use]
    pub fn home(mut self, path: &str) -> Self {
        path.clone_into(&mut self.home);
        self
    }

    /// Lines for sshd_config(5). They come first, so they win.
    #[must_use]
    pub fn config(mut self, lines: &str) -> Self {
        self.config.push_str(lines);
        self.config.push('\n');
        self
    }

    /// Lines of shell that root runs there before sshd starts.
    #[must_use]
    pub fn hook(mut self, lines: &str) -> Self {
        self.hook.push_str(lines);
        self.hook.push('\n');
        self
    }

    /// Leaves only these programs on PATH.
    #[must_use]
    pub fn only(mut self, programs: &[&str]) -> Self {
        self.path = Some(programs.iter().map(|&name| name.to_owned()).collect());
        self
    }

    /// Puts it at the other end of this wire.
    #[must_use]
    pub fn behind(mut self, wire: &Wire) -> Self {
        self.network = Some(wire.namespace());
        wire.address().clone_into(&mut self.address);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// If sshd does not answer in time.
    #[must_use]
    pub fn start(self) -> Devbox<'w> {
        let place = self.world.base().join(&self.name);
        let User::Ordinary(uid) = User::ordinary() else {
            unreachable!("an ordinary user is never root")
        };
        self.furnish(&place, uid);
        let mut last = String::new();
        // The port may be taken between finding and using it.
        for _ in 0..5 {
            let port = free_port();
            let mut sshd = self.sshd(&place, port);
            match await_banner(&mut sshd, &self.address, port) {
                Ok(()) => {
                    let devbox = Devbox {
                        world: self.world,
                        place,
                        uid,
                        address: self.address,
                        port,
                        sshd,
                        home: self.home,
                        left_is_fine: false,
                    };
                    devbox.introduce();
                    return devbox;
                }
                Err(problem) => last = problem,
            }
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
        let log = std::fs::read_to_string(place.join("run/devbox/log")).unwrap_or_default();
        panic!("sshd does not start: {last}\n{log}");
    }

    fn furnish(&self, place: &Path, uid: u32) {
        for (name, mode) in [
            ("home", 0o755),
            ("tmp", 0o1777),
            ("vartmp", 0o1777),
            ("shm", 0o1777),
            ("run", 0o755),
            ("run/sshd", 0o755),
            ("run/devbox", 0o755),
            ("run/devbox/bin", 0o755),
        ] {
            directory(&place.join(name), mode);
        }
        let within = self
            .home
            .strip_prefix("/home/")
            .filter(|name| !name.is_empty());
        if let Some(within) = within {
            let home = place.join("home").join(within);
            directory(&home, 0o755);
            must(chown(&home, Some(uid), Some(uid)), "give the home away");
        }
        let account = format!("dev:x:{uid}:{uid}::{}:{}\n", self.home, self.shell);
        for (name, line, mode) in [
            ("passwd", account, 0o644),
            ("group", format!("dev:x:{uid}:\n"), 0o644),
            ("shadow", "dev:*:19000:0:99999:7:::\n".to_owned(), 0o600),
        ] {
            let file = Path::new("/etc").join(name);
            let text = must(std::fs::read_to_string(file), "read an account file");
            write(&place.join("run/devbox").join(name), &(text + &line), mode);
        }
        for key in ["run/devbox/host_key", "key"] {
            keygen(&place.join(key));
        }
        let public = must(std::fs::read_to_string(place.join("key.pub")), "read a key");
        write(&place.join("run/devbox/authorized_keys"), &public, 0o644);
        for name in self.path.iter().flatten() {
            let program = ["/bin", "/usr/bin", "/usr/sbin"]
                .map(|directory| Path::new(directory).join(name))
                .into_iter()
                .find(|program| program.exists());
            let Some(program) = program else {
                panic!("there is no {name} on this machine");
            };
            let link = place.join("run/devbox/bin").join(name);
            must(std::os::unix::fs::symlink(program, link), "link a program");
        }
    }

    fn sshd(&self, place: &Path, port: u16) -> Child {
        let path = match self.path {
            Some(_) => "SetEnv PATH=/run/devbox/bin\n",
            None => "",
        };
        // Of this one sshd takes the last line and not the first.
        let startups = if self.config.contains("MaxStartups") {
            ""
        } else {
            "MaxStartups 200:30:400\n"
        };
        let config = format!(
            "{}{path}Port {port}\nListenAddress {}\nListenAddress ::1\n\
             HostKey /run/devbox/host_key\nPidFile none\n\
             AuthorizedKeysFile /run/devbox/authorized_keys\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\n\
             {startups}LogLevel VERBOSE\nSubsystem sftp /bin/false\n",
            self.config, self.address
        );
        write(&place.join("run/devbox/sshd_config"), &config, 0o644);
        let script = format!(
            "set -e\ncd \"$1\"\n\
             for file in passwd group shadow; do mount --bind run/devbox/$file /etc/$file; done\n\
             mount --bind home /home\nmount --bind vartmp /var/tmp\nmount --bind shm /dev/shm\n\
             mount --bind run /run\nmount --bind tmp /tmp\ncd /\n{}\n\
             exec /usr/sbin/sshd -D -f /run/devbox/sshd_config -E /run/devbox/log\n",
            self.hook
        );
        let mut command = match &self.network {
            Some(network) => {
                let mut command = Command::new("/usr/bin/nsenter");
                command
                    .arg(format!("--net={network}"))
                    .arg("/usr/bin/unshare");
                command
            }
            None => Command::new("/usr/bin/unshare"),
        };
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                &script,
                "sh",
            ])
            .arg(place)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .process_group(0);
        must(command.spawn(), "start sshd")
    }
}

impl Devbox<'_> {
    /// `dev@127.0.0.1:PORT`, or another address behind a [`Wire`].
    #[must_use]
    pub fn target(&self) -> String {
        format!("dev@{}:{}", self.address, self.port)
    }

    /// The world it is reached from.
    #[must_use]
    pub fn world(&self) -> &World {
        self.world
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The account's number.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// A file of the devbox as it is found here: below `home`, `tmp`,
    /// `vartmp`, `shm` or `run`. What a hook mounted is not to be seen.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.place.join(path)
    }

    /// The home directory, as it is found here.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        let within = self.home.strip_prefix("/home/").unwrap_or("");
        self.place.join("home").join(within)
    }

    /// `olliesrv` with these arguments, with an ssh that knows this host.
    #[must_use]
    pub fn ollie<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Invocation {
        self.world.ollie(args).env("OLLIE_SSH", self.ssh())
    }

    /// `olliesrv exec TARGET -- sh -c CODE`.
    #[must_use]
    pub fn shell(&self, code: &str) -> Invocation {
        self.ollie(["exec", &self.target(), "--", "sh", "-c", code])
    }

    /// Further lines for the client's ssh_config(5).
    pub fn ssh_config(&self, lines: &str) {
        let file = self.place.join("ssh_config");
        let text = must(std::fs::read_to_string(&file), "read ssh_config");
        write(&file, &format!("{lines}\n{text}"), 0o600);
    }

    /// An ssh that reads that configuration only.
    #[must_use]
    pub fn ssh(&self) -> PathBuf {
        self.place.join("ssh")
    }

    /// What sshd has logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("run/devbox/log")).unwrap_or_default()
    }

    /// How often the log has this text.
    #[must_use]
    pub fn logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Processes of the account.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let mut all = Process::all();
        all.retain(|process| process.uid == self.uid && !process.mentions("sshd: dev"));
        all
    }

    /// What is left of sessions there: processes, sockets, temporary files,
    /// half an upload.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let processes = self.processes().into_iter().map(|process| process.line());
        let files = ["tmp", "vartmp", "shm"]
            .into_iter()
            .flat_map(|directory| entries(&self.path(directory)))
            .filter(|path| path.contains("/ollie-run-") || path.contains("/ollie-tmp-"));
        processes.chain(files).chain(self.staged()).collect()
    }

    /// Half uploads in any of the roots.
    fn staged(&self) -> Vec<String> {
        let mut roots = vec![self.home().join(".cache/ollie")];
        for directory in ["tmp", "vartmp", "shm"] {
            roots.push(self.path(directory).join(format!("ollie-{}", self.uid)));
        }
        let platforms = roots.iter().flat_map(|root| entries(root));
        let inside = platforms.flat_map(|platform| entries(Path::new(&platform)));
        inside.filter(|path| path.contains("/.staged")).collect()
    }

    /// The installed toolsrvs, as they are found here.
    #[must_use]
    pub fn installed(&self) -> Vec<PathBuf> {
        let mut roots = vec![self.home().join(".cache/ollie")];
        for directory in ["tmp", "vartmp", "shm"] {
            roots.push(self.path(directory).join(format!("ollie-{}", self.uid)));
        }
        let platforms = roots.iter().flat_map(|root| entries(root));
        let digests = platforms.flat_map(|platform| entries(Path::new(&platform)));
        digests
            .map(|digest| Path::new(&digest).join("toolsrv"))
            .filter(|file| file.exists())
            .collect()
    }

    /// `dev@127.0.0.1:PORT` through a relay.
    #[must_use]
    pub fn through(&self, relay: &Relay) -> String {
        let file = self.place.join("known_hosts");
        let known = must(std::fs::read_to_string(&file), "read known_hosts");
        let key = known.split_once(' ').map_or("", |(_, key)| key);
        let port = relay.port();
        if !known.contains(&format!("]:{port} ")) {
            write(&file, &format!("{known}[127.0.0.1]:{port} {key}"), 0o600);
        }
        format!("dev@127.0.0.1:{port}")
    }

    /// Lets the client of this host reach another one as well.
    pub fn knows(&self, other: &Devbox<'_>) {
        let file = self.place.join("known_hosts");
        let both = [&file, &other.place.join("known_hosts")]
            .map(|file| must(std::fs::read_to_string(file), "read known_hosts"));
        write(&file, &both.concat(), 0o600);
        let config = self.place.join("ssh_config");
        let text = must(std::fs::read_to_string(&config), "read ssh_config");
        let key = format!("  IdentityFile {}/key\n", other.place.display());
        write(&config, &(text + &key), 0o600);
    }

    /// Removes every installed toolsrv.
    pub fn uninstall(&self) {
        for file in self.installed() {
            must(std::fs::remove_file(file), "remove a file");
        }
    }

    /// Awaits that nothing of a session is left there.
    ///
    /// # Panics
    /// If something still is, a moment later.
    #[track_caller]
    pub fn nothing_left(&self) {
        let gone = await_that(MOMENT, || self.leftovers().is_empty());
        assert!(gone, "left there:\n  {}", self.leftovers().join("\n  "));
    }

    /// For tests that break the host so that it cannot clean up.
    pub fn may_leave_something(&mut self) {
        self.left_is_fine = true;
    }

    /// Makes the host known to the client.
    fn introduce(&self) {
        let key = must(
            std::fs::read_to_string(self.place.join("run/devbox/host_key.pub")),
            "read the host key",
        );
        let key: Vec<_> = key.split(' ').take(2).collect();
        let port = self.port;
        let known = format!("[{}]:{port},[::1]:{port} {}\n", self.address, key.join(" "));
        write(&self.place.join("known_hosts"), &known, 0o600);
        let place = self.place.display();
        let config = format!(
            "Host devbox\n  HostName {}\n  Port {port}\n  User dev\n\
             Host *\n  IdentityFile {place}/key\n  IdentitiesOnly yes\n  IdentityAgent none\n\
             \x20 UserKnownHostsFile {place}/known_hosts\n  GlobalKnownHostsFile /dev/null\n",
            self.address
        );
        write(&self.place.join("ssh_config"), &config, 0o600);
        let ssh = format!("#!/bin/sh\nexec /usr/bin/ssh -F {place}/ssh_config \"$@\"\n");
        write(&self.ssh(), &ssh, 0o755);
    }

    fn sweep(&mut self) {
        let all = Process::all();
        let children = |parent: u32| all.iter().filter(move |process| process.parent == parent);
        // One for each connection, and where privileges are separated, one more.
        for connection in children(self.sshd.id()) {
            children(connection.pid).for_each(|process| Tree::kill(process.pid));
            Tree::kill(connection.pid);
        }
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
        for process in self.processes() {
            Tree::kill(process.pid);
        }
    }
}

impl Drop for Devbox<'_> {
    fn drop(&mut self) {
        let left = if std::thread::panicking() {
            eprint_log(&self.log());
            Vec::new()
        } else if await_that(MOMENT, || self.leftovers().is_empty()) {
            // Not asked again: sshd forks for its own ends at any time.
            Vec::new()
        } else {
            self.leftovers()
        };
        self.sweep();
        assert!(
            left.is_empty() || self.left_is_fine,
            "left there at the end of the test:\n  {}",
            left.join("\n  ")
        );
    }
}

fn eprint_log(log: &str) {
    use std::io::Write as _;
    let tail: Vec<_> = log.lines().rev().take(20).collect();
    let text: Vec<_> = tail.into_iter().rev().collect();
    let _ = writeln!(std::io::stderr(), "sshd's log ends:\n{}", text.join("\n"));
}

fn directory(path: &Path, mode: u32) {
    must(std::fs::create_dir_all(path), "make a directory");
    let permissions = std::fs::Permissions::from_mode(mode);
    must(std::fs::set_permissions(path, permissions), "change a mode");
}

fn write(path: &Path, text: &str, mode: u32) {
    must(std::fs::write(path, text), "write a file");
    let permissions = std::fs::Permissions::from_mode(mode);
    must(std::fs::set_permissions(path, permissions), "change a mode");
}

fn keygen(path: &Path) {
    if path.exists() {
        return;
    }
    let made = Command::new("/usr/bin/ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status();
    assert!(must(made, "start ssh-keygen").success(), "ssh-keygen fails");
}

fn free_port() -> u16 {
    let listener = must(TcpListener::bind("127.0.0.1:0"), "find a free port");
    must(listener.local_addr(), "ask for the port").port()
}

/// Waits until sshd greets; RFC 4253 says with what.
fn await_banner(sshd: &mut Child, address: &str, port: u16) -> Result<(), String> {
    use std::io::Read as _;
    let deadline = Instant::now() + START;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = sshd.try_wait() {
            return Err(format!("it ended with {status}"));
        }
        let greeting = TcpStream::connect((address, port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(START))?;
            let mut greeting = [0; 4];
            stream.read_exact(&mut greeting)?;
            Ok(greeting)
        });
        if greeting.is_ok_and(|greeting| &greeting == b"SSH-") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("it does not answer".to_owned())
}
