"""The exit statuses of all commands."""

from __future__ import annotations

from stateproc.errors import CheckFailed, InvalidOption, MissingPackage, NotFound, SnapshotError

YES = 0
"""Done; or: equal, intact, found."""
NO = 1
"""The answer is no: snapshots differ, problems were found, a check failed, there is nothing of the kind asked for."""
USAGE = 2
"""The arguments cannot be parsed, contradict each other, or name what the snapshot does not have."""
UNREADABLE = 3
"""The snapshot is damaged, missing or not supported, or an output could not be written."""


def status_of(error: SnapshotError) -> int:
    """Return the exit status of a command that ends with an error."""
    if isinstance(error, CheckFailed):
        return NO
    return USAGE if isinstance(error, (InvalidOption, MissingPackage, NotFound)) else UNREADABLE
