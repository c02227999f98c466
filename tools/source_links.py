"""Restore the symbolic links of the source tree, which git without core.symlinks, as on Windows, writes as text files.

The folders ``readers`` and ``writers`` belong to the root of the repository and to the package, and the demo shows
snapshots that tests read: links, which wheels and sdists contain as what they point to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

LINKS = {
    "stateproc/readers": "../readers",
    "stateproc/writers": "../writers",
    "stateproc/demo/notebooks": "../../notebooks",
    "stateproc/demo/data/shop": "../../../tests/fixtures/1.20/demo/snapshot",
    "stateproc/demo/data/checkpoints.tar.xz": "../../../tests/fixtures/1.20/chain-expiring.tar.xz",
    "stateproc/demo/data/sql.tar.xz": "../../../tests/fixtures/1.20/sql-rocksdb-canonical.tar.xz",
}
"""Each link and what it points to, as git has it."""


def restore_links(root: Path) -> list[str]:
    """Replace the text files by links or, where the system refuses them, by what they point to; return their paths."""
    restored = []
    for name, target in LINKS.items():
        path = root / name
        if path.is_symlink() or not path.is_file() or path.stat().st_size != len(target):
            continue
        if path.read_bytes() == target.encode():
            path.unlink()
            _link(path, target)
            restored.append(name)
    return restored


def _link(path: Path, target: str) -> None:
    real = Path(os.path.normpath(path.parent / target))
    try:
        path.symlink_to(target, target_is_directory=real.is_dir())
    except OSError:  # Windows gives the right to make links to developers and administrators only.
        if not real.is_dir():
            shutil.copyfile(real, path)
        elif os.name != "nt" or subprocess.run(["cmd", "/c", "mklink", "/J", str(path), str(real)]).returncode:
            shutil.copytree(real, path)
