"""Choose the directory in which numba caches compiled kernels.

numba unpickles the files of its cache, so a file planted there runs as code. The cache is therefore never stored beside
the sources or in a shared place, but in a directory that only the current user can write.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

CACHE_DIR_VARIABLE = "STATEPROC_CACHE_DIR"
"""Environment variable: where compiled kernels are cached."""

_STALE_SECONDS = 30 * 86_400
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


def cache_folder(kernel_folder: Path) -> Path | None:
    """Return the directory for the machine code of the kernels in ``kernel_folder``; None for no cache.

    Its name is a hash of the kernels' sources: numba checks a kernel's own file only, though the kernels that it calls
    are compiled into it. Processes of one user, such as Spark's workers, share it.
    """
    root = _cache_root()
    if root is None:
        return None
    folder = root / fingerprint(kernel_folder)
    try:
        if not folder.exists():
            _remove_stale(root)
        _make_private(folder)
        os.utime(folder)
    except OSError:
        return None
    return folder


@lru_cache
def fingerprint(kernel_folder: Path) -> str:
    """Hash all sources that kernels in ``kernel_folder`` may be compiled from."""
    digest = hashlib.sha256()
    for name, source in kernel_files(kernel_folder).items():
        digest.update(name.encode() + b"\0" + source)
    return digest.hexdigest()[:32]


def kernel_files(kernel_folder: Path) -> dict[str, bytes]:
    """Read the files with kernels, or with constants of kernels, that those in ``kernel_folder`` may use.

    These are all of the codec, and those in the same folder.

    Returns:
        The source of each file, by its path.
    """
    codec = Path(__file__).parents[1]
    files = {}
    for path in sorted({*codec.rglob("*.py"), *kernel_folder.glob("*.py")}):
        source = path.read_bytes()
        if declares_kernels(source) or path in (codec / "native" / "jit.py", codec / "ops.py"):
            files[path.relative_to(codec).as_posix() if path.is_relative_to(codec) else path.name] = source
    return files


def declares_kernels(source: bytes) -> bool:
    """Whether a module declares kernels, so that machine code depends on it."""
    return any(decorator in source for decorator in (b"@kernel", b"@inlined", b"@exported"))


@lru_cache
def _cache_root() -> Path | None:
    """Create the first usable directory of the candidates; None (with a warning) if there is none."""
    refused = []
    chosen = os.environ.get(CACHE_DIR_VARIABLE)
    for folder in _candidates(chosen):
        try:
            _make_private(folder)
        except UnsafeCacheFolder as error:
            refused.append(str(error))
        except OSError as error:
            if chosen and folder == Path(chosen):
                refused.append(f"{folder} cannot be written ({error.strerror})")
        else:
            _warn_refused(refused, f"compiled kernels are cached in {folder} instead")
            return folder
    _warn_refused(refused, "kernels are compiled anew in every process, which takes up to a minute")
    return None


def _warn_refused(refused: list[str], outcome: str) -> None:
    if refused:
        warnings.warn(
            f"{'; '.join(refused)}: {outcome}. Set {CACHE_DIR_VARIABLE} to a directory of your own with mode 0700.",
            RuntimeWarning,
            stacklevel=2,
        )


def _candidates(chosen: str | None) -> Iterator[Path]:
    """Yield the directories to try: the user's choice, XDG's or the home's cache, the user's among temporary files."""
    if chosen:
        yield Path(chosen)
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):
        yield Path(xdg, "stateproc")
    elif os.environ.get("HOME") != "":
        # expanduser leaves ~ as it is where neither HOME nor the passwd database has a home.
        home = os.path.expanduser("~")
        if os.path.isabs(home) and os.path.isdir(home):
            yield Path(home, ".cache", "stateproc")
    # On Windows each user has a folder for temporary files.
    yield Path(tempfile.gettempdir(), f"stateproc-{os.geteuid()}" if hasattr(os, "geteuid") else "stateproc")


class UnsafeCacheFolder(Exception):
    """A directory in which another user could have planted files; the message says why."""


def _make_private(folder: Path) -> None:
    """Create ``folder`` for its owner alone, or check one that exists.

    Raises:
        UnsafeCacheFolder: It is relative, no directory, of another owner, or others can write to it.
        OSError: It cannot be created or written.
    """
    if not folder.is_absolute():
        raise UnsafeCacheFolder(f"{folder} is not an absolute path")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        # Not followed: in a directory that all can write to, anybody can link to another directory.
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise UnsafeCacheFolder(f"{folder} is not a directory") from None
        # Windows has neither: what is in a user's profile is his by inherited access rights.
        if hasattr(os, "geteuid"):
            if status.st_uid != os.geteuid():
                raise UnsafeCacheFolder(f"{folder} belongs to another user") from None
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise UnsafeCacheFolder(f"{folder} can be written by other users") from None
    tempfile.TemporaryFile(dir=folder).close()


def _remove_stale(root: Path) -> None:
    """Remove machine code of sources that no process has used for a month."""
    for folder in root.iterdir():
        if _FINGERPRINT.fullmatch(folder.name) and folder.lstat().st_mtime < time.time() - _STALE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
