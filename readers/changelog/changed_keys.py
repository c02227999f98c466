"""The keys that changes of a log touch."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable

import numpy as np

from stateproc.keygroups.ranges import prefix_width
from stateproc.readers.changelog.byte_gather import numbered
from stateproc.readers.changelog.change_blocks import ChangeBlock
from stateproc.readers.changelog.log_compaction import RowCollector
from stateproc.readers.changelog.operations import Operation
from stateproc.readers.changelog.records import check_operations, records
from stateproc.readers.rocksdb.key_ranges import KeySpan, joined, prefix_span
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext

_COLLECTED_AT_ONCE = 16 << 20
MOST_KEYS = 200_000
"""Keys that are held. Logs that change more have little in common: reading both whole takes less."""


class ChangedKeys:
    """Collects the distinct keys of changes.

    Args:
        target: The state that is changed.
        context: Settings of layouts.
        max_parallelism: The operator's number of key groups.

    Attributes:
        are_known: Whether these are all keys that may differ. They are not where namespaces were merged, so that a key
            has what another key had before, or where there are too many to hold.
    """

    def __init__(self, target: KeyedState, context: LayoutContext, max_parallelism: int) -> None:
        self._target, self._context, self._width = target, context, prefix_width(max_parallelism)
        self._keys: dict[int, set[bytes]] = {}
        self._waiting: list[ChangeBlock] = []
        self._bytes = 0
        self.are_known = True

    def note(self, block: ChangeBlock) -> None:
        """Note whether changes merge namespaces."""
        codes = np.frombuffer(block.data or b"\0", dtype=np.uint8)[block.starts]
        self.are_known = self.are_known and not (codes == Operation.MERGE_NS).any()

    def add(self, block: ChangeBlock) -> None:
        """Add changes, each of which has its head. Raises CorruptSnapshot."""
        self.note(block)
        self._waiting.append(block)
        self._bytes += len(block.data)
        if self._bytes > _COLLECTED_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Take apart what was added. Raises CorruptSnapshot naming file and offset."""
        found = records(self._waiting)
        self._waiting, self._bytes = [], 0
        check_operations(found, self._target)
        collector = RowCollector(self._target, self._context)
        for code in np.unique(found.operations).tolist() if len(found) else []:
            collector.apply(found, Operation(code))
        rows = collector.rows()
        numbers, n = numbered(rows.groups, rows.key_at, rows.key_sizes)
        last = np.zeros(n, dtype=np.int64)
        last[numbers] = np.arange(len(rows))
        columns = (rows.groups[last].tolist(), rows.key_at[last].tolist(), rows.key_sizes[last].tolist())
        for group, at, size in zip(*columns, strict=True):
            self._keys.setdefault(group, set()).add(ctypes.string_at(at, size))
        if sum(map(len, self._keys.values())) > MOST_KEYS:
            self._keys.clear()
            self.are_known = False

    @property
    def key_groups(self) -> Collection[int]:
        """The key groups that have any of the keys."""
        return self._keys.keys()

    def spans(self, key_groups: Iterable[int]) -> list[KeySpan]:
        """Return the entries of the keys in some key groups, as spans of a database's keys."""
        prefixed = (
            group.to_bytes(self._width, "big") + key for group in key_groups for key in self._keys.get(group, ())
        )
        if self._target.kind is StateKind.MAP:
            # Entries of a map have their user key after this.
            return joined(map(prefix_span, prefixed))
        return joined((key, key + b"\0") for key in prefixed)
