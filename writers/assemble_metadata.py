"""Assemble ``_metadata`` from the files that tasks have written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stateproc.errors import WriteFailed
from stateproc.metadata.snapshot import OperatorState, SnapshotMetadata, SubtaskState
from stateproc.writers.commit.commit import Commit
from stateproc.writers.write_plan import OperatorJob, WriteJob
from stateproc.writers.write_task import WrittenTarget, write_empty


@dataclass(frozen=True)
class CompletedWrite:
    """A snapshot that is complete.

    Attributes:
        metadata: its metadata.
        targets: the state files that were written.
        leftovers: names of obsolete files that could not be removed.
    """

    metadata: SnapshotMetadata
    targets: tuple[WrittenTarget, ...]
    leftovers: tuple[str, ...]


def finish(job: WriteJob, commit: Commit, written: Iterable[WrittenTarget]) -> CompletedWrite:
    """Complete the write. Targets without entries, which no task has written, are written here. Raises WriteFailed."""
    items = list(written)
    items += write_empty(job, items)
    metadata = metadata_of(job, items)
    return CompletedWrite(metadata, tuple(items), commit.complete(metadata, job.release.metadata_version))


def metadata_of(job: WriteJob, written: Iterable[WrittenTarget]) -> SnapshotMetadata:
    """Return the snapshot's metadata. Raises WriteFailed where two tasks have written one target."""
    targets = job.targets
    subtasks: list[dict[int, SubtaskState]] = [
        {subtask.index: subtask for subtask in operator.carried} for operator in job.operators
    ]
    seen: set[int] = set()
    for item in written:
        if item.target in seen:
            raise WriteFailed(
                f"two tasks have written state file {item.target}",
                advice="entries of one file came in more than one partition; report this as a bug",
            )
        seen.add(item.target)
        target = targets[item.target]
        mine = subtasks[target.operator]
        state = mine.get(target.subtask, SubtaskState(target.subtask))
        if item.keyed is not None:
            state = replace(state, managed_keyed=item.keyed)
        if item.operator is not None:
            state = replace(state, managed_operator=item.operator)
        mine[target.subtask] = state
    operators = tuple(_operator(operator, mine) for operator, mine in zip(job.operators, subtasks, strict=True))
    return SnapshotMetadata(job.release.metadata_version, job.checkpoint_id, job.master_states, operators)


def _operator(operator: OperatorJob, subtasks: dict[int, SubtaskState]) -> OperatorState:
    return operator.state([subtasks[index] for index in sorted(subtasks)])
