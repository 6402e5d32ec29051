"""Guests that have booted: each kernel and userland once, saved, then cloned."""

import fcntl
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import house
import keys
import kernels
import modules
import roles
import userland
from house import Broken
from kernels import Kernel
from qemu import Qemu
from shell import Shell


@dataclass(frozen=True)
class Image:
    """A saved guest."""

    role: str
    userland: str
    kernel: Kernel
    initrd: Path
    saved: Path

    def start(self, directory: Path) -> tuple[Qemu, Shell]:
        """A clone of it, that runs."""
        guest = Qemu(directory, self.kernel.image, self.initrd, self.kernel.source.append, self.saved)
        return _with_shell(guest, booting=False)

    def boot(self, directory: Path) -> tuple[Qemu, Shell]:
        """The same guest from its kernel on, as after a power cut."""
        guest = Qemu(directory, self.kernel.image, self.initrd, self.kernel.source.append)
        return _with_shell(guest, booting=True)


def image(role: str, land: str) -> Image:
    """The image of a role and a userland, made if it is not there."""
    kernel = kernels.resolve(roles.BY_NAME[role])
    mark = hashlib.sha256(f"{kernel}{_recipe()}{land}".encode()).hexdigest()[:16]
    place = house.directory("images") / f"{role}-{land}"
    found = Image(role, land, kernel, place / "initrd", place / "saved")
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = place / "made-of"
        if not stamp.exists() or stamp.read_text() != mark:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            _make(found, place)
            stamp.write_text(mark)
    return found


def _make(image: Image, place: Path) -> None:
    parts = place / "modules.cpio", place / "userland.cpio"
    modules.archive(image.kernel, parts[0])
    userland.archive(image.userland, parts[1])
    with open(image.initrd, "wb") as out:
        for part in parts:
            out.write(part.read_bytes())
            part.unlink()
    guest, shell = image.boot(place / "boot")
    try:
        _check(image, shell)
        shell.close()
        guest.save(image.saved)
    finally:
        guest.kill()


def _check(image: Image, shell: Shell) -> None:
    """A guest that is not what its role says would make tests pass for the wrong reason."""
    source = image.kernel.source
    said = shell.run("/usr/local/bin/probe landlock", 60)[1].strip()
    right = said == source.refusal if source.refusal else said.isdigit() and source.lowest <= int(said) <= source.highest
    if not right:
        raise Broken(f"{image.kernel.version} as {image.role}: its probe for Landlock says {said}")
    status, _ = shell.run("test -s /run/sshd.pid", 60)
    if status:
        raise Broken(f"sshd does not run in the guest {image.role}-{image.userland}")


def _with_shell(guest: Qemu, booting: bool) -> tuple[Qemu, Shell]:
    try:
        return guest, Shell(guest, booting)
    except BaseException:
        guest.kill()
        raise


def _recipe() -> str:
    """All that an image is made of besides the kernel."""
    here = Path(__file__).parent
    files = [here / name for name in ("cpio.py", "init.sh", "modules.py", "qemu.py", "userland.py")]
    files += [keys.client(), keys.host(), house.scenarios() / "probe.c"]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
