"""Find or unpack the snapshots that come with the package."""

from __future__ import annotations

import atexit
import shutil
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stateproc.errors import InvalidOption, WriteFailed, not_found

FOLDER = Path(__file__).resolve().parent
BUNDLED = {
    "shop": "a canonical savepoint of a DataStream job: values, a map, windows, timers, Kafka offsets",
    "sql": "a canonical savepoint of a job that Flink's table planner made",
    "query": "a savepoint of a SQL job, with the compiled plans of its query (old.json) and of the next (new.json)",
    "checkpoints": "seven incremental RocksDB checkpoints of a job whose state has a time to live of eight seconds",
}
"""The names of the bundled snapshots, and what they are."""


def bundled_snapshot(name: str = "shop") -> str:
    """Return the path of a small snapshot of a real job, to try things out.

    Args:
        name: ``shop``: a savepoint with values, a map, windows, timers and Kafka offsets. ``sql``: a savepoint of a SQL
            job. ``query``: a savepoint of a SQL job, with ``old.json`` and ``new.json``, the compiled plans of its
            query and of the next. ``checkpoints``: the folder of seven checkpoints of one job, ``chk-1`` to ``chk-7``.

    Returns:
        A folder. Those that are stored as archives are unpacked once per process, into a temporary folder that is
        removed when the process ends.

    Raises:
        NotFound: There is no snapshot of that name.
    """
    if name not in BUNDLED:
        raise not_found("bundled snapshot", name, BUNDLED)
    plain = FOLDER / "data" / name
    return str(plain if plain.is_dir() else unpack(name, _temporary_folder() / name))


def unpack(name: str, folder: Path) -> Path:
    """Write a bundled snapshot into a folder, unless it exists, and return the folder."""
    if folder.exists():
        return folder
    plain = FOLDER / "data" / name
    if plain.is_dir():
        return Path(shutil.copytree(plain, folder))
    with tempfile.TemporaryDirectory() as place, tarfile.open(FOLDER / "data" / f"{name}.tar.xz") as archive:
        # Python 3.10.11, 3.11.3 and older have no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(place)
        (snapshot,) = Path(place).glob("*/snapshot")
        checkpoints = [*snapshot.glob("*/chk-*")]
        shutil.copytree(checkpoints[0].parent if checkpoints else snapshot, folder)
    return folder


@cache
def _temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="stateproc-demo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


# Copy the notebooks and the bundled snapshots into a folder.


@dataclass(frozen=True)
class NotebookFolder:
    """What was written: the folder, the notebooks' file names, and name → path of the snapshots."""

    folder: str
    notebooks: tuple[str, ...]
    snapshots: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return what was written, for JSON."""
        return asdict(self)


def copy_notebooks(folder: Path, *, overwrite: bool = False) -> NotebookFolder:
    """Copy all notebooks into a folder, and the bundled snapshots into ``snapshots`` in it.

    Args:
        folder: Where to; it is made if it does not exist.
        overwrite: Whether notebooks that exist are replaced. Snapshots that exist are kept.

    Raises:
        InvalidOption: A notebook exists, or ``folder`` is a file.
        WriteFailed: A file cannot be written.
    """
    notebooks = sorted((FOLDER / "notebooks").glob("*.ipynb"))
    existing = [path.name for path in notebooks if (folder / path.name).exists()]
    if existing and not overwrite:
        advice = "name another folder, or --overwrite them"
        raise InvalidOption(f"{folder / existing[0]} exists already", advice=advice)
    if folder.exists() and not folder.is_dir():
        raise InvalidOption(f"{folder} is a file", advice="name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in notebooks:
            shutil.copyfile(path, folder / path.name)
        snapshots = {name: str(unpack(name, folder / "snapshots" / name)) for name in BUNDLED}
    except OSError as error:
        raise WriteFailed(f"the notebooks cannot be copied: {error}") from error
    return NotebookFolder(str(folder), tuple(path.name for path in notebooks), snapshots)
