"""One QEMU process: started, saved, restored, ended by its own handle."""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from house import Broken

# Without hardware help on purpose: where /dev/kvm opens it may still hang.
_ACCELERATOR = "tcg,thread=multi"
_MEGABYTES = "512"
_PR_SET_PDEATHSIG = 1


class Qemu:
    """A running guest in a directory of its own."""

    def __init__(self, directory: Path, image: Path, initrd: Path, append: str, saved: Path | None = None):
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.console = directory / "console"
        # A Unix socket's name has 107 bytes, which a checkout's path may fill.
        self._sockets = Path(tempfile.mkdtemp(prefix="devbox-"))
        self.shell_socket = self._sockets / "shell"
        # fmt: off
        command = [
            "nice", "-n", "5", "qemu-system-x86_64", "-name", "devbox",
            "-accel", _ACCELERATOR, "-cpu", "max", "-M", "pc", "-m", _MEGABYTES, "-smp", "1",
            "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-kernel", str(image), "-initrd", str(initrd),
            "-append", f"console=ttyS0 quiet panic=-1 {append}".strip(),
            "-serial", f"file:{self.console}",
            # The guest reaches nothing; only the host reaches its sshd.
            "-netdev", "user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:0-:22",
            "-device", "virtio-net-pci,netdev=n0,id=net0,romfile=",
            "-device", "virtio-rng-pci",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=shell,path={self.shell_socket},server=on,wait=off",
            "-device", "virtconsole,chardev=shell",
            "-qmp", f"unix:{self._sockets}/qmp,server=on,wait=off",
        ]
        # fmt: on
        if saved:
            command += ["-incoming", f"exec:cat '{saved}'"]
        log = open(directory / "qemu.log", "wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, preexec_fn=_end_with_parent,
        )  # fmt: skip
        try:
            self._connect()
            if saved:
                self._until("query-status", lambda answer: answer["status"] != "inmigrate")
                self.command("cont")
        except BaseException:
            self.kill()
            raise

    def _connect(self) -> None:
        deadline = time.monotonic() + 30
        self._qmp = socket.socket(socket.AF_UNIX)
        self._qmp.settimeout(60)
        while True:
            try:
                self._qmp.connect(str(self._sockets / "qmp"))
                break
            except OSError:
                self.alive()
                if time.monotonic() > deadline:
                    raise Broken("QEMU does not answer")
                time.sleep(0.02)
        self._lines = self._qmp.makefile("rw")
        self._lines.readline()
        self.command("qmp_capabilities")

    def command(self, name: str, **arguments) -> dict:
        """One QMP command and what it returns."""
        try:
            self._lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
            self._lines.flush()
            while line := self._lines.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise Broken(f"QEMU: {name}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except OSError as error:
            self.alive()
            raise Broken(f"QEMU: {name}: {error}")
        self.alive()
        raise Broken(f"QEMU closed its control socket during {name}")

    def _until(self, query: str, done, limit=120.0) -> dict:
        deadline = time.monotonic() + limit
        while True:
            answer = self.command(query)
            if done(answer):
                return answer
            if time.monotonic() > deadline:
                raise Broken(f"QEMU: {query} still says {answer}")
            time.sleep(0.02)

    def port(self) -> int:
        """The port of 127.0.0.1 that leads to the guest's sshd; the kernel chose it."""
        table = self.command("human-monitor-command", **{"command-line": "info usernet"})
        for line in table.splitlines():
            if match := re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", line):
                return int(match[1])
        raise Broken(f"QEMU forwards no port:\n{table}")

    def save(self, out: Path) -> None:
        """Writes the whole machine to a file; it stands still afterwards."""
        self.command("stop")
        self.command("migrate-set-parameters", **{"max-bandwidth": 10**10})
        staged = out.with_suffix(".staged")
        self.command("migrate", uri=f"exec:cat > '{staged}'")
        ended = self._until("query-migrate", lambda answer: answer["status"] in ("completed", "failed"))
        if ended["status"] == "failed":
            raise Broken(f"QEMU cannot save the machine: {ended}")
        staged.rename(out)

    def alive(self) -> None:
        """Says what is on the console if the guest has ended."""
        status = self._process.poll()
        if status is not None:
            said = (self._directory / "qemu.log").read_text(errors="replace")[-2000:]
            raise Broken(f"QEMU ended with {status}: {said}{self.tail()}")

    def tail(self) -> str:
        """The end of the console."""
        try:
            return self.console.read_text(errors="replace")[-3000:]
        except OSError:
            return ""

    def wait(self, limit: float) -> bool:
        """Whether the guest ends by itself within so many seconds."""
        try:
            self._process.wait(limit)
            return True
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """Ends it as if the plug were pulled, and waits for that."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._sockets, ignore_errors=True)


_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    # Also a driver that is killed with SIGKILL leaves no guest behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
