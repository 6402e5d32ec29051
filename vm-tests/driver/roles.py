"""The kernels that a devbox can have, by the role they play in the tests.

A role is filled by the first of its sources that the machine's Debian mirror
still has. Versions are not named: suites move, and exact versions vanish.
"""

from dataclasses import dataclass

# What the guest's own probe says of Landlock: an ABI, or why there is none.
ABSENT = "ENOSYS"
DISABLED = "EOPNOTSUPP"


@dataclass(frozen=True)
class Source:
    """One place where a kernel for a role may come from."""

    suite: str
    # Security updates lie on a mirror of their own.
    security: bool = False
    # Appended to the kernel's command line.
    append: str = ""
    # What the guest must see: exactly `ABSENT` or `DISABLED`, or ABIs.
    lowest: int = 0
    highest: int = 0
    refusal: str = ""


@dataclass(frozen=True)
class Role:
    """A kind of kernel, and why a test wants it."""

    name: str
    why: str
    sources: tuple[Source, ...]


# Landlock stays out when the list of security modules does not name it.
_WITHOUT = "lsm=lockdown,yama,integrity,apparmor"

ROLES = (
    Role(
        "none",
        "no Landlock in the kernel: before Linux 5.13",
        (
            Source("bullseye-security", security=True, refusal=ABSENT),
            Source("bullseye", refusal=ABSENT),
        ),
    ),
    Role(
        "abi2",
        "Landlock ABI 2, Linux 5.19 to 6.1: no TRUNCATE, TCP, IOCTL_DEV, scopes",
        (
            Source("bookworm", lowest=2, highest=2),
            Source("bookworm-security", security=True, lowest=2, highest=2),
        ),
    ),
    Role(
        "off",
        "Landlock is compiled in, but lsm= on the kernel's command line leaves it out",
        (
            Source("bookworm", append=_WITHOUT, refusal=DISABLED),
            Source("bookworm-security", security=True, append=_WITHOUT, refusal=DISABLED),
            Source("trixie", append=_WITHOUT, refusal=DISABLED),
        ),
    ),
    Role(
        "abi6",
        "Landlock ABI 6, Linux 6.12: scopes, but no rule for pathname sockets",
        (
            Source("trixie", lowest=6, highest=6),
            Source("trixie-security", security=True, lowest=6, highest=6),
        ),
    ),
    Role(
        "newest",
        "the newest Landlock that Debian has, at least ABI 9: pathname sockets",
        (
            Source("trixie-backports", lowest=9, highest=99),
            Source("sid", lowest=9, highest=99),
        ),
    ),
)

BY_NAME = {role.name: role for role in ROLES}
