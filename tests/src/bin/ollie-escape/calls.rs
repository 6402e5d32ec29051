//! System calls that are harmless as they are made here: their arguments are
//! nonsense, so that the kernel, if it comes to look at them, says so.

use std::io::{Error, Result};

/// Makes the call of this name.
pub(crate) fn run(words: &[&str]) -> Option<Result<()>> {
    let ["call", name] = words else { return None };
    let invalid = u64::MAX;
    let namespaces = |flag: i32| [flag as u64, 0, 0, 0, 0];
    let (number, args) = match *name {
        "io_uring_setup" => (libc::SYS_io_uring_setup, [0, 0, 0, 0, 0]),
        "unshare user" => (libc::SYS_unshare, namespaces(libc::CLONE_NEWUSER)),
        "unshare mount" => (libc::SYS_unshare, namespaces(libc::CLONE_NEWNS)),
        "unshare pid" => (libc::SYS_unshare, namespaces(libc::CLONE_NEWPID)),
        "unshare net" => (libc::SYS_unshare, namespaces(libc::CLONE_NEWNET)),
        "setns" => (libc::SYS_setns, [invalid, 0, 0, 0, 0]),
        "mount" => (libc::SYS_mount, [0, 0, 0, 0, 0]),
        "umount" => (libc::SYS_umount2, [0, 0, 0, 0, 0]),
        "open_tree" => (libc::SYS_open_tree, [invalid, 0, 0, 0, 0]),
        "fsopen" => (libc::SYS_fsopen, [0, 0, 0, 0, 0]),
        "mount_setattr" => (libc::SYS_mount_setattr, [invalid, 0, 0, 0, 0]),
        "pivot_root" => (libc::SYS_pivot_root, [0, 0, 0, 0, 0]),
        "chroot" => (libc::SYS_chroot, [0, 0, 0, 0, 0]),
        "init_module" => (libc::SYS_init_module, [0, 0, 0, 0, 0]),
        "delete_module" => (libc::SYS_delete_module, [0, 0, 0, 0, 0]),
        "kexec_load" => (libc::SYS_kexec_load, [0, 1 << 20, 0, 0, 0]),
        "bpf" => (libc::SYS_bpf, [invalid, 0, 0, 0, 0]),
        "perf_event_open" => (libc::SYS_perf_event_open, [0, 0, 0, invalid, 0]),
        "keyctl" => (libc::SYS_keyctl, [0, invalid - 2, 0, 0, 0]),
        "add_key" => (libc::SYS_add_key, [0, 0, 0, 0, 0]),
        "userfaultfd" => (libc::SYS_userfaultfd, [1 << 30, 0, 0, 0, 0]),
        "open_by_handle_at" => (libc::SYS_open_by_handle_at, [invalid, 0, 0, 0, 0]),
        "reboot" => (libc::SYS_reboot, [0, 0, 0, 0, 0]),
        "swapon" => (libc::SYS_swapon, [0, 0, 0, 0, 0]),
        "swapoff" => (libc::SYS_swapoff, [0, 0, 0, 0, 0]),
        "acct" => (libc::SYS_acct, [1, 0, 0, 0, 0]),
        "clock_settime" => (libc::SYS_clock_settime, [invalid, 0, 0, 0, 0]),
        "settimeofday" => (libc::SYS_settimeofday, [0, 1, 0, 0, 0]),
        "syslog" => (libc::SYS_syslog, [invalid, 0, 0, 0, 0]),
        "quotactl" => (libc::SYS_quotactl, [invalid, 0, 0, 0, 0]),
        // TIOCSTI, TIOCLINUX and TIOCCONS on what is no terminal.
        "TIOCSTI" => (libc::SYS_ioctl, [0, 0x5412, 0, 0, 0]),
        "TIOCSTI with a bit above" => (libc::SYS_ioctl, [0, 0x1_0000_5412, 0, 0, 0]),
        "TIOCLINUX" => (libc::SYS_ioctl, [0, 0x541c, 0, 0, 0]),
        "raw socket" => (libc::SYS_socket, [2, 3, 255, 0, 0]),
        "packet socket" => (libc::SYS_socket, [17, 3, 768, 0, 0]),
        "vsock socket" => (libc::SYS_socket, [40, 1, 0, 0, 0]),
        "alg socket" => (libc::SYS_socket, [38, 5, 0, 0, 0]),
        "netlink audit" => (libc::SYS_socket, [16, 3, 9, 0, 0]),
        "netlink netfilter" => (libc::SYS_socket, [16, 3, 12, 0, 0]),
        "mptcp socket" => (libc::SYS_socket, [2, 1, 262, 0, 0]),
        "udp socket" => (libc::SYS_socket, [2, 2, 0, 0, 0]),
        "tcp socket" => (libc::SYS_socket, [2, 1, 0, 0, 0]),
        "tcp6 socket" => (libc::SYS_socket, [10, 1, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        "x32 getpid" => (0x4000_0027, [0; 5]),
        #[cfg(target_arch = "x86_64")]
        "iopl" => (libc::SYS_iopl, [invalid, 0, 0, 0, 0]),
        _ => return None,
    };
    // SAFETY: no argument is a valid pointer, and no call with these does
    // anything.
    let answer = unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4]) };
    Some(match answer {
        0.. => Ok(()),
        _ => Err(Error::last_os_error()),
    })
}
