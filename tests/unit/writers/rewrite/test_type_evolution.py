"""Values that get another type: fields by name, others by expressions, and nothing by guess."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import DEFAULT
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import LayoutContext, proxied_snapshot, read_snapshot
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.row_selection import row_deletion
from stateproc.writers.rewrite.type_changes import TypeChange
from stateproc.writers.rewrite.type_evolution import type_evolution
from tests.helpers.cases import CaseSnapshot, case_snapshots
from tests.helpers.fixtures import CLASSES, Fixture
from tests.helpers.paths import DEMO
from tests.helpers.writers.raw_copies import carried_batches
from tests.helpers.writers.row_edits import SWEPT, entries_of, rows_of

READS_EVERY_MODE = False
CASE = [one for one in case_snapshots() if one.case == "evolved-types"]
ORDER = "Pojo acme.Order {id: Integer, name: String, address: Pojo acme.Address {street: String, zip: Integer}}"
STREET = "Pojo acme.Address {road: String, zip: Long}"
SQL = {"f0": "a", "f1": "b"}
"""Snapshots of Flink before 2.4 do not have the names."""
PAIR = "Pojo acme.Pair {n: Long, s: String}"
ONE = {"id": 1, "name": "tea", "address": {"street": "Elm", "zip": 7}}
TWO = {"id": -1, "name": None, "address": None}
AVRO = {"type": "record", "name": "C", "namespace": "acme", "fields": [{"name": "n", "type": "int"}]}
WIDER = {**AVRO, "fields": [{"name": "tag", "type": "string", "default": ""}, {"name": "n", "type": "long"}]}

# Type, values, new type, renamed fields, assignments to COLUMN, new values.
EVOLVED: list[tuple[str, list[Any], str, dict[str, str], list[str], list[Any]]] = [
    ("Integer", [1, -(2**31)], "Long", {}, [], [1, -(2**31)]),
    ("Long", [2**31 - 1, 0], "Integer", {}, [], [2**31 - 1, 0]),
    ("Float", [1.5, math.inf], "Double", {}, [], [1.5, math.inf]),
    ("Integer", [3, 4], "String", {}, ["COLUMN = CAST(COLUMN AS VARCHAR)"], ["3", "4"]),
    ("String", ["NEW", "PAID"], "Enum acme.State {PAID, NEW}", {}, [], ["NEW", "PAID"]),
    ("Enum acme.State {NEW, PAID}", ["NEW", "PAID"], "String", {}, [], ["NEW", "PAID"]),
    (
        "Enum acme.State {NEW, OLD}",
        ["NEW", "OLD"],
        "Enum acme.State {NEW, PAID}",
        {},
        ["COLUMN = CASE COLUMN WHEN 'OLD' THEN 'PAID' ELSE COLUMN END"],
        ["NEW", "PAID"],
    ),
    ("Long", [7], "Pojo acme.Total {n: Long}", {}, ["COLUMN.n = COLUMN * 2"], [{"n": 14}]),
    (ORDER, [ONE, TWO], "Long", {}, ["COLUMN = COLUMN.id"], [1, -1]),
    (ORDER, [ONE, TWO], ORDER.replace("acme.", "acme.next."), {}, [], [ONE, TWO]),
    (
        ORDER,
        [ONE, TWO],
        f"Pojo acme.Order {{id: Long, title: String, address: {STREET}}}",
        {"name": "title", "address.street": "address.road"},
        [],
        [{"id": 1, "title": "tea", "address": {"road": "Elm", "zip": 7}}, {"id": -1, "title": None, "address": None}],
    ),
    (
        ORDER,
        [ONE, TWO],
        "Pojo acme.Order {id: Integer, note: String}",
        {},
        ["COLUMN.note = NULL", "COLUMN.id = COLUMN.id + 1"],
        [{"id": 2, "note": None}, {"id": 0, "note": None}],
    ),
    (
        ORDER,
        [ONE, TWO],
        "Pojo acme.Order {address: Pojo acme.Address {zip: Integer, city: String}}",
        {},
        ["COLUMN.address.city = COLUMN.address.street || '?'"],
        [{"address": {"zip": 7, "city": "Elm?"}}, {"address": None}],
    ),
    (
        "Pojo acme.Pair {a: Long, b: Long}",
        [{"a": 1, "b": 2}],
        "Pojo acme.Pair {a: Long, b: Long}",
        {"a": "b", "b": "a"},
        [],
        [{"a": 2, "b": 1}],
    ),
    ("Tuple2<Long, String>", [{"f0": 1, "f1": "x"}], PAIR, {"f0": "n", "f1": "s"}, [], [{"n": 1, "s": "x"}]),
    (PAIR, [{"n": 1, "s": "x"}], "Tuple2<String, Long>", {"n": "f1", "s": "f0"}, [], [{"f0": "x", "f1": 1}]),
    (
        f"Pojo acme.Many {{orders: List<{ORDER}>}}",
        [{"orders": [ONE, TWO]}, {"orders": []}],
        "Pojo acme.Many {orders: List<Pojo acme.Order {number: Long}>}",
        {"orders.id": "orders.number"},
        [],
        [{"orders": [{"number": 1}, {"number": -1}]}, {"orders": []}],
    ),
    (
        f"Map<String, {ORDER}>",
        [[("a", ONE)], []],
        "Map<String, Pojo acme.Order {name: String}>",
        {},
        [],
        [[("a", {"name": "tea"})], []],
    ),
    (
        f"Avro {json.dumps(AVRO)}",
        [{"n": 5}],
        f"Avro {json.dumps(WIDER)}",
        {},
        ["COLUMN.tag = 'x'"],
        [{"tag": "x", "n": 5}],
    ),
    ("Pojo acme.Click {n: Integer}", [{"n": 5}], f"Avro {json.dumps(AVRO)}", {}, [], [{"n": 5}]),
    ("ROW<a INT, b VARCHAR>", [{"a": 1, "b": "x"}], "ROW<b VARCHAR, a BIGINT>", SQL, [], [{"f0": "x", "f1": 1}]),
]  # fmt: skip


def written(folder: Path, type_: str, values: list[Any]) -> str:
    """A savepoint of a value, a list and a map state of these values, and of another state."""
    value = types.parse(type_)
    arrow = value.layout(LayoutContext()).arrow_type
    rows = pa.table({"key": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, arrow)})
    lists = pa.table({"key": pa.array([0, 1], pa.int64()), "value": pa.array([values, values[:1]], pa.list_(arrow))})
    pairs = [[("k", one), (None, None)][:1] for one in values]
    maps = rows.set_column(1, "value", pa.array(pairs, pa.map_(pa.string(), arrow)))
    state = OperatorBootstrap(key_type=types.LONG).value_state("value", rows, type=value)
    state.list_state("list", lists, element_type=value).map_state("map", maps, map_value_type=value)
    state.value_state("other", rows.select(["key"]).append_column("value", rows.column("key")))
    return str(SavepointWriter.new_savepoint(None).with_operator("op", state).write(folder))


COLUMNS = {"value": "value", "list": "list_element", "map": "map_value"}


@pytest.mark.parametrize(("type_", "values", "to", "rename", "assignments", "expected"), EVOLVED)
def test_values_of_every_kind_of_state(
    type_: str,
    values: list[Any],
    to: str,
    rename: dict[str, str],
    assignments: list[str],
    expected: list[Any],
    tmp_path: Path,
) -> None:
    source = written(tmp_path / "source", type_, values)
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"})
    for state, column in COLUMNS.items():
        given = [text.replace("COLUMN", column) for text in assignments]
        writer.evolve_type("op", state, to, rename=rename, assignments=given)
    found = stateproc.open(writer.write(tmp_path / "target"), uids=["op"])
    as_stored = read_snapshot(proxied_snapshot(types.parse(to), DEFAULT)[4:])
    assert found.state("op", "value").keyed.value == as_stored
    assert found.state("op", "value").to_arrow().sort_by("key").column("value").to_pylist() == expected
    lists = found.state("op", "list").to_arrow().sort_by("key").column("value").to_pylist()
    assert lists == [expected, expected[:1]]
    maps = found.state("op", "map").to_arrow().sort_by("key").column("value").to_pylist()
    assert maps == [[("k", one)] for one in expected]
    before = stateproc.open(source, uids=["op"])
    assert found.state("op", "other").to_arrow().equals(before.state("op", "other").to_arrow())


REFUSED: list[tuple[str, list[Any], str, dict[str, str], list[str], str]] = [
    ("Long", [1], "String", {}, [], r"value, which is string and was int64.*--set 'value = CAST\(value AS VARCHAR\)'"),
    ("Long", [2**31], "Integer", {}, [], r"does not fit Integer.*row: key=0"),
    ("Double", [0.1], "Float", {}, [], r"does not fit Float"),
    ("String", ["SENT"], "Enum acme.State {NEW}", {}, [], r"row: key=0"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer, title: String}", {}, [], r"value\.title .*value\.name.*OLD=title"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {"nme": "id"}, [], r"can be renamed so 'nme'.*'name'"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {"name": "address.x"}, [], r"in different places"),
    (ORDER, [ONE], "Pojo acme.Order {x: String}", {"name": "x", "address": "x"}, [], r"two fields are renamed to x"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {}, ["value.name = 'x'"], r"name"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {}, ["value.id = value.nothing"], r"nothing"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {}, ["value.id = value.name"], r"does not fit"),
    # Said before rows are read, also of what is null in all of them.
    (ORDER, [ONE], "Pojo acme.Order {id: Integer, name: String}", {}, ["value.name = CAST(NULL AS INTEGER)"],
     r"set: value\.name: int32 does not fit string .*CAST\(… AS VARCHAR\)"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {}, ["value.id = 1", "value.id = 2"], r"set twice"),
    (ORDER, [ONE], "Pojo acme.Order {id: Integer}", {}, ["value = NULL"], r"a state has no null"),
    (f"List<{ORDER}>", [[ONE]], "List<Pojo acme.Order {note: String}>", {}, [], r"does not have: value\.note"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values", "to", "rename", "assignments", "message"), REFUSED)
def test_what_is_not_said_or_does_not_fit_is_refused(
    type_: str, values: list[Any], to: str, rename: dict[str, str], assignments: list[str], message: str, tmp_path: Path
) -> None:
    source = written(tmp_path / "source", type_, values)
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": "op"})
    writer.evolve_type("op", "value", to, rename=rename, assignments=assignments)
    with pytest.raises(SnapshotError, match=f"(?s){message}"):
        writer.write(tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("one", [one for one in SWEPT if one.manifest["job"] != "tiny"], ids=lambda one: one.name)
def test_the_same_type_gives_the_same_rows(one: Fixture) -> None:
    """Every type of every fixture; keys and the order of entries stay."""
    seen: set[tuple[object, ...]] = set()
    for operator in one.open(classes=CLASSES).operators:
        header = merged_header(operator)
        for name in header.names:
            state, source = header.keyed(name), list(carried_batches(operator, name))
            kind = (state.kind, state.value.type_name, state.user_key is None, state.ttl)
            if kind in seen or not sum(map(len, source)) or state.kind.is_queue:
                continue
            seen.add(kind)
            try:
                made = type_evolution(state, TypeChange(state.value, {}, ()), operator.context, header.names)
                after = list(pickle.loads(pickle.dumps(made)).batches(source))
            except UnsupportedSnapshot as error:
                assert any(words in str(error) for words in ("read only", "RowKind", "half of a surrogate pair")), name
                continue
            assert len(made.matched.changes) == 1
            flatten = state.kind in (StateKind.LIST, StateKind.MAP)
            shown = row_deletion(state, "true", operator.context, header.names, flatten=flatten).selection
            assert repr(rows_of(shown, after).to_pylist()) == repr(rows_of(shown, source).to_pylist()), name
            keys = [[entry[:-1] for entry in entries_of(batches)] for batches in (after, source)]
            assert keys[0] == keys[1]


@pytest.mark.parametrize("one", CASE, ids=str)
def test_times_of_last_access_and_other_states_stay(one: CaseSnapshot, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": "op"})
    to = "Pojo acme.Order {id: Integer, total: Integer}"
    writer.evolve_type("op", "timed", to).rename_state("op", "timed", "later").enable_ttl("op", "sum", 5)
    writer.evolve_type("op", "sum", "Long").update_rows("op", "sum", "value = 1", "key = 3")
    plan = str(writer.plan())
    assert "renamed from timed, type Pojo Order → Pojo Order, value.address removed" in plan
    target = stateproc.open(writer.write(tmp_path / "target"), uids=["op"])
    source = stateproc.open(one.path, uids=["op"])
    before, after = (
        snapshot.state("op", state).to_arrow().sort_by("key")
        for snapshot, state in ((source, "timed"), (target, "later"))
    )
    assert before.column("last_access").equals(after.column("last_access"))
    assert after.column("value").to_pylist() == [
        {"id": value["id"], "total": value["total"]} for value in before.column("value").to_pylist()
    ]
    sums = target.state("op", "sum").to_arrow().sort_by("key")
    old = source.state("op", "sum").to_arrow().sort_by("key").column("value").to_pylist()
    assert sums.schema.field("value").type == pa.int64()
    assert sums.column("value").to_pylist() == [1 if key == 3 else value for key, value in enumerate(old)]
    for state in ("list", "map", "click", "same"):
        now, then = (it.state("op", state).to_arrow().sort_by("key").to_pylist() for it in (target, source))
        assert now == then


ELEMENTS = {"split": "value", "rules": "map_value", "union": "value"}


@pytest.mark.parametrize("one", CASE, ids=str)
def test_elements_of_operator_state(one: CaseSnapshot, tmp_path: Path) -> None:
    """Lists and union lists of each subtask, and broadcast state."""
    uids = {"uids": "op,elements"}
    writer = SavepointWriter.from_existing_savepoint(None, one.path, uids)
    to = "Pojo acme.Order {number: Long, name: String}"
    rename = {"id": "number", "customer": "name"}
    writer.evolve_type("elements", "split", to, rename=rename, assignments="value.number = value.id * 2")
    writer.evolve_type("elements", "union", "Long")
    writer.evolve_type("elements", "rules", to, rename=rename, assignments="map_value.name = map_key || map_value.id")
    plan = str(writer.plan())
    assert "union (type Integer → Long, value: int32 → int64)" in plan
    source, target = (stateproc.open(path, uids=["elements"]) for path in (one.path, writer.write(tmp_path / "target")))
    found = {}
    for name in ELEMENTS:
        before, after = (it.state("elements", name).to_arrow().to_pylist() for it in (source, target))
        assert [row.get("subtask") for row in before] == [row.get("subtask") for row in after]
        found[name] = list(zip(before, after, strict=True))
    for before, after in found["split"]:
        old = before["value"]
        assert after["value"] == {"number": 2 * old["id"], "name": old["customer"]}
    assert all(before["value"] == after["value"] for before, after in found["union"])
    assert target.state("elements", "union").schema().field("value").type == pa.int64()
    for before, after in found["rules"]:
        number = before["map_value"]["id"]
        assert after["map_key"] == before["map_key"]
        assert after["map_value"] == {"number": number, "name": f"{before['map_key']}{number}"}
    assert [len(rows) for rows in found.values()] == [40, 9, 40]


def test_elements_are_changed_once_in_a_write(tmp_path: Path) -> None:
    def writer() -> SavepointWriter:
        made = SavepointWriter.from_existing_savepoint(None, CASE[0].path, {"uids": "elements"})
        return made.evolve_type("elements", "union", "Long")

    with pytest.raises(InvalidOption, match="changed twice"):
        writer().evolve_type("elements", "union", "Long")
    with pytest.raises(InvalidOption, match="in a write of its own"):
        writer().delete_rows("elements", "union", "value = 3").plan()
    with pytest.raises(InvalidOption, match="in a write of its own"):
        writer().with_flink_version("2.3").plan()
    with pytest.raises(InvalidOption, match="a connector's state"):
        kafka = SavepointWriter.from_existing_savepoint(None, str(DEMO), {"uids": "orders-from-kafka"})
        kafka.evolve_type("orders-from-kafka", "SourceReaderState", "Long").plan()
    with pytest.raises(InvalidOption, match=r"value, which is string and was int32"):
        SavepointWriter.from_existing_savepoint(None, CASE[0].path, {"uids": "elements"}).evolve_type(
            "elements", "union", "String"
        ).plan()


def test_subclasses_that_the_new_type_does_not_have_are_refused(tmp_path: Path) -> None:
    one = next(one for one in case_snapshots() if one.case == "polymorphic-pojo")
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": "op"})
    writer.evolve_type("op", "event", "Pojo acme.Event {id: String, ts: Long}")
    with pytest.raises(SnapshotError, match=r"a value of the subclass .*, which the new type does not have"):
        writer.write(tmp_path / "target")


def test_timers_keys_and_releases_are_not_changed_with_it(tmp_path: Path) -> None:
    one = CASE[0]
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": "op"})
    with pytest.raises(InvalidOption, match="changed twice"):
        writer.evolve_type("op", "sum", "Long").evolve_type("op", "sum", "Long")
    moved = stateproc.open(writer.with_flink_version("2.3").write(tmp_path / "moved"), uids=["op"])
    assert moved.state("op", "sum").schema().field("value").type == pa.int64()
    kryo = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": "op"}).with_flink_version("2.3")
    with pytest.raises(InvalidOption, match="in a write of its own"):
        kryo.evolve_type("op", "phase", "Kryo java.lang.Object").write(tmp_path / "target")
    timers = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": "op"})
    timers.evolve_type("op", "_timer_state/event_user-timers", "Long")
    with pytest.raises(InvalidOption, match="have no other type"):
        timers.plan()


@pytest.mark.parametrize(
    ("text", "type_name"),
    [
        ("Long\n", "Long"),
        (json.dumps(AVRO), "Avro C"),
        ('{"acme.Order": {"id": "long", "tags": "String[]"}, "acme.Other": {"x": "int"}}', "Pojo Order"),
    ],
)
def test_a_type_is_read_from_a_file(text: str, type_name: str, tmp_path: Path) -> None:
    (tmp_path / "type").write_text(text)
    writer = SavepointWriter.from_existing_savepoint(None, CASE[0].path, {"uids": "op"})
    writer.evolve_type("op", "same", f"@{tmp_path / 'type'}")
    assert writer._operators[writer._found("op")].edits.types["same"].value.type_name == type_name


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no text|expected|types are"), ("{", "no JSON"), ("{}", "not described"), ('{"type": "x"}', "Avro")],
)
def test_a_file_without_a_type_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "type").write_text(text)
    writer = SavepointWriter.from_existing_savepoint(None, CASE[0].path, {"uids": "op"})
    with pytest.raises(SnapshotError, match=message) as e:
        writer.evolve_type("op", "same", f"@{tmp_path / 'type'}")
    assert str(tmp_path / "type") in str(e.value)
    with pytest.raises(SnapshotError, match="cannot be read"):
        writer.evolve_type("op", "same", f"@{tmp_path / 'none'}")
