"""What is made once for all guests: ssh keys, and the program that probes."""

import fcntl
import subprocess
from pathlib import Path

import house
from house import Gap


def client() -> Path:
    """The key that every user of every guest lets in."""
    return _key("client")


def host() -> Path:
    """The key by which every guest is known."""
    return _key("host")


def _key(name: str) -> Path:
    path = house.directory("keys") / name
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"devbox-{name}", "-f", path])
    return path


def probe() -> Path:
    """The program that tries what a sandbox forbids, static."""
    source = house.scenarios() / "probe.c"
    program = house.directory("keys") / "probe"
    with open(program.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            _run(["cc", "-O1", "-static", "-Wall", "-Wextra", "-Werror", "-o", program, source])
    return program


def _run(command: list) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise Gap(f"{command[0]}: {error.strerror}")
    except subprocess.CalledProcessError as error:
        raise Gap(f"{command[0]} failed: {error.stderr.strip()}")
