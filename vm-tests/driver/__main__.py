"""Devboxes: guests with other kernels, and scenarios that run on them.

usage: driver test [SCENARIO]...   runs scenarios on all their guests
       driver list                 scenarios, and the guests they are for
       driver shell ROLE [USERLAND]   starts a guest and logs in

`cargo xtask devbox` calls this with three variables: OLLIE_DEVBOX, the directory
for everything that can be made again, OLLIE_DIST, that of olliesrv, and
OLLIE_ESCAPE, the program of the escape suite.
"""

import ctypes
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import house
import roles
import runner
import scenario
import userland
from client import Client
from house import Broken, Gap
from machine import Machine, RequestedAssertionFailed
from scenario import Job

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    # Ended from outside, and when whoever started us has gone, the way out is
    # the same as after a failure: through every `finally`.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, _ended)
    try:
        match arguments:
            case ["test", *names]:
                return _test(names)
            case ["list"]:
                return _list()
            case ["shell", role]:
                return _shell(role, "full")
            case ["shell", role, land]:
                return _shell(role, land)
            case ["one", name, role, land, directory]:
                return _one(Job(name, land, role), Path(directory))
        print(__doc__, file=sys.stderr)
        return 2
    except Gap as gap:
        print(f"gap: {gap}", flush=True)
        return runner.GAP
    except Broken as broken:
        print(f"devbox: {broken}", file=sys.stderr)
        return runner.FAILED
    except KeyboardInterrupt:
        return 130


def _ended(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _test(names: list[str]) -> int:
    _needs("qemu-system-x86_64", "depmod", "ssh", "sshd")
    jobs = scenario.jobs(names)
    said, unfilled = runner.gaps(jobs)
    for gap in said:
        print(f"gap: {gap}", flush=True)
    failed = runner.run([job for job in jobs if job.role not in unfilled])
    if failed:
        return runner.FAILED
    # Between the two lies what a user meets; without both nothing is shown.
    return runner.GAP if {"abi2", "newest"} <= unfilled else runner.PASSED


def _one(job: Job, directory: Path) -> int:
    try:
        scenario.run(job, directory)
    except (SystemExit, KeyboardInterrupt):
        raise
    except RequestedAssertionFailed:
        traceback.print_exc()
        return runner.REFUTED
    except Exception:
        traceback.print_exc()
        return runner.FAILED
    return runner.PASSED


def _list() -> int:
    for role in roles.ROLES:
        print(f"{role.name:<8} {role.why}")
    print()
    for job in scenario.jobs([]):
        print(job)
    return 0


def _shell(role: str, land: str) -> int:
    _needs("qemu-system-x86_64", "depmod", "ssh", "sshd")
    if role not in roles.BY_NAME or land not in userland.NAMES:
        raise Broken(f"roles: {', '.join(roles.BY_NAME)}; userlands: {', '.join(userland.NAMES)}")
    import images

    directory = house.directory("runs") / f"shell-{role}-{land}"
    shutil.rmtree(directory, ignore_errors=True)
    client = Client(directory / "client")
    devbox = Machine("devbox", images.image(role, land), directory / "devbox", lambda: client.knows({"devbox": devbox.port()}))
    try:
        devbox.start()
        users = ", ".join(["root", *(user.name for user in userland.users(land))])
        print(
            f"users: {users}. From another terminal, while this one is logged in:\n"
            f"    {house.dist()}/olliesrv exec --ssh {client.ssh} devbox -- uname -a"
        )
        # Ctrl-C belongs to the shell there.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return subprocess.run([client.ssh, "-t", "devbox"]).returncode
    finally:
        devbox.crash()
        client.close()


def _needs(*programs: str) -> None:
    import platform

    if platform.machine() != "x86_64":
        raise Gap("guests are made for x86_64 only, from this machine's own programs")
    missing = [name for name in programs if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    if missing:
        raise Gap(f"not installed: {', '.join(missing)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
