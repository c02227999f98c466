"""Raw keyed state of an operator's own: bytes per key group whose format only the operator's code knows.

A handle has an offset per key group, -1 for those without; a key group's bytes end where the next ones begin. Flink
stores timers beside RocksDB in the same way: these begin with a magic number and are read as timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.html.units import human_bytes
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.timers import MAGIC, raw_ranges
from stateproc.storage import ByteSource, open_handle


@dataclass(frozen=True)
class RawKeyedPart:
    """The raw keyed state of a subtask. Picklable."""

    subtask: int
    handle: KeyGroupsHandle
    source: ByteSource
    ranges: tuple[KeyGroupRange, ...]

    @property
    def bytes(self) -> int:
        return sum(item.stop - item.start for item in self.ranges)


def raw_keyed_parts(operator: Operator) -> Iterator[RawKeyedPart]:
    """Yield what subtasks have of raw keyed state that is no timers.

    Raises CorruptSnapshot, MissingFile; UnsupportedSnapshot for handles without key groups.
    """
    for subtask in operator.metadata.subtasks:
        handle = subtask.raw_keyed
        if handle is None:
            continue
        where = Where(file=operator.location.metadata_uri, operator=operator.display)
        if not isinstance(handle, KeyGroupsHandle):
            raise UnsupportedSnapshot(
                f"subtask {subtask.index} has raw keyed state without offsets of key groups",
                where=where,
                advice="carry the operator over unchanged (a copy of its files), or leave it out",
            )
        if operator.has_timers_in(handle):
            continue
        source = open_handle(handle.stream, operator.location)
        wrong = [offset for offset in handle.offsets if offset > source.size]
        if wrong:
            raise CorruptSnapshot(
                f"raw keyed state of subtask {subtask.index} begins at byte {wrong[0]} of {source.size}",
                where=where,
                advice="_metadata is damaged; use a copy or take the snapshot again",
            )
        ranges = tuple(raw_ranges(handle, source.size))
        if ranges and not _are_timers(source, ranges[0]):
            yield RawKeyedPart(subtask.index, handle, source, ranges)


def _are_timers(source: ByteSource, first: KeyGroupRange) -> bool:
    return first.stop - first.start >= len(MAGIC) and source.read(first.start, len(MAGIC)) == MAGIC


def raw_keyed_text(size: int, key_groups: Iterable[int]) -> str:
    """Say how many bytes of raw keyed state there are, and in which key groups."""
    groups = list(key_groups)
    return f"{human_bytes(size)} of raw keyed state in key group{'' if len(groups) == 1 else 's'} {runs_text(groups)}"


def runs_text(numbers: Iterable[int], most: int = 8) -> str:
    """Return sorted numbers with runs as ``2–5``; after ``most`` of them, how many are left."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in runs[:most]]
    left = sum(last - first + 1 for first, last in runs[most:])
    return ", ".join(shown) + (f" and {left} more" if left else "")
