"""What a guest has besides a kernel: three userlands, from this machine's files.

- `full`: a shell and tools as a development host has them.
- `busybox`: busybox and nothing else, as on an appliance.
- `bare`: dash and the few programs that POSIX would be unusable without; no
  bash, no compressor, nothing that computes a hash.

Each has sshd, and the same users, who differ in login shell and in what sshd
lets them do. The driver's own tools lie in /libexec/devbox, which is on
nobody's PATH.
"""

import glob
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import house
import keys
from cpio import Cpio
from house import Gap

NAMES = ("full", "busybox", "bare")

_FULL = """bash dash mkdir cat cp mv rm ln ls chmod chown stat uname id head tail tr cut wc sort dd od
base64 sha256sum mktemp touch date sleep env timeout true false echo test [ printf basename dirname
readlink realpath sync df du tee mkfifo nohup nproc stty tar gzip xz sed grep find xargs ps kill
setsid script truncate seq rmdir git""".split()

_BARE = """cat cp mv rm ln ls mkdir rmdir chmod chown id uname dd head wc env sleep kill true false
echo pwd test touch setsid ps printf""".split()


@dataclass(frozen=True)
class User:
    name: str
    number: int
    shell: str
    # The program that must be on this machine to have the user.
    program: str = ""


_USERS = (
    User("dev", 1000, "/bin/bash"),
    User("noforward", 1001, "/bin/bash"),
    User("dash", 1002, "/bin/dash", "dash"),
    User("tcsh", 1003, "/usr/bin/tcsh", "tcsh"),
    User("fish", 1004, "/usr/bin/fish", "fish"),
)

_SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/host_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile /run/sshd.pid
Subsystem sftp /usr/lib/openssh/sftp-server
Match User noforward
    DisableForwarding yes
"""


def users(userland: str) -> list[User]:
    """The users of a userland; those of a full one need their shells here."""
    if userland == "full":
        return [user for user in _USERS if not user.program or shutil.which(user.program)]
    return [User(user.name, user.number, "/bin/sh") for user in _USERS[:2]]


def missing() -> list[str]:
    """Login shells that a full guest cannot have, because they are not here."""
    return [user.program for user in _USERS if user.program and not shutil.which(user.program)]


def archive(userland: str, out: Path) -> None:
    """Writes the userland to a file."""
    busybox = shutil.which("busybox")
    if not busybox or _libraries(busybox):
        raise Gap("a guest needs a static busybox (Debian: busybox-static)")
    cpio = Cpio()
    for name in ("proc", "sys", "dev", "run", "etc", "var/empty", "var/log", "var/tmp", "mnt", "opt"):
        cpio.directory(name)
    cpio.directory("tmp", 0o1777)
    cpio.merged()
    cpio.link("var/run", "/run")
    cpio.character_device("dev/console", (5, 1), 0o600)
    cpio.character_device("dev/null", (1, 3), 0o666)
    private = Path(busybox).read_bytes()
    cpio.file("libexec/devbox/busybox", private, 0o755)
    init = (Path(__file__).parent / "init.sh").read_text()
    cpio.file("init", "#!/libexec/devbox/busybox sh\n" + init, 0o755)
    cpio.file("usr/local/bin/probe", keys.probe().read_bytes(), 0o755)
    _sshd(cpio)
    _programs(cpio, userland, private)
    _configuration(cpio, userland)
    cpio.write(out)


def _programs(cpio: Cpio, userland: str, busybox: bytes) -> None:
    if userland == "full":
        for name in (*_FULL, *(user.program for user in users(userland) if user.program)):
            _program(cpio, name)
        if shutil.which("fish"):
            _tree(cpio, "/usr/share/fish", ("config.fish", "__fish_build_paths.fish", "functions"))
        # What a program in Rust needs besides libc: olliesrv may run here too.
        for library in glob.glob("/lib/*-linux-gnu/lib[gm]*.so.[16]"):
            if os.path.basename(library) in ("libgcc_s.so.1", "libm.so.6"):
                cpio.file(library, Path(library).read_bytes(), 0o755)
        cpio.link("bin/sh", "dash")
        return
    if userland == "busybox":
        cpio.file("bin/busybox", busybox, 0o755)
        listed = subprocess.run(["busybox", "--list"], check=True, capture_output=True, text=True)
        for name in listed.stdout.split():
            cpio.link(f"bin/{name}", "busybox")
        return
    # busybox's own shell would find all applets without any file for them.
    _program(cpio, "dash")
    cpio.link("bin/sh", "dash")
    # Below /usr, where the sandbox lets programs be executed.
    cpio.file("usr/lib/bare/applets", busybox, 0o755)
    for name in _BARE:
        cpio.link(f"bin/{name}", "/usr/lib/bare/applets")


def _configuration(cpio: Cpio, userland: str) -> None:
    own = users(userland)
    passwd = ["root:x:0:0:root:/root:/bin/sh", "sshd:x:100:65534::/run/sshd:/bin/false"]
    passwd += [f"{u.name}:x:{u.number}:{u.number}::/home/{u.name}:{u.shell}" for u in own]
    passwd += ["nobody:x:65534:65534::/:/bin/false"]
    group = ["root:x:0:", "tty:x:5:", "nogroup:x:65534:"]
    group += [f"{u.name}:x:{u.number}:" for u in own]
    shadow = ["root:*:19000::::::"] + [f"{u.name}:*:19000::::::" for u in own]
    cpio.file("etc/passwd", _lines(passwd))
    cpio.file("etc/group", _lines(group))
    cpio.file("etc/shadow", _lines(shadow), 0o600)
    cpio.file("etc/shells", _lines(sorted({u.shell for u in own} | {"/bin/sh"})))
    cpio.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    cpio.file("etc/hosts", "127.0.0.1 localhost devbox\n")
    cpio.file("etc/profile", "PATH=/usr/local/bin:/usr/bin:/bin\n")
    cpio.file("etc/os-release", Path("/etc/os-release").read_bytes())
    cpio.file("etc/ssh/sshd_config", _SSHD_CONFIG)
    cpio.file("etc/ssh/host_key", keys.host().read_bytes(), 0o600)
    public = keys.client().with_suffix(".pub").read_bytes()
    for home, owner in [("root", 0), *((f"home/{u.name}", u.number) for u in own)]:
        cpio.directory(home, 0o700, owner)
        cpio.directory(f"{home}/.ssh", 0o700, owner)
        cpio.file(f"{home}/.ssh/authorized_keys", public, 0o600, owner)


def _sshd(cpio: Cpio) -> None:
    if not _program(cpio, "sshd"):
        raise Gap("a guest needs sshd (Debian: openssh-server)")
    # From 9.8 on sshd is several programs.
    for path in (*glob.glob("/usr/lib/openssh/sshd-*"), "/usr/lib/openssh/sftp-server"):
        if os.path.exists(path):
            _copy(cpio, path, path)
    for library in glob.glob("/lib/*-linux-gnu/libnss_files.so.2"):
        cpio.file(library, Path(library).read_bytes(), 0o755)


def _program(cpio: Cpio, name: str) -> bool:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not found:
        return False
    at = "usr/sbin" if "sbin" in found else "usr/bin"
    _copy(cpio, found, f"{at}/{name}")
    return True


def _copy(cpio: Cpio, path: str, to: str) -> None:
    if to in cpio:
        return
    cpio.file(to, Path(path).read_bytes(), 0o755)
    for library in _libraries(path):
        cpio.file(library, Path(library).read_bytes(), 0o755)


def _libraries(path: str) -> list[str]:
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return [word for line in said.splitlines() for word in line.split() if word.startswith("/")]


def _tree(cpio: Cpio, base: str, names: tuple[str, ...]) -> None:
    for name in names:
        path = Path(base) / name
        files = [path] if path.is_file() else sorted(path.glob("**/*"))
        for file in files:
            if file.is_file():
                cpio.file(str(file), file.read_bytes())


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
