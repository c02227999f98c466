"""Load the kernels that were compiled ahead of time into a shared library, where it fits this machine and sources.

The library is built by ``tools/kernel_library.py``, contains every kernel declared with ``@exported``, and is a file in
the folder above this module's. With it numba is not imported at all; without it numba compiles kernels when they are
called.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stateproc.codec.native.file_names import library_name, machine_name
from stateproc.codec.native.self_check import wrong_kernel

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

_PF_SSE4_2 = 38
"""PF_SSE4_2_INSTRUCTIONS_AVAILABLE of Windows' IsProcessorFeaturePresent."""


class LibraryUnusable(Exception):
    """The library cannot be used here; the message says why."""


class WrongLibrary(LibraryUnusable):
    """The library fits this machine by all that can be seen, and yet a kernel in it does not answer as it must."""


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

    def call(self, symbol: str, *arguments: Any) -> int:
        """Run an exported kernel with integers and arrays in C order, as ``jit.native_call`` does for its signature.

        Returns:
            The first word after the call: the first result, if the kernel has one.

        Raises:
            WrongLibrary: The kernel is not there, or failed.
        """
        words: list[int] = []
        for argument in arguments:
            words += [argument.ctypes.data, *argument.shape] if isinstance(argument, np.ndarray) else [int(argument)]
        block = np.array(words, dtype=np.int64)
        entry = self.entry(symbol)
        if entry is None or entry(block.ctypes.data) != 0:
            raise WrongLibrary(f"{self.path}: kernel {symbol} cannot be called")
        return int(block[0])


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
        if isinstance(error, WrongLibrary):
            advice = "numba compiles the kernels instead; please report it with the kind of machine"
            warnings.warn(f"{error}: {advice}", RuntimeWarning, stacklevel=2)
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


def open_library(path: Path, cpuinfo: Path = Path("/proc/cpuinfo")) -> KernelLibrary:
    """Load a library if this CPU runs it, it was compiled from these sources, and its kernels answer as they must.

    Raises:
        LibraryUnusable: It does not fit; WrongLibrary: it fits and is wrong.
    """
    if not path.exists():
        raise LibraryUnusable(f"there is no {path}")
    missing = _missing_flags(cpuinfo)
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
    symbol = wrong_kernel(library.call)
    if symbol is not None:
        raise WrongLibrary(f"{path}: kernel {symbol} gives a wrong answer on this machine")
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
    if machine is not None:
        return machine == "x86_64"
    return machine_name() == "x86_64" and "sse4_2" not in _missing_flags(cpuinfo)


def _missing_flags(cpuinfo: Path) -> frozenset[str]:
    """Return what the library needs of a CPU and this one lacks, or is not known to have."""
    needed = CPU_FLAGS.get(machine_name())
    if needed is None:
        return frozenset({"a known CPU"})
    if sys.platform == "darwin":
        return frozenset()  # Every Mac that runs macOS 11 has them.
    if sys.platform == "win32" and needed:
        present = ctypes.windll.kernel32.IsProcessorFeaturePresent(_PF_SSE4_2)
        return frozenset() if present else frozenset({"sse4_2"})
    return needed - _cpu_flags(cpuinfo)


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
