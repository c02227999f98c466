"""Keep each fixture as one archive; unpack all of them once into a cache that test processes share.

`tests/fixtures/<release>/<case>.tar.xz` holds the folder of one snapshot or of one chain: `manifest.json`, the expected
contents and the files that Flink wrote. A case may also be a plain folder there, as the demo is, because README and
`make demo` open it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

SUFFIX = ".tar.xz"
_UNUSED_SECONDS = 14 * 24 * 3600


def pack(folder: Path, archive: Path) -> None:
    """Write the files of a folder to an archive; equal files give equal bytes.

    Args:
        folder: The folder of one case. Its name is the first part of each path in the archive.
        archive: The file to write, replaced if it exists.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT, preset=6) as file:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder)}")
            member.size = path.stat().st_size
            with path.open("rb") as content:
                file.addfile(member, content)


def unpacked(archives: Path, cache: Path) -> Path:
    """Return a folder with every case of `archives` as a folder, unpacked if no other run has done so.

    Args:
        archives: The folder of the releases.
        cache: Where unpacked trees are kept, each under a name that follows from the contents of `archives`.
    """
    cache.mkdir(parents=True, exist_ok=True)
    tree = cache / _digest(archives)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            _remove_unused(cache)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".unpacking-") as directory:
                made = Path(directory) / "tree"
                _unpack(archives, made)
                made.rename(tree)
        os.utime(tree)
    return tree


def _sources(archives: Path) -> list[Path]:
    return sorted(path for path in archives.glob("*/*") if path.is_dir() or path.name.endswith(SUFFIX))


def _digest(archives: Path) -> str:
    digest = hashlib.sha256()
    for source in _sources(archives):
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file():
                digest.update(f"{path.relative_to(archives)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:20]


def _unpack(archives: Path, target: Path) -> None:
    for source in _sources(archives):
        release = target / source.parent.name
        if source.is_dir():
            shutil.copytree(source, release / source.name)
        else:
            release.mkdir(parents=True, exist_ok=True)
            with tarfile.open(source, "r:xz") as file:
                # Releases of Python 3.10 and 3.11 before August 2023 have no filters.
                file.extractall(release, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def _remove_unused(cache: Path) -> None:
    for path in cache.iterdir():
        if path.is_dir() and time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
