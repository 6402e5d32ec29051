"""A scenario: a script, and which guests it is for.

The script is what a NixOS test calls its testScript. Lines of it that begin
with `#:` name a userland and the roles of the kernels, such as

    #: full on none abi2 off abi6 newest

and `#: fails on abi2` names those on which an assertion of it must fail.
"""

import ctypes
import os
import re
import time
import unittest
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import house
import images
import roles
import userland
from client import Client
from house import Broken
from machine import Machine, RequestedAssertionFailed, retry

_GUESTS = re.compile(r"^#: (\w+) on (.+)$", re.MULTILINE)
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Job:
    """One scenario on one guest."""

    scenario: str
    userland: str
    role: str
    # Whether it is there to show that what does not hold is found out.
    fails: bool = False

    def __str__(self) -> str:
        must = ", where it must fail" if self.fails else ""
        return f"{self.scenario} on {self.role}, {self.userland}{must}"


def jobs(names: list[str]) -> list[Job]:
    """All jobs of some scenarios, of all of them if none is named."""
    found = sorted(path.stem for path in house.scenarios().glob("*.py"))
    for name in names:
        if name not in found:
            raise Broken(f"no scenario {name}; there are {', '.join(found)}")
    listed = []
    for name in names or found:
        guests = _GUESTS.findall(script(name).read_text())
        fails = [role for word, on in guests if word == "fails" for role in on.split()]
        guests = [(land, on) for land, on in guests if land != "fails"]
        if not guests:
            raise Broken(f"{name} does not say which guests it is for")
        for land, on in guests:
            for role in on.split():
                if land not in userland.NAMES or role not in roles.BY_NAME:
                    raise Broken(f"{name}: there is no guest {role}-{land}")
                listed.append(Job(name, land, role, role in fails))
    return listed


def script(name: str) -> Path:
    return house.scenarios() / f"{name}.py"


class _Asserts(unittest.TestCase):
    """`t` of the NixOS driver."""

    failureException = RequestedAssertionFailed
    maxDiff = None


@contextmanager
def _subtest(name: str):
    start = time.monotonic()
    print(f"subtest: {name}", flush=True)
    try:
        yield
    except BaseException:
        print(f"subtest failed: {name}", flush=True)
        raise
    print(f"subtest passed: {name} ({time.monotonic() - start:.1f} s)", flush=True)


def run(job: Job, directory: Path) -> None:
    """Runs it in this process; whatever was started has ended afterwards."""
    # What olliesrv leaves behind becomes our child, so that it is seen.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    image = images.image(job.role, job.userland)
    client = Client(directory / "client")
    devbox = Machine("devbox", image, directory / "devbox", lambda: client.knows({"devbox": devbox.port()}))
    # copy_from_host goes through the client's ssh.
    os.environ["PATH"] = client.environment["PATH"]
    machines = [devbox, client]
    names = {
        "machines": machines,
        "client": client,
        "devbox": devbox,
        "start_all": lambda: [machine.start() for machine in machines],
        "subtest": _subtest,
        "retry": retry,
        "t": _Asserts(),
    }
    text = script(job.scenario).read_text()
    try:
        exec(compile(text, f"{job.scenario}.py", "exec"), names)
    except BaseException:
        print(f"the guest's console ends with:\n{devbox.console()}", flush=True)
        # What failed is the news, not what it left behind.
        for tidy in (lambda: client.left(patience=0), client.close):
            with suppress(RequestedAssertionFailed):
                tidy()
        raise
    finally:
        devbox.crash()
    client.left()
    client.close()
