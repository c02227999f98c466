"""Look into the libraries of wheels without running them: ``python -m tools.check_wheels dist/*.whl``.

A library must be of the format and machine of its platform, export every kernel, call no function of another library,
and, for macOS on ARM, have a signature that fits its pages: such a Mac loads no other code.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lief

from stateproc.codec.native.exports import exported_kernels
from stateproc.codec.native.library import SOURCES_SYMBOL
from tools.kernel_platforms import PLATFORMS, Platform

_FROM_LINKER = {"dyld_stub_binder", "__dso_handle", "_mh_dylib_header"}
"""What the linker imports or declares in every library of macOS; nothing here uses it."""
_PAGE_HASHES = 0xFADE0C02
"""CSMAGIC_CODEDIRECTORY: the part of a signature that has the hash of each page."""
_ADHOC = 0x2


class WrongLibraryFile(Exception):
    """A library is not what its platform needs; the message says how."""


@dataclass(frozen=True)
class LibraryFile:
    """What the headers of a library declare."""

    machine: str
    exports: frozenset[str]
    imports: frozenset[str]


def read_library(path: Path) -> LibraryFile:
    """Read the headers of a library of any format. Raises WrongLibraryFile: a signature does not fit."""
    lief.logging.disable()
    binary: Any = lief.parse(path)
    if isinstance(binary, lief.ELF.Binary):
        machine = {"X86_64": "linux-x86_64", "AARCH64": "linux-aarch64"}[binary.header.machine_type.name]
        exports = {str(symbol.name) for symbol in binary.exported_symbols}
        imports = {str(symbol.name) for symbol in binary.imported_symbols} | set(map(str, binary.libraries))
    elif isinstance(binary, lief.MachO.Binary):
        machine = {"X86_64": "darwin-x86_64", "ARM64": "darwin-aarch64"}[binary.header.cpu_type.name]
        exports = {str(symbol.name).removeprefix("_") for symbol in binary.exported_symbols} - _FROM_LINKER
        imports = {str(symbol.name) for symbol in binary.imported_symbols} - _FROM_LINKER
        if machine == "darwin-aarch64" or binary.has_code_signature:
            check_signature(path.read_bytes(), binary)
    elif isinstance(binary, lief.PE.Binary):
        machine = {"AMD64": "win32-x86_64"}[binary.header.machine.name]
        table = binary.get_export()
        exports = {str(entry.name) for entry in table.entries} if table is not None else set()
        imports = {str(entry.name) for library in binary.imports for entry in library.entries}
    else:
        raise WrongLibraryFile(f"{path} is no library")
    return LibraryFile(machine, frozenset(exports), frozenset(imports))


def check_signature(content: bytes, binary: Any) -> None:
    """Compare the hash of each page with the signature of nobody ("ad hoc") that the linker has written.

    A signature is a super blob: magic, length, count, then type and offset of each blob; numbers are big-endian
    (``cs_blobs.h`` of XNU).

    Raises:
        WrongLibraryFile: There is no signature, or a page has another hash.
    """
    if not binary.has_code_signature:
        raise WrongLibraryFile("there is no code signature")
    at = binary.code_signature.data_offset
    count = struct.unpack_from(">I", content, at + 8)[0]
    offsets = [struct.unpack_from(">II", content, at + 12 + 8 * k)[1] for k in range(count)]
    for directory in (at + offset for offset in offsets):
        if struct.unpack_from(">I", content, directory)[0] != _PAGE_HASHES:
            continue
        flags, hashes, _, _, pages, limit = struct.unpack_from(">6I", content, directory + 12)
        size = 1 << content[directory + 39]
        for page in range(pages):
            end = min(limit, (page + 1) * size)
            place = directory + hashes + 32 * page
            if hashlib.sha256(content[page * size : end]).digest() != content[place : place + 32]:
                raise WrongLibraryFile(f"page {page} does not fit the code signature")
        if flags & _ADHOC and limit == at:
            return
    raise WrongLibraryFile("the code signature does not cover the library")


def check_library(path: Path, platform: Platform, symbols: set[str]) -> LibraryFile:
    """Raise WrongLibraryFile unless the library is one for ``platform``, exports these symbols and needs nothing."""
    found = read_library(path)
    if found.machine != platform.name:
        raise WrongLibraryFile(f"{path.name} is for {found.machine}, not for {platform.name}")
    if found.exports != symbols:
        raise WrongLibraryFile(f"{path.name} exports others: {sorted(found.exports ^ symbols)}")
    if found.imports:
        raise WrongLibraryFile(f"{path.name} needs {', '.join(sorted(found.imports))}")
    return found


def main() -> int:
    """Check the wheels that are named; the exit status is 1 if one is wrong."""
    symbols = {*exported_kernels(), SOURCES_SYMBOL}
    for wheel in map(Path, sys.argv[1:]):
        platform = next((one for one in PLATFORMS.values() if wheel.stem.endswith(f"-{one.wheel_tag}")), None)
        if platform is None:
            print(f"{wheel.name}: no compiled kernels")
            continue
        with zipfile.ZipFile(wheel) as content, tempfile.TemporaryDirectory() as folder:
            path = Path(content.extract(f"stateproc/codec/{platform.library}", folder))
            try:
                check_library(path, platform, symbols)
            except WrongLibraryFile as error:
                print(f"{wheel.name}: {error}", file=sys.stderr)
                return 1
            print(f"{wheel.name}: {platform.library}, {path.stat().st_size:,} bytes, {len(symbols) - 1} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
