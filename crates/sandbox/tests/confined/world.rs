//! A home with keys in it, a project, and a way to run something confined.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use ollie_sandbox::{Access, Document, Enforcement, HostView, Identity, Policy, compile, layer};

/// As whom a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Myself,
    Nobody,
}

const NOBODY: u32 = 65534;

impl Who {
    /// The user of the test, and an ordinary one where that is root.
    pub(crate) fn possible() -> Vec<Self> {
        match is_root() {
            true => vec![Self::Myself, Self::Nobody],
            false => vec![Self::Myself],
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Myself if is_root() => "root",
            Self::Myself => "this user",
            Self::Nobody => "an ordinary user",
        })
    }
}

fn is_root() -> bool {
    // SAFETY: it cannot fail.
    unsafe { libc::geteuid() == 0 }
}

pub(crate) struct World {
    who: Who,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) tmpdir: PathBuf,
    program: PathBuf,
    _keep: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(who: Who, program: &Path) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let top = keep.path().canonicalize().unwrap();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        let home = top.join("home");
        let world = Self {
            who,
            project: home.join("project"),
            tmpdir: top.join("tmp"),
            program: program.to_owned(),
            home,
            _keep: keep,
        };
        for dir in [".ssh", ".sshfoo", "project", "project2"] {
            fs::create_dir_all(world.home.join(dir)).unwrap();
        }
        fs::create_dir(&world.tmpdir).unwrap();
        for (file, text) in [
            (".ssh/id_ed25519", "SECRET"),
            (".sshfoo/key", "SECRET"),
            (".bashrc", "# mine\n"),
            (
                ".gitconfig",
                "[user]\n\tname = A\n\temail = a@example.org\n",
            ),
            ("project/file", "text\n"),
            ("project2/file", "SECRET"),
        ] {
            fs::write(world.home.join(file), text).unwrap();
        }
        if who == Who::Nobody {
            chown_all(&world.home);
            chown_all(&world.tmpdir);
        }
        world
    }

    pub(crate) fn identity(&self) -> Identity {
        match self.who {
            Who::Myself => Identity::of_this_process().unwrap(),
            Who::Nobody => Identity {
                uid: NOBODY,
                gid: NOBODY,
                groups: Vec::new(),
            },
        }
    }

    /// The default profile with `extra` on top.
    pub(crate) fn policy(&self, extra: &Document) -> Policy {
        self.policy_of("default", extra)
    }

    pub(crate) fn policy_of(&self, profile: &str, extra: &Document) -> Policy {
        let program = self.program.display().to_string();
        let own = Document::default().grant(Access::Rox, program, "test");
        let identity = self.identity();
        layer(profile, &[own, extra.clone()])
            .unwrap()
            .expand(&HostView {
                cwd: &self.project,
                home: Some(&self.home),
                tmpdir: Some(&self.tmpdir),
                path: Some(OsStr::new("/usr/local/bin:/usr/bin:/bin")),
                tools_path: None,
                program: None,
                ollie_roots: &[],
                env: &|_| None,
                identity: Some(&identity),
            })
            .unwrap()
    }

    pub(crate) fn enforcement(&self, extra: &Document) -> Arc<Enforcement> {
        Arc::new(compile(&self.policy(extra), false).unwrap().0)
    }

    /// Runs a shell script in the project, under the default profile.
    pub(crate) fn sh(&self, script: &str) -> Output {
        self.sh_under(&self.enforcement(&Document::default()), script)
    }

    pub(crate) fn sh_under(&self, enforcement: &Arc<Enforcement>, script: &str) -> Output {
        self.run(enforcement, Path::new("/bin/sh"), &["-c", script])
    }

    /// Makes an attempt of `attempt::run` under the default profile; what it
    /// printed, or how it died.
    pub(crate) fn attempt(&self, words: &[&str]) -> String {
        self.attempt_under(&self.enforcement(&Document::default()), words)
    }

    pub(crate) fn attempt_under(&self, enforcement: &Arc<Enforcement>, words: &[&str]) -> String {
        let args: Vec<&str> = ["attempt"].iter().chain(words).copied().collect();
        let output = self.run(enforcement, &self.program, &args);
        match std::os::unix::process::ExitStatusExt::signal(&output.status) {
            Some(signal) => format!("signal {signal}"),
            None => String::from_utf8(output.stdout).unwrap().trim().to_owned(),
        }
    }

    /// The same with this user's own home directory and PATH.
    pub(crate) fn sh_with_real_home(&self, script: &str) -> Output {
        let home = std::env::home_dir().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let names = |name: &str| std::env::var_os(name);
        let policy = layer("default", &[])
            .unwrap()
            .expand(&HostView {
                cwd: &self.project,
                home: Some(&home),
                tmpdir: Some(&self.tmpdir),
                path: Some(&path),
                tools_path: None,
                program: None,
                ollie_roots: &[],
                env: &names,
                identity: None,
            })
            .unwrap();
        let enforcement = Arc::new(compile(&policy, false).unwrap().0);
        let (environment, _) = policy.environment(std::env::vars_os());
        let mut command = self.command(Path::new("/bin/sh"), &["-c", script]);
        command.env_clear().envs(environment);
        self.output(command, &enforcement)
    }

    fn run(&self, enforcement: &Arc<Enforcement>, program: &Path, args: &[&str]) -> Output {
        self.output(self.command(program, args), enforcement)
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.project)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("TMPDIR", &self.tmpdir)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command as a supervisor does: from a thread that has the call's
    /// user, enters the outer domain and then answers at the gate. Each of
    /// that is the thread's own, so the test can do it any number of times.
    fn output(&self, mut command: Command, enforcement: &Arc<Enforcement>) -> Output {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = || {
            if self.who == Who::Nobody {
                become_nobody();
            }
            let gate = enforcement.gate().unwrap();
            let gate_end = gate.as_ref().map(|g| g.child_end().as_raw_fd());
            let mine = Arc::clone(enforcement);
            // SAFETY: restrict_self makes system calls and nothing else, and
            // the gate is open until the child has been started.
            unsafe {
                command.pre_exec(move || {
                    let gate = gate_end.map(|fd| BorrowedFd::borrow_raw(fd));
                    mine.restrict_self(gate)
                        .map_err(|(_, errno)| std::io::Error::from_raw_os_error(errno))
                });
            }
            let child = command.spawn().unwrap();
            if let Some(gate) = gate {
                gate.listener().unwrap().serve().unwrap();
            }
            child.wait_with_output().unwrap()
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }
}

/// For the calling thread alone: the C library's functions would change all.
fn become_nobody() {
    let nobody = libc::c_long::from(NOBODY);
    // SAFETY: integers, and an empty list.
    let answers = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()),
            libc::syscall(libc::SYS_setresgid, nobody, nobody, nobody),
            libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody),
        ]
    };
    assert_eq!(answers, [0; 3]);
}

/// This binary where an ordinary user can execute it. Copied before any thread
/// starts: a fork of another thread would hold the copy open for writing, and
/// executing it would be ETXTBSY.
pub(crate) fn copy_program(to: &Path) -> PathBuf {
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    let program = to.join("attempt");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    program.canonicalize().unwrap()
}

fn chown_all(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            chown_all(&entry.unwrap().path());
        }
    }
}
