"""A guest with the surface that the NixOS test driver gives a machine.

Scripts keep to what stands here, so that they run under both. The names,
arguments and defaults are those of the NixOS manual, "Machine objects".
"""

import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from house import Broken
from images import Image


class RequestedAssertionFailed(Exception):
    """What a script asked for did not hold."""


def retry(fn, timeout_seconds: int = 900) -> None:
    """Calls `fn(False)` until it is true; the last try is told so by `fn(True)`."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if fn(False):
            return
        time.sleep(0.1)
    if not fn(True):
        raise RequestedAssertionFailed(f"not within {timeout_seconds} seconds")


class Commands:
    """What can be done with anything that executes commands."""

    name = ""

    def execute(self, command: str, check_return=True, check_output=True, timeout: int | None = 900):
        """Status and standard output of a command in a POSIX shell, with
        `set -euo pipefail`."""
        raise NotImplementedError

    def succeed(self, *commands: str, timeout: int | None = None) -> str:
        """The output of commands that must all succeed."""
        output = ""
        for command in commands:
            status, said = self.execute(command, timeout=timeout or 900)
            if status:
                raise RequestedAssertionFailed(f"{self.name}: `{command}` ended with {status}:\n{said}")
            output += said
        return output

    def fail(self, *commands: str, timeout: int | None = None) -> str:
        """The output of commands that must all fail."""
        output = ""
        for command in commands:
            status, said = self.execute(command, timeout=timeout or 900)
            if not status:
                raise RequestedAssertionFailed(f"{self.name}: `{command}` succeeded:\n{said}")
            output += said
        return output

    def _wait(self, command: str, right, timeout: int) -> str:
        said = ""

        def attempt(last: bool) -> bool:
            nonlocal said
            status, said = self.execute(command, timeout=timeout)
            if last and not right(status):
                raise RequestedAssertionFailed(f"{self.name}: `{command}` still ends with {status}:\n{said}")
            return right(status)

        retry(attempt, timeout)
        return said

    def wait_until_succeeds(self, command: str, timeout: int = 900) -> str:
        return self._wait(command, lambda status: status == 0, timeout)

    def wait_until_fails(self, command: str, timeout: int = 900) -> str:
        return self._wait(command, lambda status: status != 0, timeout)

    def wait_for_file(self, filename: str, timeout: int = 900) -> None:
        self.wait_until_succeeds(f"test -e {shlex.quote(filename)}", timeout)

    def wait_for_open_port(self, port: int, addr: str = "localhost", timeout: int = 900) -> None:
        """Until something listens on the port; looks instead of connecting."""
        listens = f"cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ':{port:04X} [0-9A-F]*:0000 0A'"
        self.wait_until_succeeds(listens, timeout)


class Machine(Commands):
    """One guest, a clone of an image."""

    # Without systemd, what a script may wait for, and how it is seen.
    _UNITS = ("multi-user.target", "default.target", "network.target", "sshd.service", "sshd")

    def __init__(self, name: str, image: Image, directory: Path, changed):
        self.name = name
        self._image = image
        self._directory = directory
        # Told when the port has changed.
        self._changed = changed
        self._guest = None
        self._shell = None

    def start(self, allow_reboot: bool = False) -> None:
        """Starts it, if it does not run: from the saved image, which is as if
        it had just booted."""
        if self._guest is None:
            self._guest, self._shell = self._image.start(self._directory)
            self._changed()

    def boot(self) -> None:
        """As `start`, but from the kernel on. Not of the NixOS driver's surface."""
        self._guest, self._shell = self._image.boot(self._directory)
        self._changed()

    def port(self) -> int | None:
        """The port of 127.0.0.1 that leads to its sshd, if it runs."""
        return self._guest.port() if self._guest else None

    def execute(self, command: str, check_return=True, check_output=True, timeout: int | None = 900):
        self.start()
        print(f"{self.name}: {command}", flush=True)
        return self._shell.run(command, timeout)

    def wait_for_unit(self, unit: str, user: str | None = None, timeout: int = 900) -> None:
        if unit not in self._UNITS or user:
            raise Broken(f"{self.name} has no systemd and nothing like {unit}")
        self.wait_for_open_port(22, timeout=timeout)

    def copy_from_host(self, source: str, target: str) -> None:
        """Copies a file or a directory over ssh as root; its owner is root."""
        path, to = Path(source), Path(target)
        self.succeed(f"mkdir -p {shlex.quote(str(to.parent))}")
        packed = subprocess.run(
            ["tar", "--create", "--file", "-", "--owner=0", "--group=0",
             "--directory", path.parent, path.name],
            check=True, capture_output=True,
        ).stdout  # fmt: skip
        tar = "/libexec/devbox/busybox tar -x -f - -C"
        unpack = f"d=$(mktemp -d) && {tar} $d && rm -rf {shlex.quote(target)} && mv $d/* {shlex.quote(target)}"
        subprocess.run(["ssh", f"root@{self.name}", unpack], input=packed, check=True)

    def block(self) -> None:
        """Pulls the network cable."""
        self._guest.command("set_link", name="net0", up=False)

    def unblock(self) -> None:
        self._guest.command("set_link", name="net0", up=True)

    def crash(self) -> None:
        """Pulls the plug."""
        if self._guest:
            self._shell.close()
            self._guest.kill()
        self._guest = self._shell = None

    def shutdown(self) -> None:
        """Ends it in order."""
        if self._guest:
            with suppress(Broken):
                self._shell.run("sync; echo o >/proc/sysrq-trigger; sleep 30", 60)
            if not self._guest.wait(30):
                raise Broken(f"{self.name} does not shut down")
        self.crash()

    def console(self) -> str:
        """The end of what its kernel and sshd said."""
        return self._guest.tail() if self._guest else ""
