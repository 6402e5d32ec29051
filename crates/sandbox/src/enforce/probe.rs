use ollie_protocol::Landlock;

use super::sys;
use crate::Error;

/// Asks the kernel for its Landlock ABI (landlock_create_ruleset(2),
/// LANDLOCK_CREATE_RULESET_VERSION). It costs one system call.
#[must_use]
pub fn probe() -> Landlock {
    match sys::landlock_abi() {
        Ok(abi) => Landlock { abi, problem: None },
        Err(errno) => Landlock {
            abi: 0,
            problem: Some(problem(errno).0),
        },
    }
}

/// The refusal that tells why there is no sandbox and what to do.
pub(crate) fn refusal(errno: i32) -> Error {
    let (reason, way_out) = problem(errno);
    Error::NoLandlock {
        reason,
        way_out: way_out.to_owned(),
    }
}

fn problem(errno: i32) -> (String, &'static str) {
    match errno {
        libc::ENOSYS => (
            "Landlock is not part of this kernel (ENOSYS)".to_owned(),
            "Use a kernel of 5.13 or later that is built with CONFIG_SECURITY_LANDLOCK",
        ),
        libc::EOPNOTSUPP => (
            "Landlock is part of this kernel and disabled at boot (EOPNOTSUPP)".to_owned(),
            "Add `landlock` to the kernel parameter `lsm=` and boot again",
        ),
        libc::EPERM | libc::EACCES => (
            format!(
                "something between this process and the kernel refuses Landlock ({})",
                std::io::Error::from_raw_os_error(errno)
            ),
            "In a container, use a seccomp profile that allows the system calls landlock_*",
        ),
        other => (
            format!(
                "the kernel answers the question for Landlock with: {}",
                std::io::Error::from_raw_os_error(other)
            ),
            "Look at the kernel's configuration",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_reason_and_the_way_out() {
        for (errno, reason, way_out) in [
            (libc::ENOSYS, "not part of this kernel", "5.13"),
            (libc::EOPNOTSUPP, "disabled at boot", "lsm="),
            (libc::EPERM, "refuses Landlock", "seccomp profile"),
        ] {
            let text = refusal(errno).to_string();
            for part in [reason, way_out, "--yolo"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
