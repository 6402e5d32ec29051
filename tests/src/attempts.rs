//! The attempts of the escape suite: every way out of the sandbox that is known.

use crate::User;

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// What it tries, for the table.
    pub what: &'static str,
    /// Shell code; status 0 when it got out.
    pub code: &'static str,
    /// What stops it.
    pub by: By,
    /// Who would get out without that.
    pub who: Who,
    /// The policy it needs.
    pub need: Need,
    /// The first ABI of Landlock that stops it (`userspace-api/landlock.rst`,
    /// "Previous limitations").
    pub since: u32,
}

/// A mechanism, or several where each would be enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Landlock's rules.
    Landlock,
    /// That a process is in a Landlock domain, whatever its rules are: it
    /// traces nobody outside. Shown without a sandbox.
    Domain,
    /// The filter of system calls.
    Seccomp,
    /// The filter and Landlock's rules on ports, either of which is enough.
    Network,
    /// The gate before Unix sockets, or Landlock from ABI 9 on.
    Gate,
    /// The environment is made anew.
    Environment,
    /// Descriptors are closed.
    Descriptors,
    /// That there are no capabilities. Shown without a sandbox.
    Capabilities,
    /// no_new_privs. Shown without a sandbox.
    NoNewPrivileges,
    /// The filter and, independently, that there are no capabilities. Shown
    /// without a sandbox.
    Everything,
}

impl By {
    /// The parts that `ollie-escape without` leaves out; none where that would
    /// say nothing and it is tried without a sandbox.
    pub fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Landlock => &["landlock"],
            Self::Network => &["landlock", "seccomp"],
            Self::Seccomp => &["seccomp"],
            Self::Gate => &["gate"],
            Self::Environment => &["environment"],
            Self::Descriptors => &["descriptors"],
            Self::Domain | Self::Capabilities | Self::NoNewPrivileges | Self::Everything => &[],
        }
    }

    /// For the tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Landlock => "Landlock",
            Self::Domain => "Landlock's domain",
            Self::Network => "seccomp, Landlock",
            Self::Seccomp => "seccomp",
            Self::Gate => "gate",
            Self::Environment => "environment",
            Self::Descriptors => "close_range",
            Self::Capabilities => "no capabilities",
            Self::NoNewPrivileges => "no_new_privs",
            Self::Everything => "seccomp; no capabilities",
        }
    }
}

/// Whom an attempt would serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Everybody.
    Anybody,
    /// Root alone: the kernel refuses everybody else anyway.
    Root,
    /// Everybody but root.
    Ordinary,
    /// Nobody here: this kernel was built without it.
    NotHere,
}

/// The policy that an attempt is made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The default profile.
    Default,
    /// It, with `network: none`.
    NoNetwork,
    /// It, with lists of ports that name none of those that are tried.
    OtherPorts,
}

impl Row {
    /// Whether this user would get out without the mechanism.
    pub fn shows_for(&self, user: User) -> bool {
        match self.who {
            Who::Anybody => true,
            Who::Root => user == User::Root,
            Who::Ordinary => user != User::Root,
            Who::NotHere => false,
        }
    }

    /// Code that is no attempt by its status.
    pub const fn race(code: &'static str) -> Self {
        row(By::Gate, "a race", code)
    }

    const fn root(mut self) -> Self {
        self.who = Who::Root;
        self
    }

    const fn ordinary(mut self) -> Self {
        self.who = Who::Ordinary;
        self
    }

    const fn not_here(mut self) -> Self {
        self.who = Who::NotHere;
        self
    }

    const fn since(mut self, abi: u32) -> Self {
        self.since = abi;
        self
    }

    const fn under(mut self, need: Need) -> Self {
        self.need = need;
        self
    }
}

const fn row(by: By, what: &'static str, code: &'static str) -> Row {
    Row {
        what,
        code,
        by,
        who: Who::Anybody,
        need: Need::Default,
        since: 1,
    }
}

const fn landlock(what: &'static str, code: &'static str) -> Row {
    row(By::Landlock, what, code)
}

const fn seccomp(what: &'static str, code: &'static str) -> Row {
    row(By::Seccomp, what, code)
}

const fn domain(what: &'static str, code: &'static str) -> Row {
    row(By::Domain, what, code)
}

const fn gate(what: &'static str, code: &'static str) -> Row {
    row(By::Gate, what, code)
}

const fn everything(what: &'static str, code: &'static str) -> Row {
    row(By::Everything, what, code).root()
}

/// All of them.
pub const ROWS: &[Row] = &[
    // Files.
    landlock("read a private ssh key", "cat ~/.ssh/id_ed25519"),
    landlock("read cloud credentials", "cat ~/.aws/credentials"),
    landlock("read GnuPG's keys", "cat ~/.gnupg/secring.gpg"),
    landlock("read Kubernetes' credentials", "cat ~/.kube/config"),
    landlock("read docker's passwords", "cat ~/.docker/config.json"),
    landlock("read ~/.netrc", "cat ~/.netrc"),
    landlock("read a shell's history", "cat ~/.bash_history"),
    landlock("list the home directory", "ls ~"),
    landlock(
        "read a directory whose name begins as a granted one's",
        "cat ../project2/file",
    ),
    landlock("read by `..` from the project", "cat ../.ssh/id_ed25519"),
    landlock(
        "read by /proc/self/root",
        "cat /proc/self/root$HOME/.ssh/id_ed25519",
    ),
    landlock(
        "read by /proc/self/cwd",
        "cat /proc/self/cwd/../.ssh/id_ed25519",
    ),
    landlock(
        "read through a symbolic link",
        "ln -s ~/.ssh/id_ed25519 l && cat l",
    ),
    landlock(
        "read through a link that is swapped all the time",
        "$E race-link ~/.ssh/id_ed25519 ${ROUNDS:-20000}",
    ),
    landlock(
        "read through a hard link",
        "$E link ~/.ssh/id_ed25519 h && cat h",
    ),
    landlock(
        "move a file of others into the project",
        "$E rename $OUT/victim here",
    ),
    landlock("move a file out of the project", "$E rename file $OUT/new"),
    landlock("link a file out of the project", "$E link file $OUT/new"),
    landlock("write a new file outside", "echo x > $OUT/new"),
    landlock("append to a shell's settings", "echo evil >> ~/.bashrc"),
    landlock(
        "write through a symbolic link",
        "ln -s ~/.bashrc l && echo evil >> l",
    ),
    landlock("truncate a file outside", "$E truncate $OUT/victim").since(3),
    landlock("remove a file outside", "rm $OUT/victim"),
    landlock("make a directory outside", "mkdir $OUT/dir"),
    landlock("replace a program on PATH", "cp /bin/true ~/bin/git"),
    landlock("replace cargo", "cp /bin/true ~/.cargo/bin/cargo"),
    landlock(
        "start with the desktop session",
        "echo x > ~/.config/autostart/x.desktop",
    ),
    landlock(
        "execute a program outside",
        "cp /bin/true $OUT/new && $OUT/new",
    ),
    landlock("read /etc/shadow", "cat /etc/shadow").root(),
    landlock(
        "write the kernel's settings",
        "echo 1 > /proc/sys/vm/drop_caches",
    )
    .root(),
    landlock(
        "plant a cron job",
        "t=/etc/cron.d/ollie-escape; mkdir -p /etc/cron.d && : > $t && rm $t",
    )
    .root(),
    row(By::Capabilities, "make a device node", "$E mknod node").root(),
    row(By::Capabilities, "give a file away", "chown 12345 file").root(),
    landlock(
        "open a terminal of the same user",
        "script -qec true /dev/null",
    ),
    // Processes.
    landlock("signal another call", "$E kill $SIBLING").since(6),
    // The first attempt makes sure that there are such threads.
    landlock(
        "signal a thread of the gate",
        "$E unix stream $OUT/docker.sock; for t in /proc/$PPID/task/*; do \
         $E tgkill $PPID ${t##*/} && exit 0; done; exit 1",
    )
    .since(6),
    landlock("signal the call's own supervisor", "$E kill $PPID").since(6),
    domain(
        "read another call's environment",
        "cat /proc/$SIBLING/environ",
    ),
    domain("read another call's memory map", "cat /proc/$SIBLING/maps"),
    domain(
        "reach files by another call's root",
        "ls /proc/$SIBLING/root/",
    ),
    domain(
        "reach files by another call's directory",
        "ls /proc/$SIBLING/cwd/",
    ),
    domain(
        "open another call's descriptors",
        "ls -L /proc/$SIBLING/fd/0",
    ),
    domain("open another call's memory", ": < /proc/$SIBLING/mem"),
    domain("trace another call", "$E ptrace $SIBLING"),
    domain("trace the call's own supervisor", "$E ptrace $PPID").root(),
    domain("read another call's memory", "$E vmread $SIBLING"),
    domain("take a descriptor of another call", "$E getfd $SIBLING"),
    domain("take a descriptor of the supervisor", "$E getfd $PPID").root(),
    row(
        By::Descriptors,
        "use an inherited descriptor",
        "$E descriptors",
    ),
    row(
        By::Environment,
        "read a secret of the environment",
        r#"test -n "$SOME_TOKEN""#,
    ),
    row(
        By::Environment,
        "inherit a setting of the dynamic linker",
        "test -n \"${LD_AUDIT+set}\"",
    ),
    row(
        By::NoNewPrivileges,
        "become root by a setuid program",
        "$SUPERUSER superuser",
    )
    .ordinary(),
    // Sockets.
    landlock(
        "connect to an abstract socket outside",
        "$E abstract $ABSTRACT",
    )
    .since(6),
    gate(
        "connect to a socket like docker's",
        "$E unix stream $OUT/docker.sock",
    ),
    gate(
        "the same by a relative path",
        "cd $OUT; $E unix stream docker.sock",
    ),
    gate(
        "the same through a link",
        "ln -s $OUT/docker.sock l && $E unix stream l",
    ),
    gate(
        "the same by a descriptor of the directory",
        "$E unix-by-fd . $(realpath --relative-to=. $OUT)/docker.sock",
    ),
    gate(
        "connect to toolsrv's socket",
        "$E unix stream $TOOLSRV_SOCKET",
    ),
    seccomp(
        "send a datagram to a Unix socket",
        "$E unix datagram $OUT/log.sock",
    ),
    gate(
        "the same on a pair of datagram sockets",
        "$E pair-sendto $OUT/log.sock",
    ),
    // The network.
    row(
        By::Network,
        "connect by TCP, with `network: none`",
        "$E tcp $PORT",
    )
    .under(Need::NoNetwork),
    seccomp(
        "make a UDP socket, with `network: none`",
        "$E call 'udp socket'",
    )
    .under(Need::NoNetwork),
    seccomp(
        "make an IPv6 socket, with `network: none`",
        "$E call 'tcp6 socket'",
    )
    .under(Need::NoNetwork),
    landlock("connect to a port that is not listed", "$E tcp $PORT")
        .since(4)
        .under(Need::OtherPorts),
    landlock("listen on a port that is not listed", "$E listen 20209")
        .since(4)
        .under(Need::OtherPorts),
    seccomp("send by UDP where ports are listed", "$E call 'udp socket'").under(Need::OtherPorts),
    seccomp("use MPTCP where ports are listed", "$E call 'mptcp socket'").under(Need::OtherPorts),
    seccomp(
        "connect within a send where ports are listed",
        "$E fastopen $PORT",
    )
    .under(Need::OtherPorts),
    everything("make a raw socket", "$E call 'raw socket'"),
    everything("make a packet socket", "$E call 'packet socket'"),
    seccomp("make a vsock socket", "$E call 'vsock socket'"),
    seccomp("make a socket of the crypto API", "$E call 'alg socket'").not_here(),
    seccomp("listen to the kernel's audit", "$E call 'netlink audit'"),
    seccomp("change the firewall", "$E call 'netlink netfilter'"),
    // The kernel.
    seccomp("use io_uring", "$E call io_uring_setup"),
    seccomp("make a user namespace", "$E call 'unshare user'"),
    everything("make a mount namespace", "$E call 'unshare mount'"),
    everything("make a process namespace", "$E call 'unshare pid'"),
    everything("make a network namespace", "$E call 'unshare net'"),
    seccomp("enter a namespace", "$E call setns"),
    everything("mount", "$E call mount"),
    everything("unmount", "$E call umount"),
    everything("open a mount", "$E call open_tree"),
    everything("make a file system", "$E call fsopen"),
    everything("change a mount", "$E call mount_setattr"),
    everything("change the root of all", "$E call pivot_root"),
    everything("change the own root", "$E call chroot"),
    everything("load a module", "$E call init_module").not_here(),
    everything("unload a module", "$E call delete_module").not_here(),
    everything("load another kernel", "$E call kexec_load").not_here(),
    everything("load a BPF program", "$E call bpf"),
    seccomp("watch by perf events", "$E call perf_event_open"),
    seccomp("use a keyring", "$E call keyctl"),
    seccomp("add a key", "$E call add_key"),
    everything("handle page faults of the kernel", "$E call userfaultfd"),
    everything("open a file by its handle", "$E call open_by_handle_at"),
    everything("reboot", "$E call reboot"),
    everything("swap", "$E call swapon"),
    everything("stop swapping", "$E call swapoff"),
    everything("account", "$E call acct"),
    everything("set a clock", "$E call clock_settime"),
    everything("set the time of day", "$E call settimeofday"),
    everything("clear the kernel's log", "$E call syslog"),
    everything("set quotas", "$E call quotactl"),
    seccomp("type into a terminal", "$E call TIOCSTI"),
    seccomp(
        "the same with a bit set above",
        "$E call 'TIOCSTI with a bit above'",
    ),
    seccomp("paste into a console", "$E call TIOCLINUX"),
    #[cfg(target_arch = "x86_64")]
    seccomp("call by x32's numbers", "$E call 'x32 getpid'").not_here(),
    #[cfg(target_arch = "x86_64")]
    seccomp("call by the 32-bit table", "$E int80"),
    #[cfg(target_arch = "x86_64")]
    everything("use I/O ports", "$E call iopl").not_here(),
];
