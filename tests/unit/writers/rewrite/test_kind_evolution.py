"""States that become states of another kind: a value a list or a map, and these a value."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.cli import main
from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import LayoutContext, Serializer
from stateproc.writers.rewrite.kind_evolution import SINGLE, KindEvolution, kind_evolution
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.row_selection import row_deletion
from stateproc.writers.rewrite.type_changes import TypeChange
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import CLASSES, Fixture
from tests.helpers.writers.raw_copies import carried_batches
from tests.helpers.writers.row_edits import SWEPT, entries_of
from tests.helpers.writers.row_edits import rows_of as entry_rows

READS_EVERY_MODE = False
ORDER = "Pojo acme.Order {id: Integer, name: String}"
NEXT = "Pojo acme.next.Order {number: Long, name: String, note: String}"
TEA, CAKE = {"id": 1, "name": "tea \0 😀"}, {"id": -(2**31), "name": None}
LONGS = [2**63 - 1, -(2**63), 0]

# Kind and type, the values of three keys, new kind and type, what is given, new values; None: no state.
BECOME: list[tuple[str, str, list[Any], str, str, dict[str, Any], list[Any]]] = [
    ("value", "Long", LONGS, "list", "Long", {}, [[one] for one in LONGS]),
    ("value", "Integer", [1, -5, 0], "list", "Long", {}, [[1], [-5], [0]]),
    ("value", ORDER, [TEA, CAKE], "list", ORDER, {}, [[TEA], [CAKE]]),
    (
        "value",
        ORDER,
        [TEA, CAKE],
        "list",
        NEXT,
        {"rename": {"id": "number"}, "assignments": "value.note = value.name || '!'"},
        [
            [{"name": "tea \0 😀", "note": "tea \0 😀!", "number": 1}],
            [{"name": None, "note": None, "number": -(2**31)}],
        ],
    ),
    ("value", "List<String>", [["b", "a"], [], [""]], "list", "String", {}, [["b", "a"], None, [""]]),
    ("value", "List<String>", [["b", "a"], []], "list", "List<String>", {}, [[["b", "a"]], [[]]]),
    ("value", "List<List<Long>>", [[[1], []], []], "list", "List<Long>", {}, [[[1], []], None]),
    ("value", ORDER, [TEA, CAKE], "list", "Long", {"assignments": "value = [value.id, key]"}, [[1, 0], [-(2**31), 1]]),
    ("value", "Long", [1, 2], "list", "Long", {"assignments": "value = CASE key WHEN 0 THEN [] ELSE [7] END"},
     [None, [7]]),
    ("value", "Map<String, Long>", [[("b", 1), ("a", None)], []], "map", "Long", {"map_key_type": "String"},
     [[("a", None), ("b", 1)], None]),
    ("value", f"Map<Integer, {ORDER}>", [[(2, TEA)]], "map", "Pojo acme.Order {number: Long}",
     {"map_key_type": "Integer", "rename": {"id": "number"}}, [[(2, {"number": 1})]]),
    ("value", ORDER, [TEA, CAKE], "map", ORDER,
     {"map_key_type": "Integer", "assignments": "value = MAP {value.id: value}"},
     [[(1, TEA)], [(-(2**31), CAKE)]]),
    ("list", "Long", [[3, 1], [2]], "value", "List<Long>", {}, [[3, 1], [2]]),
    ("list", ORDER, [[TEA, CAKE], [CAKE]], "value", "List<Pojo acme.Order {number: Long}>",
     {"rename": {"id": "number"}},
     [[{"number": 1}, {"number": -(2**31)}], [{"number": -(2**31)}]]),
    ("list", ORDER, [[TEA, CAKE], [TEA]], "value", ORDER, {"assignments": "value = value[-1]"}, [CAKE, TEA]),
    ("list", "Long", [[3, 1], [2]], "value", "Long", {"assignments": "value = list_sum(value)"}, [4, 2]),
    ("list", "Long", [[3, 1], [2]], "aggregating", "Long", {"assignments": "value = list_max(value)"}, [3, 2]),
    ("list", "Double", [[-0.0, 1.5]], "reducing", "Double", {"assignments": "value = value[1]"}, [-0.0]),
    ("list", "String", [["b", "a"], [""]], "map", "Boolean",
     {"map_key_type": "String", "assignments": "value = MAP {value[1]: true}"}, [[("b", True)], [("", True)]]),
    ("map", "Long", [[("b", 1), ("a", None)], [("", 2)]], "value", "Map<String, Long>", {},
     [[("a", None), ("b", 1)], [("", 2)]]),
    ("map", "Long", [[("b", 1), ("a", 5)], [("", 2)]], "list", "Long", {"assignments": "value = map_values(value)"},
     [[5, 1], [2]]),
    ("map", "Long", [[("b", 1), ("a", 5)], [("", 2)]], "value", "Long", {"assignments": "value = len(map_keys(value))"},
     [2, 1]),
    ("reducing", "Long", LONGS, "value", "Long", {}, LONGS),
    ("value", "Long", [7, 8], "reducing", "Double", {}, [7.0, 8.0]),
    ("aggregating", "Long", [7, 8], "list", "Long", {}, [[7], [8]]),
]  # fmt: skip


def written(folder: Path, kind: str, type_: str, values: list[Any], **given: Any) -> str:
    """A savepoint of a state of this kind, with the keys 0, 1, 2 …"""
    value, context = types.parse(type_), LayoutContext()
    arrow = value.layout(context).arrow_type
    arrow = {"list": pa.list_(arrow), "map": pa.map_(pa.string(), arrow)}.get(kind, arrow)
    rows = pa.table({"key": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, arrow)})
    if "last_access" in given:
        rows = rows.append_column("last_access", given.pop("last_access"))
        given |= {"ttl": True, "last_access": "last_access"}
    state = OperatorBootstrap(key_type=types.LONG)
    names = {"list": "element_type", "map": "map_value_type"}
    getattr(state, f"{kind}_state")("s", rows, **{names.get(kind, "type"): value}, **given)
    state.value_state("other", rows.select(["key"]).append_column("value", rows.column("key")))
    return str(SavepointWriter.new_savepoint(None).with_operator("op", state).write(folder))


def rows_of(path: Any) -> list[dict[str, Any]]:
    found = stateproc.open(path, uids=["op"]).state("op", "s").to_arrow().sort_by("key")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def writer_of(path: str) -> SavepointWriter:
    return SavepointWriter.from_existing_savepoint(None, path, {"uids": "op"})


@pytest.mark.parametrize(("kind", "type_", "values", "to_kind", "to", "given", "expected"), BECOME)
def test_values_lists_and_maps(
    kind: str, type_: str, values: list[Any], to_kind: str, to: str, given: dict[str, Any], expected: list[Any],
    tmp_path: Path,
) -> None:  # fmt: skip
    source = written(tmp_path / "source", kind, type_, values)
    writer = writer_of(source).evolve_type("op", "s", to, kind=to_kind, **given).with_max_parallelism(300)
    assert f"{kind} state → {to_kind} state" in str(writer.plan())
    target = writer.write(tmp_path / "target")
    found = stateproc.open(target, uids=["op"])
    assert found.state("op", "s").keyed.kind is StateKind(to_kind)
    rows = {row["key"]: row["value"] for row in rows_of(target)}
    assert repr(rows) == repr({key: value for key, value in enumerate(expected) if value is not None})
    before = stateproc.open(source, uids=["op"]).state("op", "other").to_arrow().sort_by("key").column("value")
    assert found.state("op", "other").to_arrow().sort_by("key").column("value").equals(before)


def moments(*milliseconds: int) -> list[Any]:
    return pa.array(
        [None if one is None else one * 1000 for one in milliseconds], pa.timestamp("us", "UTC")
    ).to_pylist()


LIST_TIMES, MAP_TIMES = pa.list_(pa.timestamp("ms", "UTC")), pa.map_(pa.string(), pa.timestamp("ms", "UTC"))
TIMED: list[tuple[str, list[Any], pa.Array, str, str, dict[str, Any], list[Any]]] = [
    ("value", [1, 2], pa.array([10, -7]), "list", "Long", {"assignments": "value = [value, 9]"},
     [moments(10, 10), moments(-7, -7)]),
    ("value", [1, 2], pa.array([10, -7]), "map", "Long",
     {"map_key_type": "String", "assignments": "value = MAP {'a': value, 'b': -value}"},
     [[("a", moments(10)[0]), ("b", moments(10)[0])], [("a", moments(-7)[0]), ("b", moments(-7)[0])]]),
    ("list", [[1, 2, 3], [4], [5, 6]], pa.array([[3, 30, 20], [-1], [0, -5]], LIST_TIMES), "value", "List<Long>", {},
     moments(30, -1, 0)),
    ("map", [[("a", 1), ("b", 2)], [("a", 0)]], pa.array([[("a", 8), ("b", 9)], [("a", -3)]], MAP_TIMES), "value",
     "Map<String, Long>", {}, moments(9, -3)),
    ("value", [1], pa.array([10]), "aggregating", "Long", {}, moments(10)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "times", "to_kind", "to", "given", "expected"), TIMED)
def test_times_of_last_access(
    kind: str, values: list[Any], times: pa.Array, to_kind: str, to: str, given: dict[str, Any], expected: list[Any],
    tmp_path: Path,
) -> None:  # fmt: skip
    """Elements have the time of the value that they were, a value the newest of its elements."""
    source = written(tmp_path / "source", kind, "Long", values, last_access=times)
    target = writer_of(source).evolve_type("op", "s", to, kind=to_kind, **given).write(tmp_path / "target")
    assert stateproc.open(target, uids=["op"]).state("op", "s").keyed.ttl
    assert [row["last_access"] for row in rows_of(target)] == expected


def test_time_to_live_and_keys_change_in_the_same_write(tmp_path: Path) -> None:
    times = pa.array([[3, 30], [-1]], LIST_TIMES)
    source = written(tmp_path / "source", "list", "Long", [[1, 2], [3]], last_access=times)
    writer = writer_of(source).evolve_type("op", "s", "List<Long>", kind="value").disable_ttl("op", "s")
    writer.evolve_key("op", "String", assignments="key = 'k' || key").delete_rows(
        "op", "s", "list_element = 1", flatten=True
    )
    target = writer.rename_state("op", "s", "later").write(tmp_path / "target")
    found = stateproc.open(target, uids=["op"]).state("op", "later")
    assert found.keyed.kind is StateKind.VALUE and not found.keyed.ttl
    assert found.to_arrow().select(["key", "value"]).sort_by("key").to_pylist() == [
        {"key": "k0", "value": [2]},
        {"key": "k1", "value": [3]},
    ]


REFUSED: list[tuple[str, str, list[Any], str, str, dict[str, Any], str]] = [
    ("list", "Long", [[1]], "list", "Long", {}, r"is list state already.*--kind"),
    ("list", "Long", [[1]], "value", "Long", {}, r"not said how value state of Long.*--set 'value = value\[-1\]'"),
    ("list", "Long", [[1]], "value", "Map<Long, Long>", {}, r"not said how"),
    ("list", "Long", [[1]], "map", "Long", {"map_key_type": "Long"}, r"not said how map state.*MAP \{"),
    ("map", "Long", [[("a", 1)]], "list", "Long", {}, r"not said how list state"),
    ("map", "Long", [[("a", 1)]], "value", "Long", {}, r"not said how value state"),
    ("value", "Long", [1], "map", "Long", {"map_key_type": "Long"}, r"not said how map state"),
    ("value", "List<Long>", [[1]], "list", "List<List<Long>>", {}, r"not said how list state"),
    ("value", "Map<String, Long>", [[("a", 1)]], "map", "Long", {"map_key_type": "Long"}, r"does not have: value"),
    ("value", ORDER, [TEA], "list", NEXT, {}, r"does not have: value\.note; value\.number"),
    ("value", "Long", [2**31], "list", "Integer", {}, r"does not fit Integer.*row: key=0"),
    ("value", "Long", [1], "list", "Long", {"assignments": "value = NULL"}, r"a state has no null"),
    ("value", "Long", [1], "list", "Long", {"assignments": "value = value"}, r"does not fit"),
    ("value", "Long", [1], "map", "Long", {"map_key_type": "Long", "assignments": "value = MAP {NULL: 1}"},
     r"(?i)null"),
    ("value", "Long", [1, 1], "map", "Long", {"map_key_type": "Long", "assignments": "value = MAP([key, 1], [1, 2])"},
     r"(?i)unique"),
    ("list", "Long", [[1]], "value", "Long", {"assignments": "value = value[5]"}, r"a state has no null"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "type_", "values", "to_kind", "to", "given", "message"), REFUSED)
def test_what_is_not_said_or_does_not_fit_is_refused(
    kind: str, type_: str, values: list[Any], to_kind: str, to: str, given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    source = written(tmp_path / "source", kind, type_, values)
    with pytest.raises(SnapshotError, match=f"(?s){message}"):
        writer_of(source).evolve_type("op", "s", to, kind=to_kind, **given).write(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_elements_with_times_of_their_own_become_no_others(tmp_path: Path) -> None:
    times = pa.array([[3, 30]], LIST_TIMES)
    source = written(tmp_path / "source", "list", "String", [["a", "b"]], last_access=times)
    given = {"kind": "map", "map_key_type": "String", "assignments": "value = MAP(value, value)"}
    with pytest.raises(InvalidOption, match=r"(?s)which time of last access each would have.*ttl"):
        writer_of(source).evolve_type("op", "s", "String", **given).plan()
    without = writer_of(source).disable_ttl("op", "s").write(tmp_path / "without")
    target = writer_of(str(without)).evolve_type("op", "s", "String", **given).enable_ttl("op", "s", 77)
    (row,) = rows_of(target.write(tmp_path / "target"))
    assert row["value"] == [("a", "a"), ("b", "b")]
    assert row["last_access"] == [("a", moments(77)[0]), ("b", moments(77)[0])]


def test_arguments_that_do_not_fit_each_other(tmp_path: Path) -> None:
    source = written(tmp_path / "source", "value", "Long", [1])
    with pytest.raises(SnapshotError, match="kind of state 'lists'"):
        writer_of(source).evolve_type("op", "s", "Long", kind="lists")
    with pytest.raises(InvalidOption, match="a map state without a type of keys"):
        writer_of(source).evolve_type("op", "s", "Long", kind="map")
    with pytest.raises(InvalidOption, match="a type of keys without a map state"):
        writer_of(source).evolve_type("op", "s", "Long", map_key_type="String")
    one = next(one for one in case_snapshots() if one.case == "evolved-types")
    elements = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": "elements,op"})
    with pytest.raises(InvalidOption, match="operator state becomes no other kind"):
        elements.evolve_type("elements", "union", "Long", kind="value")
    with pytest.raises(InvalidOption, match="become no other state"):
        elements.evolve_type("op", "_timer_state/event_user-timers", "Long", kind="list").plan()


def test_the_command_line_and_job_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(tmp_path / "source", "value", ORDER, [TEA, CAKE])
    line = ["evolve-type", source, str(tmp_path / "key"), "--uid", "op", "--to", "Long", "--key", "--kind", "list"]
    assert main(line) == 2
    assert "evolve-type of keys with a kind of state" in capsys.readouterr().err
    change = {"uid": "op", "state": ["s"], "to": ORDER, "kind": "map", "map_key_type": "Integer"}
    job = {
        "job": "kinds",
        "base": {"path": source},
        "changes": [{"evolve-type": {**change, "set": ["value = MAP {value.id: value}"]}}],
        "target": {"path": str(tmp_path / "target")},
    }
    stateproc.run_job(job)
    assert [row["value"] for row in rows_of(tmp_path / "target")] == [[(1, TEA)], [(-(2**31), CAKE)]]


def test_the_check_says_how(tmp_path: Path) -> None:
    source = written(tmp_path / "source", "list", "Long", [[1]])
    states = [{"name": "s", "kind": "value", "value": "Long"}]
    expected = {"operators": [{"uid": "op", "key": "Long", "states": states}]}
    text = str(stateproc.open(source, uids=["op"]).check(expect=expected))
    assert "stateproc evolve-type --kind value --to TYPE makes it one" in text


def through(evolution: KindEvolution, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(pickle.loads(pickle.dumps(evolution)).batches(batches))


def small(batches: list[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    return [batch.slice(at, rows) for batch in batches for at in range(0, len(batch), rows)]


@pytest.mark.parametrize("one", [one for one in SWEPT if one.manifest["job"] != "tiny"], ids=lambda one: one.name)
def test_there_and_back_gives_the_same_entries(one: Fixture) -> None:
    """Every type, kind, namespace of every fixture, with entries of one map in several batches."""
    seen: set[tuple[object, ...]] = set()
    for operator in one.open(classes=CLASSES).operators:
        header = merged_header(operator)
        for name in header.names:
            state, source = header.keyed(name), list(carried_batches(operator, name))
            shown = (state.kind, state.value.type_name, state.user_key, state.ttl, state.namespace.type_name)
            if shown in seen or not sum(map(len, source)) or state.kind.is_queue:
                continue
            seen.add(shown)
            there, back = changes(state.kind, state.value, state.user_key)
            try:
                first = kind_evolution(state, there, operator.context, header.names)
                middle = through(first, small(source, 3))
                second = kind_evolution(first.applied(state), back, operator.context, header.names)
                after = through(second, small(middle, 2))
            except UnsupportedSnapshot as error:
                words = ("read only", "RowKind", "half of a surrogate pair", "cannot be decoded", "no columns")
                assert any(one in str(error) for one in (*words, "Python functions", "null key")), (name, error)
                continue
            wanted = [entry for entry in entries_of(source) if entry[2] or state.kind is not StateKind.LIST]
            if state.ttl and state.kind in (StateKind.LIST, StateKind.MAP):
                # All elements have the newest time.
                assert [entry[:2] for entry in sorted(entries_of(after))] == [entry[:2] for entry in sorted(wanted)]
            else:
                assert sorted(entry[:2] for entry in entries_of(after)) == sorted(entry[:2] for entry in wanted)
                flatten = state.kind in (StateKind.LIST, StateKind.MAP)
                shown_rows = row_deletion(state, "true", operator.context, header.names, flatten=flatten).selection
                found, expected = (sorted(map(repr, entry_rows(shown_rows, it).to_pylist())) for it in (after, source))
                assert found == expected, name
    assert seen or one.manifest["job"] in ("sql-sessions",)


def changes(kind: StateKind, value: Serializer, user_key: Serializer | None) -> tuple[TypeChange, TypeChange]:
    if kind in SINGLE:
        last = ("value = value[-1]",)
        return TypeChange(value, {}, (), StateKind.LIST), TypeChange(value, {}, last, kind)
    if user_key is not None:
        return (
            TypeChange(types.Map(user_key, value), {}, (), StateKind.VALUE),
            TypeChange(value, {}, (), StateKind.MAP, user_key),
        )
    return TypeChange(types.List(value), {}, (), StateKind.VALUE), TypeChange(value, {}, (), StateKind.LIST)
