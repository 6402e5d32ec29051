"""root's shell in a guest, over its virtio console."""

import base64
import shlex
import socket
import time

from house import Broken
from qemu import Qemu

_BANNER = b"devbox-shell"
_BUSYBOX = "/libexec/devbox/busybox"


class Shell:
    """Runs commands without ssh, so a test may do to sshd what it likes."""

    def __init__(self, qemu: Qemu, booting: bool, limit=120.0):
        self._qemu = qemu
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(5)
        self._socket.connect(str(qemu.shell_socket))
        self._buffer = b""
        deadline = time.monotonic() + limit
        if booting:
            # What is written before the guest listens would be lost.
            while _BANNER not in self._line(deadline):
                pass
        self._send("echo; echo ready")
        while self._line(deadline).strip() != b"ready":
            pass

    def _send(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\n")

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            if time.monotonic() > deadline:
                raise Broken(f"the guest's shell does not answer; its console:\n{self._qemu.tail()}")
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                self._qemu.alive()
                continue
            if not data:
                self._qemu.alive()
                raise Broken("the guest's shell is gone")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def run(self, command: str, timeout: float | None) -> tuple[int, str]:
        """Status and standard output of a POSIX sh command; 124 is a time-out."""
        limited = f"{_BUSYBOX} timeout -k 5 {timeout:.0f} " if timeout else ""
        # One line back for the output, whatever it contains, one for the status.
        self._send(
            f"{{ {limited}{_BUSYBOX} sh -c {shlex.quote('set -euo pipefail; ' + command)} </dev/null;"
            f" echo $? >/run/devbox/status; }} | {_BUSYBOX} base64 -w 0; echo; cat /run/devbox/status"
        )
        deadline = time.monotonic() + (timeout or 3600) + 60
        output = base64.b64decode(self._line(deadline)).decode(errors="replace")
        return int(self._line(deadline)), output

    def close(self) -> None:
        self._socket.close()
