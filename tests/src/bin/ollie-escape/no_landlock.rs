//! A kernel without Landlock, for a command and all that it starts: a seccomp
//! filter answers landlock_*(2), numbers 444 to 446 everywhere, with an errno.

use std::io::{Error, Result};
use std::os::unix::process::CommandExt as _;

/// `ERRNO -- COMMAND`: ENOSYS (38) as a kernel that has none, EOPNOTSUPP (95)
/// as one where it is disabled at boot. Returns only if that fails.
pub(crate) fn run(words: &[&str]) -> Option<Result<()>> {
    let ["no-landlock", errno, "--", program, arguments @ ..] = words else {
        return None;
    };
    let errno: u16 = errno.parse().ok()?;
    Some(
        install(errno)
            .and_then(|()| Err(std::process::Command::new(program).args(arguments).exec())),
    )
}

fn install(errno: u16) -> Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let (ret, ge, gt) = (
        libc::BPF_RET | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K,
    );
    // The system call's number is the first field of struct seccomp_data.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(ge, 0, 2, 444),
        step(gt, 1, 0, 446),
        step(ret, 0, 0, libc::SECCOMP_RET_ERRNO | u32::from(errno)),
        step(ret, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: numbers, and a filter that the kernel copies.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) != 0
    };
    match failed {
        true => Err(Error::last_os_error()),
        false => Ok(()),
    }
}
