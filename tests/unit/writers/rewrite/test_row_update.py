"""Rows updated in carried entries: as DuckDB's REPLACE has them, and all other entries byte for byte as they were."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, InvalidOption, InvalidRows, SnapshotError, UnsupportedSnapshot
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers.core.opaque import Opaque
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.row_selection import row_deletion
from stateproc.writers.rewrite.row_update import RowUpdate, row_update, settable_column
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures_in
from tests.helpers.writers.raw_copies import carried_batches
from tests.helpers.writers.row_edits import DATABASE, SWEPT, chosen_by_duckdb, entries_of, rows_of

READS_EVERY_MODE = False
WHERE = "key_group % 2 = 0"


def update_of(
    operator: Operator, state: str, assignments: Sequence[str], where: str, *, flatten: bool = False
) -> RowUpdate:
    """The update as tasks get it."""
    header = merged_header(operator)
    made = row_update(header.keyed(state), assignments, where, operator.context, header.names, flatten=flatten)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


@pytest.mark.parametrize("one", [one for one in SWEPT if one.manifest["job"] != "tiny"], ids=lambda one: one.name)
def test_rows_that_are_set_to_what_they_are_stay_as_they_are(one: Fixture) -> None:
    """Every type: as a whole, which may change a null's padding and a RowKind; and one field, as bytes."""
    seen: set[tuple[object, ...]] = set()
    for operator in one.open(classes=CLASSES).operators:
        header = merged_header(operator)
        for name in header.names:
            state, source = header.keyed(name), list(carried_batches(operator, name))
            # Keys are not written anew.
            kind = (state.kind, state.value.type_name, state.user_key is None, state.ttl)
            if kind in seen or not sum(map(len, source)):
                continue
            seen.add(kind)
            flatten, column = state.kind in (StateKind.LIST, StateKind.MAP), settable_column(state).column
            shown = row_deletion(state, WHERE, operator.context, header.names, flatten=flatten).selection
            before = rows_of(shown, source)
            try:
                whole = list(
                    update_of(operator, name, [f"{column} = {column}"], WHERE, flatten=flatten).batches(source)
                )
            except UnsupportedSnapshot as error:
                assert "read only" in str(error) and "Kryo" in state.value.type_name
                continue
            assert repr(rows_of(shown, whole).to_pylist()) == repr(before.to_pylist()), name
            type_ = before.schema.field(column).type
            if pa.types.is_struct(type_):
                field = f'{column}."{type_.field(0).name}"'
                where = f"{WHERE} AND {column} IS NOT NULL"
                update = update_of(operator, name, [f"{field} = {field}"], where, flatten=flatten)
                assert entries_of(update.batches(source)) == entries_of(source), name


def kitchen(uid: str = "kitchen-long") -> Operator:
    return fixtures_in(FIXTURES / "1.20/kitchen-rocksdb-incremental")[-1].open(classes=CLASSES).operator(uid)


@pytest.mark.parametrize(
    ("uid", "state", "set_", "where", "replaced"),
    [
        ("kitchen-long", "counter", {"value": "value * 2 + 1"}, "value > 2", "value * 2 + 1"),
        ("kitchen-long", "counter", {"value": "0"}, "key % 4 = 0", "0"),
        (
            "kitchen-long",
            "profile",
            {"value.total": "value.total / 2", "value.name": "upper(value.name)", "value.vip": "(NOT value.vip)"},
            "value.vip",
            "struct_update(value, total := value.total / 2, name := upper(value.name), vip := NOT value.vip)",
        ),
        (
            "kitchen-long",
            "profile",
            {"value.address.street": "'Elm street'"},
            "value.address IS NOT NULL",
            "struct_update(value, address := struct_update(value.address, street := 'Elm street'))",
        ),
        (
            "kitchen-long",
            "profile",
            {"value.products": "[]", "value.address": "{'house': 1, 'street': 'x'}"},
            "value.vip",
            "struct_update(value, products := [], address := {'house': 1, 'street': 'x'})",
        ),
        ("kitchen-long", "products", {"list_element": "list_element || '!'"}, "list_index = 1", "list_element || '!'"),
        ("kitchen-long", "spent", {"map_value": "map_value + 0.5"}, "map_key <> 'tea'", "map_value + 0.5"),
        (
            "kitchen-long",
            "addresses",
            {"map_value.house": "map_key"},
            "map_value.house < -5",
            "struct_update(map_value, house := map_key)",
        ),
        ("kitchen-long", "addresses", {"map_value": "NULL"}, "map_key % 2 = 1", "NULL"),
        ("kitchen-ttl", "profile", {"value.orders": "7"}, "value.orders > 2", "struct_update(value, orders := 7)"),
        ("kitchen-ttl", "products", {"list_element": "'x'"}, "list_index % 2 = 0", "'x'"),
        ("kitchen-ttl", "spent", {"map_value": "0"}, "map_value > 6", "0"),
        ("kitchen-long", "_timer_state/event_user-timers", {"timestamp": "timestamp + 1"}, "key > 1", "timestamp + 1"),
    ],
)
def test_rows_are_set_as_duckdb_does(uid: str, state: str, set_: dict[str, str], where: str, replaced: str) -> None:
    operator = kitchen(uid)
    header, source = merged_header(operator), list(carried_batches(operator, state))
    descriptor = header.keyed(state)
    flatten = descriptor.kind in (StateKind.LIST, StateKind.MAP)
    update = update_of(operator, state, [f"{target} = {text}" for target, text in set_.items()], where, flatten=flatten)
    counts: list[int] = []
    found = list(update.batches(source, counts.append))
    shown = row_deletion(descriptor, where, operator.context, header.names, flatten=flatten).selection
    rows = rows_of(shown, source)
    chosen = chosen_by_duckdb(rows, where)
    assert 0 < sum(counts) == int(chosen.sum()) < len(chosen)
    DATABASE.register("numbered", rows)
    column = settable_column(descriptor).column
    query = f"SELECT * REPLACE (CASE WHEN {where} THEN {replaced} ELSE {column} END AS {column}) FROM numbered"
    assert rows_of(shown, found).to_pylist() == DATABASE.sql(query).to_arrow_table().to_pylist()
    if not shown.of_elements:
        pairs = zip(entries_of(source), entries_of(found), chosen.tolist(), strict=True)
        assert all(is_chosen or before == after for before, after, is_chosen in pairs)


def test_several_updates_are_made_in_their_order_and_empty_states_stay_empty() -> None:
    operator = kitchen()
    source = list(carried_batches(operator, "counter"))
    first = list(update_of(operator, "counter", ["value = 5"], "true").batches(source))
    second = update_of(operator, "counter", ["value = value + 1"], "value = 5")
    assert {row["value"] for row in rows_of(second.selection, list(second.batches(first))).to_pylist()} == {6}
    assert list(second.batches([])) == []


def test_only_values_of_rows_with_the_keys_of_a_condition_are_decoded() -> None:
    operator = kitchen()
    (batch,) = carried_batches(operator, "counter")
    values = [b"" if row == 1 else value for row, value in enumerate(batch.column("value").to_pylist())]
    damaged = batch.set_column(3, "value", pa.array(values, pa.large_binary()))
    (key, other, *_) = (
        row["key"]
        for row in rows_of(update_of(operator, "counter", ["value = 1"], "true").selection, [batch]).to_pylist()
    )
    assert key != other
    (found,) = update_of(operator, "counter", ["value = 258"], f"key + 0 = {key}").batches([damaged])
    assert found.column("value").to_pylist() == [bytes([0] * 6 + [1, 2]), *values[1:]]
    assert found.column("key") == batch.column("key")
    for where in (f"key + 0 = {other}", "value > 0", "true"):
        with pytest.raises(CorruptSnapshot):
            list(update_of(operator, "counter", ["value = 258"], where).batches([damaged]))


@pytest.mark.parametrize(
    ("state", "assignments", "flatten", "message"),
    [
        ("counter", ["value"], False, "'value' is no assignment"),
        ("counter", ["value + 1 = 2"], False, "'value \\+ 1' is no column or field"),
        ("counter", ["key = 1"], False, "'key' of value state cannot be set"),
        ("counter", ["key_group = 1"], False, "'key_group' of value state cannot be set"),
        ("counter", ["valu = 1"], False, "set: no column 'valu'"),
        ("counter", ["value = valu"], False, "set: no column 'valu'"),
        ("counter", ["value = random()"], False, "set: the function random is not supported"),
        ("counter", ["value = '1'"], False, "set: value is int64, and the expression string"),
        ("counter", ["value = true"], False, "set: value is int64, and the expression bool"),
        ("counter", ["value = 1", "value = 2"], False, "set: value is set twice"),
        ("profile", ["value.address.street = 'x'", "value.address = NULL"], False, "set: value.address is set twice"),
        ("profile", ["value.address = 'x'"], False, "set: value.address is struct"),
        ("products", ["value = ['x']"], False, "rows of a list state are set one by one"),
        ("products", ["list_index = 0"], True, "'list_index' of list state cannot be set"),
        ("addresses", ["map_key = 1"], True, "'map_key' of map state cannot be set"),
        ("_timer_state/event_user-timers", ["key = 1"], False, "'key' of event timers cannot be set"),
    ],
)
def test_what_cannot_be_set_is_refused(state: str, assignments: list[str], flatten: bool, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        update_of(kitchen(), state, assignments, "true", flatten=flatten)


@pytest.mark.parametrize(
    ("state", "assignment", "message"),
    [
        ("counter", "value = NULL", "a state has no null"),
        ("counter", "value = 0.5", "does not fit int64"),
        ("counter", "value = 9223372036854775808", "does not fit int64"),
        ("profile", "value.rank = 2147483648", "does not fit int32"),
        ("profile", "value.products = [1, 2]", "value.products: list<.*int32> does not fit list<.*string>"),
        ("profile", "value.address = {'street': 1, 'house': 1}", "value.address: struct<street: int32.*does not fit"),
        ("profile", "value.address = {'street': 'x'}", "house"),
        ("profile", "value.address.street = 'x'", "value.address.street: a field of a value that is null"),
        ("_timer_state/event_user-timers", "timestamp = timestamp + 0.5", "does not fit int64"),
        ("_timer_state/event_user-timers", "timestamp = NULL", "a state has no null"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_its_row(state: str, assignment: str, message: str) -> None:
    operator = kitchen()
    update = update_of(operator, state, [assignment], "true")
    with pytest.raises(InvalidRows, match=message) as caught:
        list(update.batches(carried_batches(operator, state)))
    assert re.search(r"row: (timestamp=\d+, )?key=", str(caught.value))


def test_values_that_would_not_be_written_as_they_are_stored_are_refused() -> None:
    """A value with more bytes than its serializer writes: a boolean that is 7."""
    operator = kitchen()
    (first, *_) = carried_batches(operator, "profile")
    update = update_of(operator, "profile", ["value.total = 0"], "true")
    values = first.column("value").to_pylist()
    changed = [value[:-1] + bytes([value[-1] ^ 0x06]) for value in values]
    index = first.schema.get_field_index("value")
    with pytest.raises(SnapshotError):
        list(update.batches([first.set_column(index, "value", pa.array(changed, pa.large_binary()))]))


def test_unknown_types_are_refused() -> None:
    operator = kitchen()
    header = merged_header(operator)
    unknown = replace(header.keyed("counter"), value=Opaque("com.acme.Unknown", "nothing describes it"))
    with pytest.raises(UnsupportedSnapshot, match="cannot be decoded"):
        row_update(unknown, ["value = 1"], "key = 0", operator.context, header.names)
