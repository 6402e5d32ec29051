"""The kernel without its compression.

QEMU starts an uncompressed image through PVH at once; under emulation that
saves the seconds that the kernel would need to decompress itself.
"""

import lzma
import shutil
import subprocess
import zlib
from pathlib import Path


def _zlib(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(data)


def _xz(data: bytes) -> bytes:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data)


def _program(name: str):
    def decompress(data: bytes) -> bytes:
        # What follows the stream is no error to us, but one to the program.
        return subprocess.run([name, "-dcq"], input=data, capture_output=True).stdout

    return decompress


_KINDS = (
    (b"\x1f\x8b\x08", None, _zlib),
    (b"\xfd7zXZ\x00", None, _xz),
    (b"\x28\xb5\x2f\xfd", "zstd", _program("zstd")),
    (b"\x02\x21\x4c\x18", "lz4", _program("lz4")),
)


def uncompressed(image: Path, out: Path) -> Path:
    """Writes the ELF file inside of `image` to `out`; without one that can be
    read here, the answer is `image` itself, which boots as well."""
    data = image.read_bytes()
    for magic, program, decompress in _KINDS:
        if program and not shutil.which(program):
            continue
        at = data.find(magic)
        while at >= 0:
            try:
                found = decompress(data[at:])
            except (lzma.LZMAError, zlib.error):
                found = b""
            if found.startswith(b"\x7fELF"):
                out.write_bytes(found)
                return out
            at = data.find(magic, at + 1)
    return image
