//! What the confined program tries: one raw system call each. It prints `ok`
//! or the name of the error.

use std::ffi::CString;
use std::io::Write;

type Answer = Result<(), std::io::Error>;

/// Makes one attempt; exit status 0 whatever came of it, 2 for words that are
/// not understood.
pub(crate) fn run(words: &[String]) -> i32 {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["compile-without-landlock", errno] = words.as_slice() {
        return compile_without_landlock(errno.parse().unwrap_or(0));
    }
    if words.as_slice() == ["halves"] {
        return halves();
    }
    let Some(answer) = attempt(&words) else {
        return 2;
    };
    let text = match answer {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.raw_os_error().map_or_else(|| error.to_string(), name),
    };
    let _ = writeln!(std::io::stdout(), "{text}");
    0
}

fn name(errno: i32) -> String {
    match errno {
        libc::EPERM => "EPERM".into(),
        libc::EACCES => "EACCES".into(),
        libc::ENOSYS => "ENOSYS".into(),
        libc::EXDEV => "EXDEV".into(),
        libc::EAFNOSUPPORT => "EAFNOSUPPORT".into(),
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT".into(),
        libc::ECONNREFUSED => "ECONNREFUSED".into(),
        other => format!("errno {other}"),
    }
}

fn attempt(words: &[&str]) -> Option<Answer> {
    let number = |text: &str| text.parse::<i64>().unwrap_or(-1);
    Some(match words {
        ["mknod", path, kind] => {
            let kind = match *kind {
                "char" => libc::S_IFCHR,
                "block" => libc::S_IFBLK,
                _ => libc::S_IFIFO,
            };
            let path = CString::new(*path).ok()?;
            // SAFETY: `path` is a C string.
            check(unsafe { libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(1, 3)) }.into())
        }
        ["kill", pid] => {
            // SAFETY: signal 0 only asks.
            check(unsafe { libc::kill(i32::try_from(number(pid)).ok()?, 0) }.into())
        }
        ["socket", family, kind, protocol] => call(
            libc::SYS_socket,
            [number(family), number(kind), number(protocol)],
        ),
        ["ioctl", request] => call(libc::SYS_ioctl, [0, number(request), 0]),
        ["syscall", nr, first] => call(number(nr), [number(first), 0, 0]),
        ["clone", flags] => {
            // SAFETY: without CLONE_VM this is a fork; the child leaves at
            // once.
            let pid = unsafe { libc::syscall(libc::SYS_clone, number(flags) | 17, 0, 0, 0, 0) };
            if pid == 0 {
                // SAFETY: it only ends the child.
                unsafe { libc::_exit(0) };
            }
            check(pid)
        }
        ["connect", port] => {
            let port = u16::try_from(number(port)).ok()?;
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)
        }
        ["bind", port] => {
            let port = u16::try_from(number(port)).ok()?;
            std::net::TcpListener::bind(("127.0.0.1", port)).map(drop)
        }
        ["fastopen", port] => fast_open(u16::try_from(number(port)).ok()?),
        ["abstract", name] => abstract_connect(name),
        ["pair"] => std::os::unix::net::UnixStream::pair().map(drop),
        ["own-socket", path] => own_socket(path),
        ["ptrace", pid] => {
            let seize = 0x4206;
            call(libc::SYS_ptrace, [seize, number(pid), 0])
        }
        ["ptrace-own"] => ptrace_own(),
        ["pidfd-getfd", pid] => {
            // SAFETY: integers only.
            let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, number(pid), 0) };
            check(pidfd).and_then(|()| call(libc::SYS_pidfd_getfd, [pidfd, 1, 0]))
        }
        ["truncate", path] => {
            let path = CString::new(*path).ok()?;
            // SAFETY: `path` is a C string.
            check(unsafe { libc::truncate(path.as_ptr(), 0) }.into())
        }
        ["rename", from, to] => std::fs::rename(from, to),
        ["link", from, to] => std::fs::hard_link(from, to),
        ["thread"] => std::thread::Builder::new()
            .spawn(|| ())
            .map(|t| t.join().unwrap_or(())),
        #[cfg(target_arch = "x86_64")]
        ["int80"] => int80(),
        _ => {
            return crate::attempt_socket::attempt(words)
                .or_else(|| crate::attempt_pair::attempt(words));
        }
    })
}

/// Makes Landlock look absent or disabled, by a filter that answers for it,
/// and prints what compiling then says.
fn compile_without_landlock(errno: u32) -> i32 {
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let mut filter = [
        step(0x20, 0, 0),
        step(0x15, libc::SYS_landlock_create_ruleset as u32, 1),
        step(0x06, 0x0005_0000 | errno, 0),
        step(0x06, 0x7fff_0000, 0),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: `program` describes `filter`, and both outlive the calls.
    let loaded = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1u64, 0u64, 0u64, 0u64);
        libc::syscall(libc::SYS_seccomp, 1, 0, &raw const program)
    };
    let policy = plain_policy();
    let text = match policy {
        Ok(policy) if loaded == 0 => {
            let sure = ollie_sandbox::compile(&policy, false).map(|_| ());
            let yolo = ollie_sandbox::compile(&policy, true).map(|it| it.1.enforced);
            format!(
                "{sure:?} {yolo:?} {}",
                sure.as_ref()
                    .map_or_else(ToString::to_string, |()| String::new())
            )
        }
        other => format!("{loaded} {other:?}"),
    };
    let _ = writeln!(std::io::stdout(), "{text}");
    0
}

fn plain_policy() -> Result<ollie_sandbox::Policy, ollie_sandbox::Error> {
    let view = ollie_sandbox::HostView {
        cwd: std::path::Path::new("/usr/share"),
        home: None,
        tmpdir: None,
        path: None,
        tools_path: None,
        program: None,
        ollie_roots: &[],
        env: &|_| None,
        identity: None,
    };
    ollie_sandbox::layer("default", &[]).and_then(|l| l.expand(&view))
}

/// Goes through both halves of a confinement, and prints which capabilities
/// there are after each.
fn halves() -> i32 {
    let enforcement = plain_policy()
        .and_then(|policy| ollie_sandbox::compile(&policy, false))
        .map(|it| it.0)
        .unwrap();
    let gate = enforcement.gate().unwrap();
    let gate = gate.as_ref().map(ollie_sandbox::Gate::child_end);
    let print = |when: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let sets = status
            .lines()
            .filter(|l| l.starts_with("CapEff") || l.starts_with("CapBnd"));
        let sets: Vec<_> = sets.collect();
        let _ = writeln!(std::io::stdout(), "{when} {}", sets.join(" "));
    };
    let entered = enforcement.enter(gate).unwrap();
    print("entered");
    entered.finish().unwrap();
    print("finished");
    0
}

fn check(answer: i64) -> Answer {
    match answer {
        0.. => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn call(nr: i64, args: [i64; 3]) -> Answer {
    // SAFETY: the calls that are tried take integers, or fail on a null
    // pointer before they touch memory.
    check(unsafe { libc::syscall(nr, args[0], args[1], args[2], 0, 0, 0) })
}

fn fast_open(port: u16) -> Answer {
    // SAFETY: a plain socket, an address on the stack, one byte.
    check(unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be(),
            },
            sin_zero: [0; 8],
        };
        libc::sendto(
            fd,
            b"x".as_ptr().cast(),
            1,
            libc::MSG_FASTOPEN,
            (&raw const address).cast(),
            16,
        ) as i64
    })
}

fn abstract_connect(name: &str) -> Answer {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    std::os::unix::net::UnixStream::connect_addr(&address).map(drop)
}

/// A server and a client in one call, as test suites have them.
fn own_socket(path: &str) -> Answer {
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    let client = std::thread::spawn({
        let path = path.to_owned();
        move || std::os::unix::net::UnixStream::connect(path).map(drop)
    });
    listener.accept()?;
    client.join().unwrap_or(Ok(()))
}

/// What gdb does to a program it starts.
fn ptrace_own() -> Answer {
    // SAFETY: the child asks to be traced and leaves.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let traced = libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::_exit(i32::from(traced < 0));
        }
        let mut status = 0;
        check(libc::waitpid(pid, &raw mut status, 0).into())?;
        match libc::WEXITSTATUS(status) {
            0 => Ok(()),
            _ => Err(std::io::Error::from_raw_os_error(libc::EPERM)),
        }
    }
}

/// getpid by the table of 32-bit programs.
#[cfg(target_arch = "x86_64")]
fn int80() -> Answer {
    let mut answer: i64 = 20;
    // SAFETY: the call takes nothing and changes rax only.
    unsafe { std::arch::asm!("int 0x80", inout("rax") answer) };
    check(answer)
}
