"""Runs jobs, two at a time, each in a process of its own with a time limit."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import house
import kernels
import roles
import userland
from house import Broken, Gap
from scenario import Job

# Two cores carry two emulated guests.
_AT_ONCE = 2
_LIMIT = 420.0
# An emulated guest on a busy machine may miss a moment: what fails is tried
# once more, and the closing lines tell of it.
_TRIES = 2

# What a job's process says about itself.
PASSED, FAILED, GAP, REFUTED = 0, 1, 3, 4


@dataclass
class _Running:
    job: Job
    number: int
    process: subprocess.Popen
    log: Path
    start: float = field(default_factory=time.monotonic)

    def took(self) -> float:
        return time.monotonic() - self.start

    def last_words(self) -> str:
        """The last line of its log, which is where an assertion says what it saw."""
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")[:300]


def gaps(jobs: list[Job]) -> tuple[list[str], set[str]]:
    """What cannot be had here, in words, and the roles that nobody can fill.
    Fetches the kernels that are missing."""
    said, unfilled = [], set()
    for role in sorted({job.role for job in jobs}, key=list(roles.BY_NAME).index):
        try:
            kernel = kernels.resolve(roles.BY_NAME[role])
            print(f"{role:<8} {kernel.version} of Debian {kernel.source.suite}", flush=True)
        except Gap as gap:
            unfilled.add(role)
            said.append(str(gap))
    said += [f"no {name} here, so its login shell is not tried" for name in userland.missing()]
    return said, unfilled


def run(jobs: list[Job]) -> int:
    """Runs all jobs and returns how many failed."""
    waiting, running, failed, flaky = [(job, 1) for job in jobs], [], [], []
    start = time.monotonic()
    lock = open(house.directory("runs") / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Broken("another run of the devboxes is under way in this checkout")
    try:
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                running.append(_start(*_next(waiting, running)))
            time.sleep(0.05)
            for one in list(running):
                if one.process.poll() is None and one.took() > _LIMIT:
                    _end(one)
                if one.process.poll() is not None:
                    running.remove(one)
                    if _report(one):
                        continue
                    if one.number < _TRIES:
                        waiting.append((one.job, one.number + 1))
                        flaky.append((one.job, one.last_words()))
                    else:
                        flaky = [(job, reason) for job, reason in flaky if job != one.job]
                        failed.append((one.job, one.last_words()))
    finally:
        for one in running:
            _end(one)
    minutes = (time.monotonic() - start) / 60
    for job, reason in flaky:
        print(f"flaky: {job}: {reason}")
    for job, reason in failed:
        print(f"failed: {job}: {reason}")
    print(f"{minutes:.1f} minutes")
    print(f"devboxes: {len(jobs) - len(failed)} passed, {len(failed)} failed, {len(flaky)} flaky", flush=True)
    return len(failed)


def _next(waiting: list[tuple[Job, int]], running: list[_Running]) -> tuple[Job, int]:
    """Rather one whose guest nobody is making at this moment."""
    busy = {(one.job.role, one.job.userland) for one in running}
    free = [(job, number) for job, number in waiting if (job.role, job.userland) not in busy]
    chosen = (free or waiting)[0]
    waiting.remove(chosen)
    return chosen


def _start(job: Job, number: int) -> _Running:
    directory = house.directory("runs") / f"{job.scenario}-{job.role}-{job.userland}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    log = directory / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-B", Path(__file__).parent, "one", job.scenario, job.role, job.userland, directory],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    return _Running(job, number, process, log)


def _report(one: _Running) -> bool:
    passed = one.process.returncode == (REFUTED if one.job.fails else PASSED)
    print(f"{'ok    ' if passed else 'FAILED'} {one.took():6.1f} s  {one.job}", flush=True)
    if not passed:
        print(one.log.read_text(errors="replace")[-12000:], flush=True)
    return passed


def _end(one: _Running) -> None:
    """Asks first, so that the job ends its guest and its client in order."""
    if one.process.poll() is not None:
        return
    with open(one.log, "a") as log:
        log.write(f"\nended after {one.took():.0f} s\n")
    one.process.send_signal(signal.SIGTERM)
    try:
        one.process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
