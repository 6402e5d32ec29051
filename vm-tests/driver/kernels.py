"""From a role to a kernel: resolved by Debian's metapackage, then kept."""

import fcntl
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import house
from apt import Apt
from house import Gap
from roles import Role, Source
from vmlinux import uncompressed

# The flavour for virtual machines is a third of the size of the usual one.
_METAPACKAGE = "linux-image-cloud-amd64"

# An image's files are spread over packages in ways that change from one
# release to the next; what they have in common is a version in their names.
_PART = re.compile(r"^linux-(image|binary|modules)-\d")


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted."""

    source: Source
    version: str
    # The file for QEMU's -kernel.
    image: Path
    # .../lib/modules/VERSION, with modules.dep in it.
    modules: Path


def resolve(role: Role) -> Kernel:
    """The role's kernel, from the cache or from the first suite that has it."""
    tried = []
    for source in role.sources:
        try:
            return _kernel(source)
        except Gap as gap:
            tried.append(str(gap))
    raise Gap(f"no kernel for the role {role.name} ({role.why}): {'; '.join(tried)}")


def _kernel(source: Source) -> Kernel:
    # Two roles may share a kernel, so the place is named for the suite.
    place = house.directory("kernels") / source.suite
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = place / "kernel.json"
        if not stamp.exists():
            _fetch(source, place)
        about = json.loads(stamp.read_text())
    return Kernel(
        source, about["version"], place / about["image"], place / about["modules"]
    )


def _fetch(source: Source, place: Path) -> None:
    print(f"fetching a kernel from Debian {source.suite}", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    root = place / "root"
    root.mkdir(parents=True)
    apt = Apt(place / "apt", source.suite, source.security)
    apt.update()
    left, seen = apt.depends(_METAPACKAGE), set()
    while left:
        name = left.pop()
        if _PART.match(name) and name not in seen:
            seen.add(name)
            left += apt.depends(name)
    if not seen:
        raise Gap(f"Debian {source.suite} has no {_METAPACKAGE}")
    for name in sorted(seen):
        apt.unpack(name, root)
    images = [*root.glob("boot/vmlinuz-*"), *root.glob("usr/lib/modules/*/vmlinuz")]
    modules = [*root.glob("lib/modules/*/kernel"), *root.glob("usr/lib/modules/*/kernel")]
    if not images or not modules:
        raise Gap(f"{', '.join(sorted(seen))} of {source.suite} hold no image or no modules")
    tree = modules[0].parent
    base = tree.parents[2]
    subprocess.run(["depmod", "-b", base, tree.name], check=True, capture_output=True)
    image = uncompressed(images[0], place / "vmlinux")
    shutil.rmtree(place / "apt")
    about = {
        "version": tree.name,
        "image": str(image.relative_to(place)),
        "modules": str(tree.relative_to(place)),
    }
    # Last, so that a fetch that was cut short is not taken for a kernel.
    (place / "kernel.json").write_text(json.dumps(about))
