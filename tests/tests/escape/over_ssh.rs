//! The same attempts on another host, by ssh: there the policy comes to hold
//! without a shell of the person's, without `$XDG_RUNTIME_DIR`, and with the
//! environment that sshd gives.
//!
//! All attempts of a policy are made in one call, each in a subshell, since
//! none may have an effect. That each would succeed without its mechanism is
//! shown on this machine.

use std::fmt::Write as _;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ollie_tests::{Devbox, Finished, Running, User, World};

use crate::must_work::WORK;
use crate::place::{SECRETS, find_socket};
use ollie_tests::attempts::{Need, ROWS, Row, Who};

/// An account there, with secrets, servers outside and another call.
struct There<'w> {
    devbox: &'w Devbox<'w>,
    user: User,
    target: String,
    names: String,
    docker: UnixListener,
    _abstract: UnixListener,
    _tcp: std::net::TcpListener,
    _sibling: Running,
}

#[test]
fn each_attempt_fails_on_another_host_as_well() {
    let Some(world) = World::with_ssh("the escape suite over ssh") else {
        return;
    };
    let devbox = world
        .devbox()
        .config("PermitRootLogin yes\nSetEnv SOME_TOKEN=s3cret LD_AUDIT=")
        .hook("mkdir -m 700 /home/superuser && mount --bind /home/superuser /root")
        .start();
    let mut problems = String::new();
    for user in [User::Root, User::Ordinary(devbox.uid())] {
        let there = There::new(&world, &devbox, user);
        there.shows_something();
        for need in [Need::Default, Need::NoNetwork, Need::OtherPorts] {
            let rows = ROWS.iter().filter(|row| row.need == need);
            let rows: Vec<_> = rows
                .filter(|row| row.who != Who::Ordinary || user != User::Root)
                .collect();
            problems += &there.try_rows(&world, need, &rows);
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// What changes between a look and the call reaches no server there either, and
/// what must work does.
#[test]
fn races_are_lost_and_ordinary_work_works_on_another_host() {
    let Some(world) = World::with_ssh("ordinary work over ssh") else {
        return;
    };
    let devbox = world.devbox().start();
    let there = There::new(&world, &devbox, User::Ordinary(devbox.uid()));
    let programs = ["/home/ollie-escape", "/home/become-root"].map(PathBuf::from);
    world.write(
        "home/.config/ollie/sandbox.yaml",
        crate::place::policy(&programs, Need::Default),
    );
    there.docker.set_nonblocking(true).unwrap();
    let visitors = || std::iter::from_fn(|| there.docker.accept().ok()).count();
    for code in [
        "$E rewrite own.sock $OUT/docker.sock 20000",
        "$E swap $OUT/docker.sock 20000",
        "$E swap-link . $OUT/docker.sock 20000",
    ] {
        let _ = there.run(&[], &format!("rm -rf ./*; {code}")).ok();
        assert_eq!(visitors(), 0, "{code}");
    }
    // They would be seen.
    let _ = there
        .run(&["--yolo"], "$E unix stream $OUT/docker.sock")
        .ok();
    assert_eq!(visitors(), 1);
    let mut problems = Vec::new();
    for (what, program, code) in WORK {
        if !crate::must_work::there(program) {
            continue;
        }
        let end = there.run(&[], &format!("rm -rf ./* && {code}"));
        if end.status != 0 {
            problems.push(format!("{what}: {end}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

impl<'w> There<'w> {
    fn new(world: &World, devbox: &'w Devbox<'w>, user: User) -> Self {
        let (account, home_there) = match user {
            User::Root => ("root", "superuser"),
            User::Ordinary(_) => ("dev", "dev"),
        };
        let home = devbox.path("home").join(home_there);
        let outside = devbox.path("home").join(format!("outside-{account}"));
        let own = |path: &Path| chown(path, Some(user.uid()), Some(user.uid())).unwrap();
        for directory in [outside.clone(), home.join("project"), home.join("bin")] {
            std::fs::create_dir_all(&directory).unwrap();
            own(&directory);
        }
        for secret in SECRETS {
            let path = match secret.strip_prefix("outside/") {
                Some(name) => outside.join(name),
                None => home.join(secret.trim_start_matches("home/")),
            };
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "PRIVATE KEY\n").unwrap();
            own(path.parent().unwrap());
            own(&path);
        }
        let program = |name: &str, mode| {
            let path = devbox.path("home").join(name);
            std::fs::copy(env!("CARGO_BIN_EXE_ollie-escape"), &path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        program("ollie-escape", 0o755);
        program("become-root", 0o4755);
        let docker = UnixListener::bind(outside.join("docker.sock")).unwrap();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(outside.join("docker.sock"), everybody).unwrap();
        let abstract_name = format!("ollie-escape{}", outside.display());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let tcp = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let target = devbox.target().replace("dev@", &format!("{account}@"));

        world.write("home/.config/ollie/sandbox.yaml", "");
        let words = ["exec", &target, "--", "sh", "-c", "echo $$; exec sleep 300"];
        let sibling = devbox.ollie(words).limit(Duration::from_secs(300));
        let mut sibling = sibling.untapped().spawn();
        let mut pid = String::new();
        let mut stdout = sibling.take_stdout();
        let mut byte = [0];
        while stdout.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            pid.push(char::from(byte[0]));
        }
        let socket = find_socket(&devbox.path("tmp")).unwrap();
        let socket = Path::new("/tmp").join(socket.strip_prefix(devbox.path("tmp")).unwrap());
        let names = format!(
            "E=/home/ollie-escape SUPERUSER=/home/become-root OUT=/home/outside-{account}\n\
             SIBLING={pid} TOOLSRV_SOCKET={} ABSTRACT={abstract_name} PORT={}\n",
            socket.display(),
            tcp.local_addr().unwrap().port(),
        );
        Self {
            devbox,
            user,
            target,
            names,
            docker,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            _tcp: tcp,
            _sibling: sibling,
        }
    }

    fn run(&self, options: &[&str], code: &str) -> Finished {
        let code = self.names.clone() + code;
        let words = ["--cwd", "project", &self.target, "--", "sh", "-c", &code];
        let invocation = self.devbox.ollie(["exec"]).args(options).args(words);
        invocation.limit(Duration::from_secs(180)).run()
    }

    /// What is to be refused is there.
    fn shows_something(&self) {
        let code = "cat ~/.ssh/id_ed25519 ~/.aws/credentials $OUT/victim && kill -0 $SIBLING \
                    && $E unix stream $OUT/docker.sock && $E unix stream $TOOLSRV_SOCKET \
                    && $E abstract $ABSTRACT && $E tcp $PORT";
        let _ = self.run(&["--yolo"], code).ok();
    }

    fn try_rows(&self, world: &World, need: Need, rows: &[&Row]) -> String {
        let programs = ["/home/ollie-escape", "/home/become-root"].map(PathBuf::from);
        world.write(
            "home/.config/ollie/sandbox.yaml",
            crate::place::policy(&programs, need),
        );
        let mut code = String::new();
        for (number, row) in rows.iter().enumerate() {
            let attempt = row.code.replace('\'', r"'\''");
            let _ = writeln!(
                code,
                "cd ~/project && rm -rf ./* && echo mine > file\n\
                 (eval '{attempt}') </dev/null >/dev/null 2>&1; echo \"{number} $?\""
            );
        }
        let end = self.run(&[], &(code + "exit 0"));
        let out = end.out();
        let mut problems = String::new();
        let mut lines = out.lines();
        for (number, row) in rows.iter().enumerate() {
            let line = lines.next().unwrap_or_default();
            let status = line.strip_prefix(&format!("{number} "));
            let what = match status {
                Some("0") => "ESCAPED",
                None | Some("99" | "125" | "127") => "NOT TRIED",
                Some(_) => continue,
            };
            let _ = writeln!(problems, "{what}: {} as {:?}: {line}", row.what, self.user);
        }
        if !problems.is_empty() {
            let _ = writeln!(problems, "{end}");
        }
        problems
    }
}
