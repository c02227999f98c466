"""Rows deleted from carried entries: what stays is what DuckDB keeps of the rows, byte for byte as it was."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, InvalidOption, UnsupportedSnapshot
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers.core.opaque import Opaque
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.row_selection import RowDeletion, row_deletion
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures_in
from tests.helpers.writers.raw_copies import carried_batches
from tests.helpers.writers.row_edits import SWEPT, chosen_by_duckdb, elements_of, entries_of, rows_of

READS_EVERY_MODE = False


def deletion_of(operator: Operator, state: str, where: str, *, flatten: bool = False) -> RowDeletion:
    """The deletion as tasks get it."""
    header = merged_header(operator)
    made = row_deletion(header.keyed(state), where, operator.context, header.names, flatten=flatten)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


def conditions(rows: dict[bool, pa.Table], kind: StateKind, merging: bool) -> Iterator[tuple[str, bool]]:
    """Conditions over the columns of a state's rows, which are flattened or not."""
    keys = [
        name for name in ("key", "namespace") if name in rows[False].column_names and (name == "key" or not merging)
    ]
    yield f"key_group % 5 = 1 OR {_digest(keys)}", False
    for flatten, table in rows.items():
        others = [name for name in table.column_names if name not in ("key_group", "key", "namespace")]
        if kind is not StateKind.MAP or flatten:
            yield _digest(others), flatten
    if kind is StateKind.MAP:
        yield f"key_group % 2 = 0 AND {_digest(['map_key', *keys])}", True


def _digest(columns: list[str]) -> str:
    return "(" + " + ".join(f"hash({name}::VARCHAR) % 97" for name in columns) + ") % 2 = 0"


@pytest.mark.parametrize("one", SWEPT, ids=lambda one: one.name)
def test_what_stays_is_what_duckdb_keeps_and_as_it_was(one: Fixture) -> None:
    for operator in one.open(classes=CLASSES).operators:
        header = merged_header(operator)
        for name in header.names:
            kind, source = header.keyed(name).kind, list(carried_batches(operator, name))
            rows: dict[bool, pa.Table] = {}
            for flatten in {False, kind in (StateKind.LIST, StateKind.MAP)}:
                selection = deletion_of(operator, name, "key_group = 0", flatten=flatten).selection
                rows[flatten] = rows_of(selection, source)
            if not rows[False].num_rows:
                assert not any(len(batch) for batch in source)
                continue
            merging = "namespace" in rows[False].column_names and is_refused(operator, name, "namespace IS NULL")
            for where, flatten in conditions(rows, kind, merging):
                check(deletion_of(operator, name, where, flatten=flatten), source, rows[flatten])


def check(deletion: RowDeletion, source: list[pa.RecordBatch], rows: pa.Table) -> None:
    """Compare what is kept with the rows that DuckDB does not choose, as bytes and in their order."""
    counts: list[int] = []
    selection = deletion.selection
    kept = list(deletion.batches(source, counts.append))
    chosen = chosen_by_duckdb(rows, selection.where)
    parts = elements_of(selection, source) if selection.of_elements else entries_of(source)
    found = elements_of(selection, kept) if selection.of_elements else entries_of(kept)
    assert found == [part for part, gone in zip(parts, chosen.tolist(), strict=True) if not gone], selection.where
    assert sum(counts) == np.count_nonzero(chosen)


def is_refused(operator: Operator, state: str, where: str) -> bool:
    try:
        deletion_of(operator, state, where)
    except InvalidOption as error:
        assert "windows that merge" in str(error)
        return True
    return False


def kitchen() -> Operator:
    return fixtures_in(FIXTURES / "1.20/kitchen-rocksdb-incremental")[-1].open(classes=CLASSES).operator("kitchen-long")


@pytest.mark.parametrize(
    ("state", "where", "flatten", "message"),
    [
        ("counter", "valu > 3", False, "valu"),
        ("counter", "value.total > 1", False, "total"),
        ("counter", "key", False, "is not a boolean"),
        ("counter", "map_key = 1", False, "map_key"),
        ("counter", "key = 1", True, "has no elements: it is value state"),
        ("addresses", "cardinality(value) > 1", False, "a condition on whole maps"),
        ("addresses", "value['x'] IS NULL", True, "value"),
    ],
)
def test_conditions_that_entries_do_not_determine_are_refused(
    state: str, where: str, flatten: bool, message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        deletion_of(kitchen(), state, where, flatten=flatten)


def test_values_are_decoded_only_where_the_condition_names_them() -> None:
    operator = kitchen()
    header, source = merged_header(operator), list(carried_batches(operator, "counter"))
    unknown = replace(header.keyed("counter"), value=Opaque("com.acme.Unknown", "nothing describes it"))
    by_key = row_deletion(unknown, "key = 0", operator.context, header.names)
    kept = entries_of(list(by_key.batches(source)))
    assert kept == [entry for entry in entries_of(source) if entry[1] != bytes(9)]
    with pytest.raises(UnsupportedSnapshot, match="a row has what cannot be decoded"):
        row_deletion(unknown, "value > 1", operator.context, header.names)


def test_damaged_entries_are_an_error_and_those_of_other_key_groups_are_not_decoded() -> None:
    operator = kitchen()
    deletion = deletion_of(operator, "counter", "value > 1")
    (first, *_) = carried_batches(operator, "counter")
    index = first.schema.get_field_index("value")
    damaged = first.set_column(index, "value", pa.array([b"1"] * len(first), pa.large_binary()))
    with pytest.raises(CorruptSnapshot, match="counter"):
        list(deletion.batches([damaged]))
    elsewhere = replace(deletion, selection=replace(deletion.selection, key_groups=frozenset()))
    assert list(elsewhere.batches([damaged])) == [damaged]
    assert not elsewhere.selection.touches(range(128))
