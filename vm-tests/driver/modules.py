"""The drivers that a guest needs, as an archive, in the order of loading."""

import lzma
from pathlib import Path

from cpio import Cpio
from kernels import Kernel

_WANTED = ("virtio_pci", "virtio_net", "virtio_console", "virtio_rng")


def archive(kernel: Kernel, out: Path) -> None:
    """Modules are unpacked here: decompressing them is slow under emulation."""
    needs = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    paths = {_name(path): path for path in needs}
    order: list[str] = []
    for wanted in _WANTED:
        # What is not there is built into this kernel.
        if wanted in paths:
            path = paths[wanted]
            # modules.dep names the nearest need first, insmod wants it last.
            order += [*reversed(needs[path]), path]
    order = list(dict.fromkeys(order))
    cpio = Cpio()
    for path in order:
        cpio.file(f"libexec/devbox/modules/{_name(path)}.ko", _unpacked(kernel.modules / path))
    names = "".join(f"{_name(path)}\n" for path in order)
    cpio.file("libexec/devbox/modules/order", names)
    cpio.write(out)


def _name(path: str) -> str:
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data
