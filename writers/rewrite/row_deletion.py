"""Drop the entries of a copied state for whose rows a condition is true. What is kept stays the bytes it is.

A list whose elements are all dropped is dropped, as Flink's state backends do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stateproc.model.operator_context import OperatorContext
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.writers.rewrite.row_selection import RowSelection, row_selection


@dataclass(frozen=True)
class RowDeletion:
    """Drops the rows of one state that are selected. Picklable."""

    selection: RowSelection

    def touches(self, key_groups: Iterable[int]) -> bool:
        """Whether rows in any of these key groups can be selected."""
        return self.selection.touches(key_groups)

    @property
    def row_words(self) -> tuple[str, str]:
        """What a row is called: one, and several."""
        return self.selection.row_words

    def batches(
        self, batches: Iterable[pa.RecordBatch], observe: Callable[[int], object] = lambda _: None
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries that are kept (RAW_ENTRIES), in the same order.

        Args:
            batches: The entries (RAW_ENTRIES).
            observe: Called with numbers of dropped rows.

        Raises:
            CorruptSnapshot: Entries are damaged.
            UnsupportedSnapshot: A value that the condition names cannot be decoded.
            InvalidOption: A value that DuckDB refuses.
        """
        for part in self.selection.parts(batches):
            number = part.count
            observe(number)
            kept = part.without_selected() if number else part.batch
            if len(kept):
                yield kept


def row_deletion(
    state: StateDescriptor, where: str, operator: OperatorContext, names: Iterable[str], *, flatten: bool = False
) -> RowDeletion:
    """Return what drops the rows of a state for which a condition is true. Arguments and errors as `row_selection`."""
    return RowDeletion(row_selection(state, where, operator, names, flatten=flatten))
