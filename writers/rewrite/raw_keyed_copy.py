"""Carry raw keyed state of an operator's own over, key group by key group, for another number of subtasks.

Bytes stay as they are: Flink gives each key group's stream to the subtask that has the key group
(org.apache.flink.runtime.state.KeyGroupsStateHandle). A subtask's file has its key groups one after another.
"""

from __future__ import annotations

from dataclasses import replace

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.keygroups.ranges import key_group_range
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.metadata.snapshot import OperatorState, SubtaskState
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import RawKeyedPart, raw_keyed_parts
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.writers.commit.staging import Staging

_AT_ONCE = 8 << 20
_NOT_WRITTEN = -1
_TYPE = 3
"""KeyGroupsStateHandle without an id, which all releases read."""


def refuse_other_key_groups(operator: Operator, max_parallelism: int) -> None:
    """Raise UnsupportedSnapshot if raw keyed state would have to be divided into other key groups."""
    if max_parallelism == operator.max_parallelism or not any(raw_keyed_parts(operator)):
        return
    uid, number = operator.display, operator.max_parallelism
    raise UnsupportedSnapshot(
        "raw keyed state that is no timers: only the operator knows which keys its bytes belong to, and so which of "
        f"{max_parallelism} key groups",
        where=Where(file=operator.location.metadata_uri, operator=uid),
        advice=f"leave the operator's max parallelism as it is: --operator-max-parallelism {uid}={number}, "
        f"with_max_parallelism({number}, {uid!r}); or leave the operator out: remove_operator({uid!r})",
    )


def redistributed_raw_keyed(
    operator: Operator, carried: OperatorState, parallelism: int, staging: Staging
) -> OperatorState:
    """Return ``carried`` with the operator's raw keyed state for ``parallelism`` subtasks, and write its files.

    Raises CorruptSnapshot, MissingFile, WriteFailed.
    """
    parts = list(raw_keyed_parts(operator))
    if not parts:
        return carried
    subtasks = {subtask.index: subtask for subtask in carried.subtasks}
    pieces = {item.key_group: (part, item) for part in parts for item in part.ranges}
    for index in range(parallelism):
        handle = _written(key_group_range(operator.max_parallelism, parallelism, index), pieces, staging)
        if handle is not None:
            subtasks[index] = replace(subtasks.get(index, SubtaskState(index)), raw_keyed=handle)
    return replace(carried, subtasks=tuple(subtasks[index] for index in sorted(subtasks)))


def _written(
    groups: range, pieces: dict[int, tuple[RawKeyedPart, KeyGroupRange]], staging: Staging
) -> KeyGroupsHandle | None:
    """Write the bytes of these key groups into a file and return its handle; None if there are none."""
    if not any(group in pieces for group in groups):
        return None
    offsets, at = [], 0
    with staging.new_file() as file:
        for group in groups:
            if group not in pieces:
                offsets.append(_NOT_WRITTEN)
                continue
            part, item = pieces[group]
            offsets.append(at)
            at += item.stop - item.start
            for start in range(item.start, item.stop, _AT_ONCE):
                file.write(part.source.read(start, min(_AT_ONCE, item.stop - start)))
        return KeyGroupsHandle(_TYPE, groups.start, tuple(offsets), file.close())
