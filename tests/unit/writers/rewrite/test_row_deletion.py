"""Rows deleted from carried entries: what stays is what DuckDB keeps of the rows, byte for byte as it was."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from stateproc.codec.arrow_arrays import numbers_of, row_bytes_of
from stateproc.errors import CorruptSnapshot, InvalidOption, UnsupportedSnapshot
from stateproc.model.operator import Operator
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.heap.reader import packed_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers.core.opaque import Opaque
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.row_deletion import RowDeletion, row_deletion
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures, fixtures_in
from tests.helpers.writers.raw_copies import carried_batches

READS_EVERY_MODE = True
SINGLE = [one for one in fixtures() if not one.part]
ELEMENTS = {StateKind.LIST: ("list_index", "list_element"), StateKind.MAP: ("map_key", "map_value")}
Entry = tuple[int, bytes, bytes]


def deletion_of(operator: Operator, state: str, where: str, *, flatten: bool = False) -> RowDeletion:
    """The deletion as tasks get it."""
    header = merged_header(operator)
    made = row_deletion(header.keyed(state), where, operator.context, header.names, flatten=flatten)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


def entries_of(batches: list[pa.RecordBatch]) -> list[Entry]:
    names = ("key_group", "key", "value")
    return [row for batch in batches for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)]


def rows_of(deletion: RowDeletion, batches: list[pa.RecordBatch]) -> pa.Table:
    """The rows of entries, as reading decodes them."""

    def chunks() -> Iterator[RawEntries]:
        for batch in batches:
            keys, values = (row_bytes_of(batch.column(name)) for name in ("key", "value"))
            yield packed_entries(numbers_of(batch.column("key_group")).astype("int32"), keys, values, "test")

    decoded = list(decode_entries(chunks(), deletion.state, deletion.context, flatten=deletion.flatten))
    return pa.Table.from_batches(decoded) if decoded else pa.table({})


def kept_by_duckdb(rows: pa.Table, where: str) -> pa.Table:
    with duckdb.connect() as database:
        database.register("numbered", rows.append_column("__at", pa.array(range(rows.num_rows))))
        found = database.execute(f"SELECT __at FROM numbered WHERE ({where}) IS NOT TRUE ORDER BY __at").fetchnumpy()
    return rows.take(found["__at"])


def contents(rows: pa.Table) -> list[dict[str, object]]:
    """The rows, without positions in lists, from which other elements may be gone."""
    names = [name for name in rows.column_names if name != "list_index"]
    return rows.select(names).to_pylist()  # type: ignore[no-any-return]


def conditions(kind: StateKind, columns: list[str], ttl: bool) -> Iterator[tuple[str, bool]]:
    """Conditions over each column of a state's rows, and whether these are flattened."""
    yield "key_group % 3 = 1", False
    yield "key_group IN (3, 7) OR key IS NULL", False
    for column in columns:
        if kind is not StateKind.MAP or column in ("key", "namespace"):
            yield f"hash({column}::VARCHAR) % 2 = 0", False
    if kind in ELEMENTS:
        for column in (*ELEMENTS[kind], *(["last_access"] if ttl else [])):
            yield f"hash({column}::VARCHAR) % 3 = 0", True
        yield f"{ELEMENTS[kind][1]} IS NOT NULL", True
        yield "key_group % 2 = 0", True


@pytest.mark.parametrize("one", SINGLE, ids=lambda one: one.name)
def test_what_stays_is_what_duckdb_keeps_and_as_it_was(one: Fixture) -> None:
    snapshot = one.open(classes=CLASSES)
    for operator in snapshot.operators:
        header = merged_header(operator)
        for name in header.names:
            state, source = header.keyed(name), list(carried_batches(operator, name))
            plain = rows_of(deletion_of(operator, name, "key_group = 0"), source).column_names
            columns = [item for item in plain if item != "key_group"]
            merging = "namespace" in columns and is_refused(operator, name, "namespace IS NULL")
            for where, flatten in conditions(state.kind, columns, state.ttl):
                if merging and "namespace" in where:
                    continue
                deletion = deletion_of(operator, name, where, flatten=flatten)
                counts: list[int] = []
                kept = list(deletion.batches(source, counts.append))
                rows = rows_of(deletion, source)
                if not rows.num_rows:
                    assert kept == source
                    continue
                wanted = kept_by_duckdb(rows, where)
                found = rows_of(deletion, kept)
                assert found.num_rows == wanted.num_rows, where
                assert not found.num_rows or contents(found) == contents(wanted), where
                before, after = entries_of(source), entries_of(kept)
                if flatten and state.kind is StateKind.LIST:
                    assert sum(counts) == rows.num_rows - wanted.num_rows, where
                    at = {entry[:2]: entry[2] for entry in before}
                    assert all(len(value) <= len(at[group, key]) for group, key, value in after)
                else:
                    assert sum(counts) == len(before) - len(after), where
                    rest = iter(before)
                    assert all(entry in rest for entry in after), where


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
    with pytest.raises(UnsupportedSnapshot, match="the condition names what cannot be decoded"):
        row_deletion(unknown, "value > 1", operator.context, header.names)


def test_damaged_entries_are_an_error_and_those_of_other_key_groups_are_not_decoded() -> None:
    operator = kitchen()
    deletion = deletion_of(operator, "counter", "value > 1")
    (first, *_) = carried_batches(operator, "counter")
    index = first.schema.get_field_index("value")
    damaged = first.set_column(index, "value", pa.array([b"1"] * len(first), pa.large_binary()))
    with pytest.raises(CorruptSnapshot, match="counter"):
        list(deletion.batches([damaged]))
    elsewhere = replace(deletion, key_groups=frozenset())
    assert list(elsewhere.batches([damaged])) == [damaged]
    assert not elsewhere.touches(range(128))
