"""Compare sets of decoded rows, and build the rows that say what changed.

A change has the columns of the state's rows and ``_change_type``, whose values are those of Delta's change data feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, values_array
from stateproc.diff.common_schema import batch_of
from stateproc.diff.entry_table import Matches, joined, match, table_of_rows
from stateproc.diff.row_identity import identity

CHANGE_TYPE = "_change_type"
DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER = CHANGE_TYPES = ("delete", "insert", "update_preimage", "update_postimage")
KEY_COLUMNS = ("service", "timestamp", "key", "namespace", "map_key", "list_index")
"""Columns that identify a row within its state; key groups and subtasks do not: they depend on the parallelism."""
UNIDENTIFYING = ("key_group", "subtask")


@dataclass(frozen=True)
class RowSet:
    """Rows of one side.

    Attributes:
        rows: The rows, in the columns that both sides have in common.
        keys: What identifies each row.
        values: What else it contains.
    """

    rows: pa.RecordBatch
    keys: RowBytes
    values: RowBytes

    def __len__(self) -> int:
        return len(self.rows)


def row_set(rows: pa.RecordBatch, keys: Sequence[str], values: Sequence[str], added: RowBytes | None = None) -> RowSet:
    """Encode rows to be compared.

    Args:
        keys: The columns that identify a row.
        values: The columns in which rows of equal keys may differ.
        added: Further bytes of each row's value.
    """
    n = len(rows)
    found = identity([rows.column(name) for name in values], n)
    if added is not None:
        found = joined([found, added])
    return RowSet(rows, identity([rows.column(name) for name in keys], n), found)


@dataclass(frozen=True)
class ChangeCounts:
    """Numbers of entries.

    Attributes:
        left: Entries of the first snapshot.
        right: Entries of the second snapshot.
        equal: Entries that are equal in both.
        inserted: Entries whose keys only the second has.
        deleted: Entries whose keys only the first has.
        updated: Entries whose values differ.
        left_bytes: Bytes of keys and values of the first snapshot; None if they were not counted.
        right_bytes: The same of the second snapshot.
    """

    left: int = 0
    right: int = 0
    equal: int = 0
    inserted: int = 0
    deleted: int = 0
    updated: int = 0
    left_bytes: int | None = None
    right_bytes: int | None = None

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(
            self.left + other.left,
            self.right + other.right,
            self.equal + other.equal,
            self.inserted + other.inserted,
            self.deleted + other.deleted,
            self.updated + other.updated,
            _sum(self.left_bytes, other.left_bytes),
            _sum(self.right_bytes, other.right_bytes),
        )

    @property
    def changed(self) -> int:
        """The number of keys that differ."""
        return self.inserted + self.deleted + self.updated


def _sum(one: int | None, two: int | None) -> int | None:
    return one if two is None else two if one is None else one + two


@dataclass(frozen=True)
class UnitChanges:
    """What differs in one unit of work.

    Attributes:
        counts: Numbers of entries.
        rows: The changed rows with ``_change_type``; None if there are none.
        bytes: Stored bytes that were read, approximately, for progress.
    """

    counts: ChangeCounts
    rows: pa.RecordBatch | None = None
    bytes: int = 0

    @property
    def nbytes(self) -> int:
        """The size of the rows."""
        return 0 if self.rows is None else int(self.rows.nbytes)


def changed_rows(left: RowSet, right: RowSet) -> tuple[Matches, pa.RecordBatch | None]:
    """Compare two sets of rows; return what matches, and the changed rows: deleted, updated, inserted."""
    found = match(table_of_rows(left.keys, left.values), table_of_rows(right.keys, right.values))
    if not (len(found.deleted) or len(found.inserted) or len(found.before)):
        return found, None
    return found, change_batch(left.rows, right.rows, found)


def change_batch(left: pa.RecordBatch, right: pa.RecordBatch, found: Matches) -> pa.RecordBatch:
    """Return the rows that differ, with their change type; of an update both rows, one after the other."""
    updates = np.empty(2 * len(found.before), dtype=np.int64)
    updates[0::2], updates[1::2] = found.before, len(left) + found.after
    order = np.concatenate([found.deleted, updates, len(left) + found.inserted])
    kinds = np.zeros(len(order), dtype=np.int32)
    first, last = len(found.deleted), len(found.deleted) + len(updates)
    kinds[first:last:2], kinds[first + 1 : last : 2], kinds[last:] = 2, 3, 1
    rows = batch_of(pa.Table.from_batches([left, right]).take(values_array(order)))
    names = pa.DictionaryArray.from_arrays(values_array(kinds), _type_names()).cast(pa.string())
    schema = pa.schema([pa.field(CHANGE_TYPE, pa.string(), nullable=False), *left.schema])
    return pa.RecordBatch.from_arrays([names, *rows.columns], schema=schema)


def _type_names() -> pa.Array:
    offsets = np.zeros(len(CHANGE_TYPES) + 1, dtype=np.int32)
    np.cumsum([len(name) for name in CHANGE_TYPES], out=offsets[1:])
    data = "".join(CHANGE_TYPES).encode()
    return pa.Array.from_buffers(pa.string(), len(CHANGE_TYPES), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
