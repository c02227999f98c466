"""Assign the rows of an operator state to subtasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, SUBTASK


def element_rows(columns: Mapping[str, pa.Array], parallelism: int, *, broadcast: bool) -> Iterator[pa.RecordBatch]:
    """Yield rows of an operator state with their subtasks, once for each copy of them.

    Args:
        columns: The columns by their roles, with POSITION; with SUBTASK if rows name their subtask.
        parallelism: The operator's number of subtasks, to which rows without SUBTASK are assigned in turn.
        broadcast: Whether every subtask gets all rows.
    """
    if SUBTASK in columns:
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return
    positions = numbers_of(columns[POSITION])
    if broadcast:
        found = [np.full(len(positions), subtask, dtype=np.int32) for subtask in range(parallelism)]
    else:
        found = [(positions % parallelism).astype(np.int32)]
    for subtasks in found:
        yield pa.RecordBatch.from_arrays([*columns.values(), values_array(subtasks)], [*columns, SUBTASK])
