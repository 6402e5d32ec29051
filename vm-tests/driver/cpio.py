"""Archives in the format that the kernel unpacks as its first root: newc.

Written here and not by cpio(1), so that owners and device nodes need no root.
The format is in the kernel's Documentation/driver-api/early-userspace/buffer-format.
"""

import stat
from pathlib import Path


class Cpio:
    """One archive, with merged /usr: /bin and its kin are links."""

    _MERGED = ("bin", "sbin", "lib", "lib64")

    def __init__(self):
        self._bytes = bytearray()
        self._seen: set[str] = set()

    def __contains__(self, path: str) -> bool:
        return self._place(path) in self._seen

    def _place(self, path: str) -> str:
        path = path.strip("/")
        return f"usr/{path}" if path.partition("/")[0] in self._MERGED else path

    def _entry(self, name: str, mode: int, data=b"", owner=0, device=(0, 0)) -> None:
        # A name that stands twice would be written twice; the first one wins.
        if name in self._seen:
            return
        parent = name.rpartition("/")[0]
        if parent:
            self._entry(parent, stat.S_IFDIR | 0o755)
        self._seen.add(name)
        number = len(self._seen)
        fields = (number, mode, owner, owner, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        self._bytes += b"070701" + b"".join(b"%08X" % field for field in fields)
        self._pad(name.encode() + b"\0")
        self._pad(data)

    def _pad(self, data: bytes) -> None:
        self._bytes += data
        self._bytes += b"\0" * (-len(self._bytes) % 4)

    def directory(self, path: str, mode=0o755, owner=0) -> None:
        self._entry(self._place(path), stat.S_IFDIR | mode, owner=owner)

    def file(self, path: str, data: bytes | str, mode=0o644, owner=0) -> None:
        data = data.encode() if isinstance(data, str) else data
        self._entry(self._place(path), stat.S_IFREG | mode, data, owner)

    def link(self, path: str, target: str) -> None:
        self._entry(self._place(path), stat.S_IFLNK | 0o777, target.encode())

    def merged(self) -> None:
        """The links that make `_MERGED` so."""
        for name in self._MERGED:
            self._entry(f"usr/{name}", stat.S_IFDIR | 0o755)
            self._entry(name, stat.S_IFLNK | 0o777, f"usr/{name}".encode())

    def character_device(self, path: str, device: tuple[int, int], mode: int) -> None:
        self._entry(self._place(path), stat.S_IFCHR | mode, device=device)

    def write(self, out: Path) -> None:
        self._entry("TRAILER!!!", 0)
        # The kernel finds a following archive at a multiple of four.
        self._bytes += b"\0" * (-len(self._bytes) % 512)
        staged = out.with_suffix(".staged")
        staged.write_bytes(self._bytes)
        staged.rename(out)
