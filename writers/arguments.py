"""Check and convert arguments of the public methods."""

from __future__ import annotations

import os

from stateproc.errors import InvalidOption
from stateproc.writers.rewrite.edits import now_ms


def path_argument(path: object) -> str:
    """Return a path as text. Raises InvalidOption."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidOption(f"the path {path!r}", advice="give the directory as text, or a pathlib.Path")
    return os.fspath(path)


def time_argument(time: object, what: str) -> int:
    """Return a time in ms since the epoch, by default the current one. Raises InvalidOption."""
    if time is None:
        return now_ms()
    if not isinstance(time, int) or not -(2**63) <= time < 2**63:
        raise InvalidOption(
            f"{what} {time!r}", advice="give whole milliseconds since the epoch: int(1000 * moment.timestamp())"
        )
    return time
