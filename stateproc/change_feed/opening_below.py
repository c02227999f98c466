"""Open the snapshots below directories that the user names as those of a job's checkpoints and savepoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stateproc.options import BY_NAME
from stateproc.snapshot.opening import open
from stateproc.snapshot.snapshot import Snapshot


def open_below(roots: str | Sequence[str], path: str, opening: Mapping[str, Any]) -> Snapshot:
    """Open one of the snapshots below roots.

    Its files may be below any of them: a restored job shares files with the checkpoints and savepoints before it.

    Args:
        roots: The directories, or the only one.
        path: The snapshot.
        opening: Keyword arguments of `stateproc.open`.

    Raises:
        SnapshotError: It cannot be opened.
    """
    allowed = BY_NAME["allowed_roots"].value(opening.get("allowed_roots"))
    below = (roots,) if isinstance(roots, str) else tuple(roots)
    return open(path, **{**opening, "allowed_roots": (*allowed, *below)})
