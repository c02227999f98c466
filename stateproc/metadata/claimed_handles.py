"""Find the handles whose files may be those of a native savepoint that the job claimed; see storage/claimed_files.py.

Flink writes what incremental checkpoints share into the directory ``shared``, with absolute handles. Only a native
savepoint has handles of shared files that are relative, and checkpoints of a job that claimed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stateproc.metadata.handles import ChangelogHandle, IncrementalHandle, KeyedHandle, RelativeFileHandle
from stateproc.metadata.snapshot import OperatorState


def relative_shared_files(operators: Iterable[OperatorState]) -> Iterator[RelativeFileHandle]:
    """Yield the relative handles of files that checkpoints share."""
    for operator in operators:
        for subtask in operator.subtasks:
            if subtask.managed_keyed is not None:
                yield from _of_keyed(subtask.managed_keyed)


def _of_keyed(handle: KeyedHandle) -> Iterator[RelativeFileHandle]:
    if isinstance(handle, IncrementalHandle):
        yield from (stream for _, stream in handle.shared if isinstance(stream, RelativeFileHandle))
    elif isinstance(handle, ChangelogHandle):
        for inner in handle.materialized:
            yield from _of_keyed(inner)
