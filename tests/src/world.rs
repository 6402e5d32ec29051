use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::must::must;
use crate::{Dist, Invocation, User, toolchain};

/// Where programs are on a usual system.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A home and all that belongs to it, for one user and one test.
///
/// ```text
/// BASE/bin       olliesrv, its bundle, and toolsrv
/// BASE/home      $HOME, with a private key, shell settings and a git identity
/// BASE/home/project  where commands start
/// BASE/outside   the user may write it, no policy grants it
/// BASE/run       $XDG_RUNTIME_DIR
/// BASE/tmp       $TMPDIR
/// ```
#[derive(Debug)]
pub struct World {
    pub(crate) user: User,
    pub(crate) base: PathBuf,
    /// Keeps the directories until the end.
    _directory: TempDir,
    dist: Dist,
}

impl World {
    /// A fresh one.
    #[must_use]
    pub fn new(user: User) -> Self {
        let dist = Dist::find();
        // Below /tmp whatever TMPDIR says: every user can enter it, and paths
        // of sockets have to be short.
        let directory = tempfile::Builder::new()
            .prefix("ollie-world-")
            .tempdir_in("/tmp");
        let directory = must(directory, "make a directory below /tmp");
        let base = must(directory.path().canonicalize(), "find the directory");
        let world = Self {
            user,
            base,
            _directory: directory,
            dist,
        };
        world.set_mode(Path::new("."), 0o755);
        for (name, mode) in [
            ("bin", 0o755),
            ("home", 0o700),
            ("home/project", 0o755),
            ("home/.ssh", 0o700),
            ("outside", 0o755),
            ("run", 0o700),
            ("tmp", 0o700),
        ] {
            must(
                std::fs::create_dir(world.base.join(name)),
                "make a directory",
            );
            world.set_mode(Path::new(name), mode);
            world.give(&world.base.join(name));
        }
        for file in [
            world.dist.olliesrv(),
            world.dist.bundle(),
            world.dist.toolsrv(),
        ] {
            let name = file.file_name().unwrap_or_default();
            toolchain::link_or_copy(&file, &world.base.join("bin").join(name));
        }
        world.write("home/.ssh/id_ed25519", KEY);
        world.write("home/.bashrc", "# untouched\n");
        world.write(
            "home/.gitconfig",
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n",
        );
        world
    }

    /// One of an ordinary user.
    #[must_use]
    pub fn ordinary() -> Self {
        Self::new(User::ordinary())
    }

    /// Whose it is.
    #[must_use]
    pub fn user(&self) -> User {
        self.user
    }

    /// The directory that holds everything else, absolute and without links.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// `$HOME`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// Where commands start.
    #[must_use]
    pub fn project(&self) -> PathBuf {
        self.base.join("home/project")
    }

    /// A directory that the user may write and no policy grants.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.base.join("outside")
    }

    /// The binaries under test.
    #[must_use]
    pub fn dist(&self) -> &Dist {
        &self.dist
    }

    /// `$PATH` of every command.
    #[must_use]
    pub fn path(&self) -> OsString {
        PATH.into()
    }

    /// Writes a file, given by its path below the base, as the user's own;
    /// the directory is made if it is not there.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.base.join(path);
        if let Some(parent) = path.parent()
            && !parent.exists()
        {
            self.make_directory(parent);
        }
        must(std::fs::write(&path, content), "write a file");
        self.give(&path);
        path
    }

    /// Writes a program.
    pub fn write_program(&self, path: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.write(path, content);
        self.set_mode(&path, 0o755);
        path
    }

    /// Makes a directory and what it lies in, as the user's own.
    pub fn make_directory(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.base.join(path);
        let missing: Vec<_> = path.ancestors().take_while(|at| !at.exists()).collect();
        for directory in missing.into_iter().rev() {
            must(std::fs::create_dir(directory), "make a directory");
            self.give(directory);
        }
        path
    }

    /// Makes the user the owner.
    pub fn give(&self, path: &Path) {
        if self.user.is_other() {
            let uid = Some(self.user.uid());
            must(chown(path, uid, uid), "change an owner");
        }
    }

    /// `olliesrv` with these arguments.
    #[must_use]
    pub fn ollie<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Invocation {
        self.command(self.base.join("bin/olliesrv")).args(args)
    }

    /// `olliesrv exec -- sh -c CODE`.
    #[must_use]
    pub fn shell(&self, code: &str) -> Invocation {
        self.ollie(["exec", "--", "sh", "-c", code])
    }

    /// Any program outside of the sandbox, as the user, in the project.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Invocation {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", self.path())
            .env("HOME", self.home())
            .env("USER", "ada")
            .env("LANG", "C.UTF-8")
            .env("XDG_RUNTIME_DIR", self.base.join("run"))
            .env("TMPDIR", self.base.join("tmp"))
            .current_dir(self.project());
        if self.user.is_other() {
            // From root this also drops the supplementary groups.
            command.uid(self.user.uid()).gid(self.user.uid());
        }
        Invocation::new(command)
    }

    /// A Rust toolchain below the home, where this user can read it; the
    /// directory of its programs. Files are linked, not copied, where they can
    /// be.
    #[must_use]
    pub fn toolchain(&self) -> PathBuf {
        let at = self.home().join(".rustup/toolchains/stable");
        self.make_directory(&at);
        toolchain::install(&at)
    }

    fn set_mode(&self, path: &Path, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        must(
            std::fs::set_permissions(self.base.join(path), permissions),
            "change a mode",
        );
    }
}

/// Looks enough like a key to be read, and opens nothing.
const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nnot a key\n";
