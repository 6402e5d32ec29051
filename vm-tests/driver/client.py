"""The machine that olliesrv runs on: this one, in a directory of its own.

Its commands see a home directory, ollie's programs and an ssh that knows the
guests by their names, and nothing of the person who started the test.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import house
import keys
from machine import Commands, RequestedAssertionFailed

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Client(Commands):
    """Runs commands on the host."""

    name = "client"

    def __init__(self, directory: Path):
        self._directory = directory
        for name in ("home/.ssh", "bin", "tmp"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        # Sockets lie in it, and their names must be short.
        self._run = Path(tempfile.mkdtemp(prefix="devbox-"))
        (directory / "home/.ssh").chmod(0o700)
        self.ssh = directory / "bin/ssh"
        config = directory / "ssh_config"
        # ssh takes its configuration from the account and not from HOME.
        self.ssh.write_text(f"#!/bin/sh\nexec {_real_ssh()} -F {shlex.quote(str(config))} \"$@\"\n")
        self.ssh.chmod(0o755)
        (directory / "bin/ollie-escape").symlink_to(house.escape())
        self.environment = {
            "HOME": str(directory / "home"),
            "PATH": f"{directory / 'bin'}:{house.dist()}:{_PATH}",
            "TMPDIR": str(directory / "tmp"),
            "XDG_RUNTIME_DIR": str(self._run),
            "USER": "client",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }

    def knows(self, ports: dict[str, int]) -> None:
        """Writes the ssh configuration: where each running guest is."""
        known = self._directory / "known_hosts"
        public = keys.host().with_suffix(".pub").read_text()
        known.write_text("".join(f"{name} {public}" for name in ports))
        text = "".join(
            f"Host {name}\n    HostName 127.0.0.1\n    Port {port}\n    HostKeyAlias {name}\n"
            for name, port in ports.items()
        )
        # Emulated guests answer slowly while another test has the processor.
        text += (
            f"Host *\n    User dev\n    IdentityFile {keys.client()}\n    IdentitiesOnly yes\n"
            f"    UserKnownHostsFile {known}\n    StrictHostKeyChecking yes\n"
            "    ConnectTimeout 60\n    BatchMode yes\n"
        )
        (self._directory / "ssh_config").write_text(text)

    def execute(self, command: str, check_return=True, check_output=True, timeout: int | None = 900):
        print(f"client: {command}", flush=True)
        start = time.monotonic()
        process = subprocess.Popen(
            ["bash", "-c", f"set -euo pipefail; {command}"],
            cwd=self.environment["HOME"], env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                output, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
            process.returncode = 124
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        said = output.decode(errors="replace")
        print(f"  -> {process.returncode} after {time.monotonic() - start:.1f} s\n{said}", end="", flush=True)
        return process.returncode, said

    def start(self, allow_reboot: bool = False) -> None:
        """It runs already."""

    def copy_from_host(self, source: str, target: str) -> None:
        subprocess.run(["cp", "-r", source, target], check=True, cwd=self.environment["HOME"])

    def close(self) -> None:
        """Removes what lies outside of its directory, and says what that was."""
        left = sorted(path.name for path in self._run.iterdir())
        shutil.rmtree(self._run)
        if left:
            raise RequestedAssertionFailed(f"client: left in the runtime directory: {', '.join(left)}")

    def left(self, patience: float = 10.0) -> None:
        """Ends what the commands left running, and says that they did."""
        deadline = time.monotonic() + patience
        while running := _children():
            for pid in running:
                # One that has ended is waited for and gone.
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if time.monotonic() > deadline:
                lines = [_command_line(pid) for pid in running]
                for pid in running:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                raise RequestedAssertionFailed(f"client: left running: {'; '.join(lines)}")
            time.sleep(0.05)


def _real_ssh() -> str:
    for directory in _PATH.split(":"):
        if os.access(f"{directory}/ssh", os.X_OK):
            return f"{directory}/ssh"
    raise house.Gap("the client needs ssh (Debian: openssh-client)")


def _children() -> set[int]:
    """Children of this process, orphans that it adopted among them."""
    own = os.getpid()
    return {int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()}


def _command_line(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    return b" ".join(words).decode(errors="replace").strip()
