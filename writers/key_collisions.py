"""Find keys that become one key while an operator's keys are written in another type.

Flink would take the entries of both for those of one key, also where no two of them collide: a map of one key and a map
of the other become one map. So each entry brings a pair of its new key and its old key along, as an entry of a state
that sorts before all others of its key group, and is not written. Sorted, pairs of the same new key follow one another,
so that a single pair is held to find one whose old key is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, numbers_of, row_bytes_of, scalar_text, values_array
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import DuplicateKey
from stateproc.serializers import LayoutContext, Serializer
from stateproc.writers.formats.entry_batches import RAW_ENTRIES, entry_batch, entry_columns, take_rows
from stateproc.writers.sorting.entry_kernels import find_other_value, mark_changes

STATE_ID = -1
"""The state id of pairs, which is that of no state."""
_LONGEST = 200


def key_pairs(key_groups: pa.Array, new: RowBytes, old: RowBytes) -> pa.RecordBatch:
    """Return the pairs of entries as RAW_ENTRIES, those that repeat the one before them left out.

    Args:
        key_groups: The key groups of the new keys.
        old: The bytes of the old keys, as many.
    """
    groups, changed = numbers_of(key_groups), np.zeros(len(new), dtype=np.bool_)
    columns = (new.data, new.offsets, old.data, old.offsets, changed)
    if mark_changes(len(new), *(column.ctypes.data for column in columns)) < len(new):
        at = np.flatnonzero(changed)
        groups, new, old = groups[at], take_rows(new, at), take_rows(old, at)
    return entry_batch(groups, STATE_ID, new, old)


@dataclass(frozen=True)
class KeyCollisions:
    """Compares the pairs of an operator's keys. Picklable.

    Attributes:
        old: The type of the old keys.
        new: The type of the new keys.
        context: Settings of layouts, for messages.
    """

    old: Serializer
    new: Serializer
    context: LayoutContext

    def checked(self, runs: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield sorted entries (RAW_ENTRIES) without pairs. Raises DuplicateKey for two keys that become one."""
        last: pa.RecordBatch | None = None
        for batch in runs:
            is_pair = numbers_of(batch.column("state_id")) == STATE_ID
            if not is_pair.any():
                yield batch
                continue
            pairs = batch.filter(values_array(is_pair)).select(RAW_ENTRIES.names).cast(RAW_ENTRIES)
            if last is not None:
                pairs = pa.Table.from_batches([last, pairs]).combine_chunks().to_batches()[0]
            self._compare(pairs)
            last = pairs.slice(len(pairs) - 1)
            if not is_pair.all():
                yield batch.filter(values_array(~is_pair))

    def _compare(self, pairs: pa.RecordBatch) -> None:
        columns = entry_columns(pairs)
        new, old = columns.keys, columns.values
        addresses = (new.address, new.offsets.ctypes.data, old.address, old.offsets.ctypes.data)
        row = find_other_value(len(columns), columns.key_groups.ctypes.data, *addresses)
        if row >= 0:
            one, two = sorted(self._text(self.old, pairs.column("value"), at) for at in (row - 1, row))
            raise DuplicateKey(
                f"the keys {one} and {two} become one key, {self._text(self.new, pairs.column('key'), row)}",
                advice="keep the fields in which they differ, or give the new key another value by an expression: "
                "--set; or delete the rows of one of them before: stateproc delete",
            )

    def _text(self, key: Serializer, stored: pa.Array, row: int) -> str:
        data = row_bytes_of(stored.slice(row, 1))
        decoder = ValueDecoder(key.layout(self.context))
        text = scalar_text(decoder.decode(data.data, data.offsets[:-1], data.offsets[1:])[0])
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
