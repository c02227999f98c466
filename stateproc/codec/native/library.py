"""Load the kernels that were compiled ahead of time into a shared library, where it fits this machine and sources.

The library is built by ``tools/kernel_library.py``, contains every kernel declared with ``@exported``, and is a file
beside this module. With it numba is not imported at all; without it numba compiles kernels when they are called.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

KERNELS_VARIABLE = "STATEPROC_KERNELS"
"""Environment variable: ``numba`` or ``library`` forces the one or the other."""

TARGET_MACHINE_VARIABLE = "STATEPROC_KERNEL_MACHINE"
"""Environment variable: the machine that ``tools/kernel_library.py`` compiles for."""

PACKAGE = Path(__file__).parents[2]
SOURCES_SYMBOL = "stateproc_kernel_sources"
"""The text in the library that says which sources it was compiled from: their hash, then their paths, a line each."""

CPU_FLAGS = {
    "x86_64": frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
    "aarch64": frozenset(),
}
"""What the code in the library needs, as /proc/cpuinfo names it: x86-64-v2, and the base of ARMv8."""


class LibraryUnusable(Exception):
    """The library cannot be used here; the message says why."""


class KernelLibrary:
    """The functions of a shared library with compiled kernels."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Not PyDLL: other threads run while a kernel runs.
        self._library = ctypes.CDLL(str(path))

    @property
    def sources(self) -> str:
        return str(ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self._library, SOURCES_SYMBOL))), "utf-8")

    def entry(self, symbol: str) -> Callable[[Any], int] | None:
        """Return the function of an exported kernel; None if the library does not contain it."""
        try:
            function = self._library[symbol]
        except AttributeError:
            return None
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int32
        return function


@dataclass(frozen=True)
class LibraryChoice:
    """The library, or None and the reason."""

    library: KernelLibrary | None
    reason: str = ""


@lru_cache
def kernel_library() -> LibraryChoice:
    """Choose between the library and numba, once in a process.

    Raises:
        LibraryUnusable: ``STATEPROC_KERNELS=library`` requires a library that does not fit, or has an unknown value.
    """
    chosen = os.environ.get(KERNELS_VARIABLE, "")
    if chosen not in ("", "numba", "library"):
        raise LibraryUnusable(f"{KERNELS_VARIABLE} is {chosen!r}; it is numba, library, or not set")
    if chosen == "numba":
        return LibraryChoice(None, f"{KERNELS_VARIABLE}=numba")
    try:
        return LibraryChoice(open_library(PACKAGE / "codec" / library_name()))
    except LibraryUnusable as error:
        if chosen == "library":
            raise
        return LibraryChoice(None, str(error))


def native_entry(function: Callable[..., Any]) -> Callable[[Any], int] | None:
    """Return the function of an exported kernel in the library; None: numba compiles it.

    Raises:
        LibraryUnusable: ``STATEPROC_KERNELS=library`` requires a library, which does not fit or lacks the kernel.
    """
    library = kernel_library().library
    entry = library.entry(symbol_of(function)) if library else None
    if entry is None and os.environ.get(KERNELS_VARIABLE) == "library":
        raise LibraryUnusable(f"{function.__qualname__} is not in {library and library.path}")
    return entry


def library_name(machine: str | None = None) -> str:
    """Return the file name of the library of a machine, as ``platform.machine()`` names it; None: of this one."""
    return f"kernels-{sys.platform}-{machine or platform.machine()}.so"


def open_library(path: Path, cpuinfo: Path = Path("/proc/cpuinfo")) -> KernelLibrary:
    """Load a library if this CPU runs it and it was compiled from these sources; otherwise raise LibraryUnusable."""
    if not path.exists():
        raise LibraryUnusable(f"there is no {path}")
    missing = CPU_FLAGS.get(platform.machine(), frozenset({"a known CPU"})) - _cpu_flags(cpuinfo)
    if missing:
        raise LibraryUnusable(f"this CPU lacks {', '.join(sorted(missing))}")
    try:
        library = KernelLibrary(path)
        text = library.sources
    except (OSError, ValueError) as error:
        raise LibraryUnusable(f"{path} cannot be loaded: {error}") from error
    _, *files = text.splitlines()
    if text != sources_text(files):
        raise LibraryUnusable(f"{path} was compiled from other sources")
    return library


def sources_text(files: Iterable[str]) -> str:
    """Return what a library compiled from these files, relative to the package, says about its sources."""
    names = sorted(files)
    digest = hashlib.sha256()
    for name in names:
        try:
            source = (PACKAGE / name).read_bytes()
        except OSError:
            source = b""
        digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return "\n".join([digest.hexdigest(), *names])


def symbol_of(function: Callable[..., Any]) -> str:
    """Return the name of a kernel's function in the library."""
    return f"{function.__module__}.{function.__qualname__}".replace(".", "__")


def has_crc32c(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether kernels may be compiled to the CRC-32C instruction of x86-64-v2; a library for x86-64 always is."""
    machine = os.environ.get(TARGET_MACHINE_VARIABLE)
    return machine == "x86_64" or (
        machine is None and platform.machine() == "x86_64" and "sse4_2" in _cpu_flags(cpuinfo)
    )


def _cpu_flags(cpuinfo: Path) -> set[str]:
    """Read the flags of the first CPU; empty where they are not known."""
    try:
        with cpuinfo.open() as lines:
            for line in lines:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        return set()
    return set()
