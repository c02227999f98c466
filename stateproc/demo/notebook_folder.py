"""Copy the notebooks and the bundled snapshots into a folder."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stateproc.demo.bundled import BUNDLED, FOLDER, unpack
from stateproc.errors import InvalidOption, WriteFailed


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
