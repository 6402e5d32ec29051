//! What is refused whatever its arguments are, and why.

/// Errno values are the same on both processors (asm-generic/errno*.h).
pub(crate) const EPERM: u16 = 1;
pub(crate) const EACCES: u16 = 13;
pub(crate) const ENOSYS: u16 = 38;
pub(crate) const EPROTONOSUPPORT: u16 = 93;
pub(crate) const EAFNOSUPPORT: u16 = 97;

/// One system call that no tool gets.
#[derive(Debug)]
pub(crate) struct Refusal {
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "read by the tests, which compare it with the system's headers"
        )
    )]
    pub(crate) name: &'static str,
    /// Its number in arch/x86/entry/syscalls/syscall_64.tbl.
    pub(crate) x86_64: Option<u32>,
    /// Its number in include/uapi/asm-generic/unistd.h.
    pub(crate) aarch64: Option<u32>,
    /// What the caller is told. ENOSYS where programs ask whether the kernel
    /// has it and have another way, EPERM where the kernel itself would say so.
    pub(crate) errno: u16,
    /// Why.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the reader, and checked by the tests")
    )]
    pub(crate) reason: &'static str,
}

const fn row(
    name: &'static str,
    x86_64: u32,
    aarch64: u32,
    errno: u16,
    reason: &'static str,
) -> Refusal {
    Refusal {
        name,
        x86_64: Some(x86_64),
        aarch64: Some(aarch64),
        errno,
        reason,
    }
}

const fn x86(name: &'static str, number: u32, reason: &'static str) -> Refusal {
    Refusal {
        name,
        x86_64: Some(number),
        aarch64: None,
        errno: EPERM,
        reason,
    }
}

const RING: &str = "does file and network operations that this filter never sees";
const NAMESPACE: &str = "another namespace has other rules";
const MOUNT: &str = "changes what a path means";
const CODE: &str = "loads code into the kernel";
const MACHINE: &str = "acts on the whole machine";
const CLOCK: &str = "sets the machine's clock";
const KEYS: &str = "keyrings are shared by all sessions of a user";
const SURFACE: &str = "a large surface of the kernel that builds do not need";

pub(crate) const REFUSALS: &[Refusal] = &[
    row("io_uring_setup", 425, 425, ENOSYS, RING),
    row("io_uring_enter", 426, 426, ENOSYS, RING),
    row("io_uring_register", 427, 427, ENOSYS, RING),
    row(
        "clone3",
        435,
        435,
        ENOSYS,
        "its flags lie in memory, where this filter cannot look for namespaces; libraries fall back to clone",
    ),
    row("setns", 308, 268, EPERM, NAMESPACE),
    row("chroot", 161, 51, EPERM, MOUNT),
    row("pivot_root", 155, 41, EPERM, MOUNT),
    row("mount", 165, 40, EPERM, MOUNT),
    row("umount2", 166, 39, EPERM, MOUNT),
    row("open_tree", 428, 428, EPERM, MOUNT),
    row("open_tree_attr", 467, 467, EPERM, MOUNT),
    row("move_mount", 429, 429, EPERM, MOUNT),
    row("fsopen", 430, 430, EPERM, MOUNT),
    row("fsconfig", 431, 431, EPERM, MOUNT),
    row("fsmount", 432, 432, EPERM, MOUNT),
    row("fspick", 433, 433, EPERM, MOUNT),
    row("mount_setattr", 442, 442, EPERM, MOUNT),
    row(
        "open_by_handle_at",
        304,
        265,
        EPERM,
        "opens a file without walking to it, so past every rule on a path",
    ),
    row("init_module", 175, 105, EPERM, CODE),
    row("finit_module", 313, 273, EPERM, CODE),
    row("delete_module", 176, 106, EPERM, CODE),
    row("kexec_load", 246, 104, EPERM, CODE),
    row("kexec_file_load", 320, 294, EPERM, CODE),
    row("bpf", 321, 280, EPERM, CODE),
    row(
        "perf_event_open",
        298,
        241,
        EPERM,
        "samples other processes, and a large surface",
    ),
    row(
        "userfaultfd",
        323,
        282,
        EPERM,
        "holds the kernel at a page fault, which exploits are built on",
    ),
    row("add_key", 248, 217, ENOSYS, KEYS),
    row("request_key", 249, 218, ENOSYS, KEYS),
    row("keyctl", 250, 219, ENOSYS, KEYS),
    row("reboot", 169, 142, EPERM, MACHINE),
    row("swapon", 167, 224, EPERM, MACHINE),
    row("swapoff", 168, 225, EPERM, MACHINE),
    row("acct", 163, 89, EPERM, MACHINE),
    row("quotactl", 179, 60, EPERM, MACHINE),
    row("quotactl_fd", 443, 443, EPERM, MACHINE),
    row("sethostname", 170, 161, EPERM, MACHINE),
    row("setdomainname", 171, 162, EPERM, MACHINE),
    row("vhangup", 153, 58, EPERM, MACHINE),
    row(
        "syslog",
        103,
        116,
        EPERM,
        "the kernel's log tells addresses and other users' doings",
    ),
    row("settimeofday", 164, 170, EPERM, CLOCK),
    row("clock_settime", 227, 112, EPERM, CLOCK),
    row("clock_adjtime", 305, 266, EPERM, CLOCK),
    row("adjtimex", 159, 171, EPERM, CLOCK),
    row("lookup_dcookie", 212, 18, ENOSYS, SURFACE),
    row("nfsservctl", 180, 42, ENOSYS, SURFACE),
    row(
        "fanotify_init",
        300,
        262,
        EPERM,
        "watches files by mount, past every rule on a path",
    ),
    x86("iopl", 172, "gives the processor's ports"),
    x86("ioperm", 173, "gives the processor's ports"),
    x86("uselib", 134, SURFACE),
    x86("_sysctl", 156, SURFACE),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers, from the C library of the machine that runs the test. A
    /// name that the library does not know yet is left out.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_numbers_are_those_of_the_system() {
        let known: &[(&str, libc::c_long)] = &[
            ("io_uring_setup", libc::SYS_io_uring_setup),
            ("io_uring_enter", libc::SYS_io_uring_enter),
            ("io_uring_register", libc::SYS_io_uring_register),
            ("clone3", libc::SYS_clone3),
            ("setns", libc::SYS_setns),
            ("chroot", libc::SYS_chroot),
            ("pivot_root", libc::SYS_pivot_root),
            ("mount", libc::SYS_mount),
            ("umount2", libc::SYS_umount2),
            ("open_tree", libc::SYS_open_tree),
            ("move_mount", libc::SYS_move_mount),
            ("fsopen", libc::SYS_fsopen),
            ("fsconfig", libc::SYS_fsconfig),
            ("fsmount", libc::SYS_fsmount),
            ("fspick", libc::SYS_fspick),
            ("mount_setattr", libc::SYS_mount_setattr),
            ("open_by_handle_at", libc::SYS_open_by_handle_at),
            ("init_module", libc::SYS_init_module),
            ("finit_module", libc::SYS_finit_module),
            ("delete_module", libc::SYS_delete_module),
            ("kexec_load", libc::SYS_kexec_load),
            ("kexec_file_load", libc::SYS_kexec_file_load),
            ("bpf", libc::SYS_bpf),
            ("perf_event_open", libc::SYS_perf_event_open),
            ("userfaultfd", libc::SYS_userfaultfd),
            ("add_key", libc::SYS_add_key),
            ("request_key", libc::SYS_request_key),
            ("keyctl", libc::SYS_keyctl),
            ("reboot", libc::SYS_reboot),
            ("swapon", libc::SYS_swapon),
            ("swapoff", libc::SYS_swapoff),
            ("acct", libc::SYS_acct),
            ("quotactl", libc::SYS_quotactl),
            ("sethostname", libc::SYS_sethostname),
            ("setdomainname", libc::SYS_setdomainname),
            ("vhangup", libc::SYS_vhangup),
            ("syslog", libc::SYS_syslog),
            ("settimeofday", libc::SYS_settimeofday),
            ("clock_settime", libc::SYS_clock_settime),
            ("clock_adjtime", libc::SYS_clock_adjtime),
            ("adjtimex", libc::SYS_adjtimex),
            ("lookup_dcookie", libc::SYS_lookup_dcookie),
            ("nfsservctl", libc::SYS_nfsservctl),
            ("fanotify_init", libc::SYS_fanotify_init),
            ("iopl", libc::SYS_iopl),
            ("ioperm", libc::SYS_ioperm),
            ("uselib", libc::SYS_uselib),
            ("_sysctl", libc::SYS__sysctl),
        ];
        for (name, number) in known {
            let row = REFUSALS.iter().find(|r| r.name == *name).unwrap();
            assert_eq!(row.x86_64.map(i64::from), Some(*number), "{name}");
        }
        // quotactl_fd and open_tree_attr are younger than the library.
        assert_eq!(known.len() + 2, REFUSALS.len());
    }

    #[test]
    fn every_refusal_has_a_reason_and_is_listed_once() {
        for (at, row) in REFUSALS.iter().enumerate() {
            assert!(row.reason.len() > 10, "{}", row.name);
            for other in &REFUSALS[at + 1..] {
                assert_ne!(row.name, other.name);
                assert!(
                    row.x86_64.is_none() || row.x86_64 != other.x86_64,
                    "{}",
                    row.name
                );
                assert!(
                    row.aarch64.is_none() || row.aarch64 != other.aarch64,
                    "{}",
                    row.name
                );
            }
        }
    }
}
