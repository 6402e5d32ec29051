//! The basement: system calls that no safe wrapper has.
#![expect(
    unsafe_code,
    reason = "landlock_restrict_self, capset and seccomp between fork and exec need raw calls that neither allocate nor lock"
)]

pub(crate) mod notify;
pub(crate) mod pair;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::enforcement::{Limit, Plan, Step};
use crate::Identity;
use crate::seccomp::Instruction;

/// RLIMIT_NOFILE and RLIMIT_FSIZE of asm-generic/resource.h; each C library
/// gives them another type.
pub(crate) const NOFILE: u32 = 7;
pub(crate) const FSIZE: u32 = 1;

/// LANDLOCK_CREATE_RULESET_VERSION
const VERSION: u32 = 1;
/// RESOLVE_NO_SYMLINKS of openat2(2)
const NO_SYMLINKS: u64 = 0x04;
/// _LINUX_CAPABILITY_VERSION_3
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// PR_CAP_AMBIENT_CLEAR_ALL
const CLEAR_ALL: u64 = 4;
/// SECCOMP_SET_MODE_FILTER
const SET_MODE_FILTER: u32 = 1;
/// SECCOMP_FILTER_FLAG_NEW_LISTENER
const NEW_LISTENER: u32 = 1 << 3;
/// SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19. Without it a signal
/// ends the wait and the kernel starts the call again, when the connection may
/// have been made already.
const WAIT_KILLABLE: u32 = 1 << 5;

/// The kernel's Landlock ABI, or the errno that says why there is none.
pub(crate) fn landlock_abi() -> Result<u32, i32> {
    // SAFETY: with this flag the kernel reads no memory and makes no
    // descriptor; it answers a number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            VERSION,
        )
    };
    match u32::try_from(answer) {
        Ok(0) => Err(libc::EOPNOTSUPP),
        Ok(abi) => Ok(abi),
        Err(_) => Err(errno()),
    }
}

/// Opens a canonical path without any right on it. No component may be a link:
/// one that is there now was put there after the policy was resolved.
pub(crate) fn open_path(path: &Path) -> io::Result<File> {
    #[repr(C)]
    struct How {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
    let name = CString::new(path.as_os_str().as_bytes())?;
    let how = How {
        flags: (libc::O_PATH | libc::O_CLOEXEC) as u64,
        mode: 0,
        resolve: NO_SYMLINKS,
    };
    // SAFETY: `name` is a C string and `how` a struct open_how of the size
    // that is given; both outlive the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            name.as_ptr(),
            &raw const how,
            size_of::<How>(),
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel just made this descriptor and nobody else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The highest capability of this kernel.
pub(crate) fn last_capability() -> u32 {
    // PR_CAPBSET_READ is EINVAL for a capability that does not exist
    // (capabilities(7)); two words of 32 hold all there can be.
    (0..64)
        .take_while(|cap| read_bounding_set(*cap).is_ok())
        .last()
        .unwrap_or(0)
}

/// See [`Identity::of_this_process`].
pub(crate) fn identity() -> io::Result<Identity> {
    // SAFETY: with a length of 0 the kernel writes nothing and counts.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).map_err(|_| io::Error::last_os_error())?];
    // SAFETY: `groups` has room for `count` of them.
    let count = unsafe { libc::getgroups(count, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).map_err(|_| io::Error::last_os_error())?);
    Ok(Identity {
        // SAFETY: these two cannot fail.
        uid: unsafe { libc::geteuid() },
        // SAFETY: as above.
        gid: unsafe { libc::getegid() },
        groups,
    })
}

/// See [`super::Enforcement::enter`]. Async-signal-safe: system calls on data
/// that was prepared before the fork.
pub(crate) fn enter_all(
    ruleset: BorrowedFd<'_>,
    plan: &Plan,
    gate: Option<BorrowedFd<'_>>,
) -> Result<(), (Step, i32)> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map_err(|e| (Step::NoNewPrivileges, e))?;
    // SAFETY: the descriptor is borrowed, so it is open.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) })
        .map_err(|e| (Step::Landlock, e))?;
    prctl(libc::PR_CAP_AMBIENT, CLEAR_ALL, 0)
        .and_then(|()| drop_bounding_set(plan.last_capability))
        .map_err(|e| (Step::Capabilities, e))?;
    match gate {
        None => load(&plan.filter, 0).map(drop),
        Some(gate) => load_with_listener(&plan.filter, gate),
    }
    .map_err(|e| (Step::Seccomp, e))
}

/// See [`super::Entered::finish`].
pub(crate) fn finish(plan: &Plan) -> Result<(), (Step, i32)> {
    for limit in &plan.limits {
        cap_limit(limit).map_err(|e| (Step::Limits, e))?;
    }
    drop_thread_capabilities().map_err(|e| (Step::Capabilities, e))
}

/// Enters a Landlock domain and keeps the rest.
pub(crate) fn enter(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
        .and_then(|()| {
            // SAFETY: the descriptor is borrowed, so it is open.
            check(unsafe {
                libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32)
            })
        })
        .map_err(io::Error::from_raw_os_error)
}

/// Lowers both halves of a limit and raises neither.
fn cap_limit(limit: &Limit) -> Result<(), i32> {
    #[repr(C)]
    struct Rlimit {
        soft: u64,
        hard: u64,
    }
    let mut now = Rlimit { soft: 0, hard: 0 };
    // SAFETY: `now` is a struct rlimit64 and outlives the call; pid 0 is the
    // caller.
    check(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            limit.resource,
            std::ptr::null::<Rlimit>(),
            &raw mut now,
        )
    })?;
    let new = Rlimit {
        soft: now.soft.min(limit.most),
        hard: now.hard.min(limit.most),
    };
    // SAFETY: `new` is a struct rlimit64 and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            limit.resource,
            &raw const new,
            std::ptr::null_mut::<Rlimit>(),
        )
    })
}

/// Empties the bounding set. What is out of it already is only asked for,
/// which costs a twentieth of dropping it.
fn drop_bounding_set(last: u32) -> Result<(), i32> {
    for cap in 0..=last {
        if read_bounding_set(cap)? == 0 {
            continue;
        }
        match prctl(libc::PR_CAPBSET_DROP, cap.into(), 0) {
            // Without CAP_SETPCAP the bounding set cannot be changed. It gives
            // nothing back either: under no_new_privs an exec never adds to
            // the permitted set, which is emptied after this.
            Err(libc::EPERM) => break,
            answer => answer?,
        }
    }
    Ok(())
}

fn read_bounding_set(cap: u32) -> Result<libc::c_long, i32> {
    // SAFETY: this option takes integers only.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_prctl,
            libc::PR_CAPBSET_READ,
            u64::from(cap),
            0u64,
            0u64,
            0u64,
        )
    };
    check(answer).map(|()| answer)
}

/// Empties the effective, permitted and inheritable sets of this thread.
pub(crate) fn drop_thread_capabilities() -> Result<(), i32> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let mut header = Header {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    // effective, permitted, inheritable, for the low and the high word.
    let none = [[0u32; 3]; 2];
    // SAFETY: version 3 takes a header and two triples; both outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, none.as_ptr()) })
}

/// The listener goes to whoever has the other end of `gate`; this process's
/// own copy is closed on exec.
fn load_with_listener(filter: &[Instruction], gate: BorrowedFd<'_>) -> Result<(), i32> {
    let listener = match load(filter, NEW_LISTENER | WAIT_KILLABLE) {
        Err(libc::EINVAL) => load(filter, NEW_LISTENER)?,
        other => other?,
    };
    notify::send(gate, listener)
}

/// Whether the kernel keeps a thread asking, once its question is taken, until
/// it is answered or killed. Flags are looked at before the program, of which
/// there is none here (seccomp(2): EINVAL for a flag, EFAULT for a pointer).
pub(crate) fn asking_is_kept_up() -> bool {
    // SAFETY: with a null pointer there is nothing to read and to load.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            NEW_LISTENER | WAIT_KILLABLE,
            std::ptr::null::<libc::sock_fprog>(),
        )
    };
    check(answer) == Err(libc::EFAULT)
}

fn load(filter: &[Instruction], flags: u32) -> Result<i32, i32> {
    let length = u16::try_from(filter.len()).map_err(|_| libc::EINVAL)?;
    let program = libc::sock_fprog {
        len: length,
        // Instruction has the layout of struct sock_filter; the kernel only
        // reads it.
        filter: filter.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `program` describes `filter`, and both outlive the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    check(answer)?;
    i32::try_from(answer).map_err(|_| libc::EBADF)
}

/// prctl(2) takes five words, and some options insist that the rest is zero.
fn prctl(option: i32, first: u64, second: u64) -> Result<(), i32> {
    // SAFETY: the options used here take integers only.
    check(unsafe { libc::syscall(libc::SYS_prctl, option, first, second, 0u64, 0u64) })
}

fn check(answer: libc::c_long) -> Result<(), i32> {
    if answer < 0 { Err(errno()) } else { Ok(()) }
}

fn errno() -> i32 {
    // Reads a thread-local integer.
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Instruction>(), size_of::<libc::sock_filter>());
        assert_eq!(align_of::<Instruction>(), align_of::<libc::sock_filter>());
        assert_eq!(
            std::mem::offset_of!(Instruction, k),
            std::mem::offset_of!(libc::sock_filter, k)
        );
    }

    #[test]
    fn no_component_of_an_opened_path_is_a_link() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::fs::write(top.join("real/file"), "").unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        assert!(open_path(&top.join("real/file")).is_ok());
        for link in ["link", "link/file"] {
            let error = open_path(&top.join(link)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{link}");
        }
    }

    #[test]
    fn the_last_capability_is_the_one_that_proc_names() {
        let text = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap();
        assert_eq!(last_capability(), text.trim().parse::<u32>().unwrap());
    }
}
