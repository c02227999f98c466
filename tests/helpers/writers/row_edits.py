"""Rows of carried entries, and what DuckDB says of them, for the tests of deleting and updating rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of, row_bytes_of
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.heap.reader import packed_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import StateKind
from stateproc.writers.rewrite.row_selection import RowSelection
from stateproc.writers.rewrite.ttl import ListElements
from tests.helpers.fixture_samples import format_of, representatives
from tests.helpers.fixtures import fixtures

DATABASE = duckdb.connect()
"""Connecting takes longer than most conditions."""
SWEPT = [
    one
    for one in fixtures()
    if one.name in representatives(False)
    and (format_of(one) == "canonical" or one.name.endswith("tiny-hashmap-changelog"))
    and one.manifest["job"] in ("kitchen", "windows", "sql", "sql-sessions", "edges", "corners", "tiny")
]
"""Jobs with all kinds and types of states. Entries are alike in all formats, which the tests of carrying compare."""
Entry = tuple[int, bytes, bytes]
"""Key group, key, value."""


def entries_of(batches: Iterable[pa.RecordBatch]) -> list[Entry]:
    names = ("key_group", "key", "value")
    return [row for batch in batches for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)]


def rows_of(selection: RowSelection, batches: list[pa.RecordBatch]) -> pa.Table:
    """The rows of entries, as reading decodes them; of maps one for each entry."""

    def chunks() -> Iterator[RawEntries]:
        for batch in batches:
            keys, values = (row_bytes_of(batch.column(name)) for name in ("key", "value"))
            yield packed_entries(numbers_of(batch.column("key_group")).astype("int32"), keys, values, "test")

    flatten = selection.flatten or selection.state.kind is StateKind.MAP
    decoded = list(decode_entries(chunks(), selection.state, selection.context, flatten=flatten))
    return pa.Table.from_batches(decoded) if decoded else pa.table({})


def chosen_by_duckdb(rows: pa.Table, where: str) -> npt.NDArray[np.bool_]:
    """Per row, whether DuckDB finds the condition true."""
    DATABASE.register("numbered", rows)
    found = DATABASE.execute(f"SELECT ({where}) IS TRUE AS chosen FROM numbered").fetchnumpy()["chosen"]
    return np.asarray(found, dtype=np.bool_)


def elements_of(selection: RowSelection, batches: Iterable[pa.RecordBatch]) -> list[Entry]:
    """Key group, key and bytes of each element of lists."""
    found = []
    for batch in batches:
        offsets, items = ListElements(selection.state, selection.context).of(row_bytes_of(batch.column("value")))
        parents = np.repeat(np.arange(len(batch)), np.diff(offsets)).tolist()
        groups, keys, values = (part.to_pylist() for part in (batch["key_group"], batch["key"], items.to_arrow()))
        found += [(groups[at], keys[at], value) for at, value in zip(parents, values, strict=True)]
    return found
