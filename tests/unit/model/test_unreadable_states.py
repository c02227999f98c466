"""An operator of fifty states, two of an unknown serializer, written by Flink: ``on_error`` and ``opaque``.

Native heap files store no lengths: there the unknown values hide the states that are stored after them, unless the file
is compressed.
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from stateproc import InvalidOption, UnreadableStateWarning, UnsupportedSnapshot
from stateproc.cli.app import main
from stateproc.model.operator import Operator
from tests.helpers.fixtures import Fixture, unknown_type_fixtures
from tests.helpers.value_comparison import plain

UID = "many-states"
UNKNOWN = ("account", "ledger")
CLASS = "fixtures.ManyStates$MoneySerializer$Snapshot"
SIZED = unknown_type_fixtures("hashmap-canonical", "rocksdb-incremental")
HEAP = unknown_type_fixtures("hashmap-checkpoint", "hashmap-checkpoint-snappy")


def named(fixture: Fixture) -> str:
    return fixture.name


def operator_of(fixture: Fixture, **options: Any) -> Operator:
    return fixture.open(**options).operator(UID)


def expected_of(fixture: Fixture) -> dict[int, dict[str, Any]]:
    """Return what the job recorded: key → state → value."""
    found: dict[int, dict[str, Any]] = {}
    for line in fixture.expected():
        found.setdefault(line["key"], {})[line["state"]] = line["value"]
    return found


def wide_rows(table: pa.Table) -> dict[int, dict[str, Any]]:
    """Return key → state → value, without nulls."""
    head = ("key", "key_group")
    rows = table.to_pylist()
    found = {
        row["key"]: {name: plain(value) for name, value in row.items() if name not in head and value is not None}
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def unreadable(operator: Operator) -> set[str]:
    return {state.name for state in operator.keyed_states if state.problem is not None}


def without(rows: dict[int, dict[str, Any]], hidden: set[str]) -> dict[int, dict[str, Any]]:
    return {key: {name: value for name, value in row.items() if name not in hidden} for key, row in rows.items()}


@contextmanager
def no_warning() -> Iterator[None]:
    """Make warnings errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def messages(recorded: pytest.WarningsRecorder) -> list[str]:
    return [str(item.message) for item in recorded if item.category is UnreadableStateWarning]


@pytest.mark.parametrize("fixture", unknown_type_fixtures(), ids=named)
def test_the_fixture_has_fifty_states_of_which_two_are_unknown(fixture: Fixture) -> None:
    operator = operator_of(fixture)
    assert len(operator.keyed_states) == 50
    for name in UNKNOWN:
        problem = operator.state(name).problem
        assert isinstance(problem, UnsupportedSnapshot) and CLASS in problem.message
        assert (problem.where.operator, problem.where.state) == (UID, name)
    hidden = unreadable(operator) - set(UNKNOWN)
    assert bool(hidden) == (fixture.manifest["mode"] == "hashmap-checkpoint")
    assert unreadable(operator_of(fixture, on_error="null")) == hidden | set(UNKNOWN)


@pytest.mark.parametrize("fixture", unknown_type_fixtures(), ids=named)
def test_fail_is_an_error_of_planning_only_where_the_state_is_selected(fixture: Fixture) -> None:
    operator = operator_of(fixture)
    hidden = unreadable(operator)
    wide = operator.wide()
    with pytest.raises(UnsupportedSnapshot, match="ManyStates") as refused:
        wide.splits()
    assert "select other columns (option 'columns')" in (refused.value.advice or "")
    assert "on_error='null'" in (refused.value.advice or "")
    with pytest.raises(UnsupportedSnapshot):
        wide.splits(columns=["key", "account"])
    with pytest.raises(UnsupportedSnapshot):
        operator.state("account").splits()
    readable = [name for name in wide.schema().names if name not in hidden]
    has_lengths = fixture in SIZED
    with pytest.warns(UnreadableStateWarning, match="rows are missing of keys") if not has_lengths else no_warning():
        table = wide.to_arrow(columns=readable)
    expected = without(expected_of(fixture), hidden)
    if not has_lengths:
        del expected[4]  # has values of the unknown serializer only
    assert wide_rows(table) == expected
    assert wide.readable_schema().names == readable


@pytest.mark.parametrize("fixture", SIZED, ids=named)
def test_null_keeps_all_rows_where_entries_have_lengths(fixture: Fixture) -> None:
    wide = operator_of(fixture, on_error="null").wide()
    with pytest.warns(UnreadableStateWarning) as recorded:
        table = wide.to_arrow()
    [message] = messages(recorded)
    assert message.splitlines()[0].startswith(f"operator '{UID}': null because they cannot be decoded: ")
    assert all(
        f"  '{name}': nothing is known of the serializer snapshot class '{CLASS}'" in message for name in UNKNOWN
    )
    assert table.schema.field("account").type == pa.null()
    assert table.schema.field("ledger").type == pa.map_(pa.string(), pa.null())
    assert wide_rows(table) == without(expected_of(fixture), set(UNKNOWN))
    assert wide_rows(table)[4] == {}


@pytest.mark.parametrize("fixture", HEAP, ids=named)
def test_null_of_native_heap_files_lacks_keys_that_only_unreadable_states_have(fixture: Fixture) -> None:
    operator = operator_of(fixture, on_error="null")
    hidden = unreadable(operator)
    with pytest.warns(UnreadableStateWarning) as recorded:
        table = operator.wide().to_arrow()
    [message] = messages(recorded)
    assert CLASS in message
    assert message.endswith("rows are missing of keys that only they would have, because not even the keys can be read")
    assert len(table.schema) == 52
    expected = without(expected_of(fixture), hidden)
    del expected[4]
    assert wide_rows(table) == expected
    for name in UNKNOWN:
        with pytest.raises(UnsupportedSnapshot, match="no known end") as refused:
            operator.state(name).to_arrow()
        assert "take a canonical savepoint" in (refused.value.advice or "")


@pytest.mark.parametrize("fixture", unknown_type_fixtures(), ids=named)
def test_nothing_is_warned_of_states_that_are_not_selected(fixture: Fixture) -> None:
    operator = operator_of(fixture, on_error="null")
    readable = next(state for state in operator.keyed_states if state.problem is None)
    with no_warning():
        readable.to_arrow()
    if fixture in SIZED:
        with no_warning():
            operator.wide().to_arrow(columns=["key", readable.name])


@pytest.mark.parametrize("fixture", SIZED, ids=named)
@pytest.mark.parametrize("name", UNKNOWN)
def test_null_of_one_state_are_its_keys(fixture: Fixture, name: str) -> None:
    state = operator_of(fixture, on_error="null").state(name)
    with pytest.warns(UnreadableStateWarning, match=f"null because it cannot be decoded: '{name}'") as recorded:
        rows = state.to_arrow().to_pylist()
    assert len(messages(recorded)) == 1
    assert sorted(row["key"] for row in rows) == [0, 1, 2, 3, 4]
    assert {row["value"] for row in rows} == {None}
    with pytest.warns(UnreadableStateWarning):
        flat = state.to_arrow(flatten=True)
    assert flat.schema.names == (["key_group", "key", "value"] if name == "account" else FLAT)
    assert sorted(flat.column("key").to_pylist()) == [0, 1, 2, 3, 4]


FLAT = ["key_group", "key", "map_key", "map_value"]


@pytest.mark.parametrize("fixture", SIZED, ids=named)
def test_opaque_values_are_their_bytes(fixture: Fixture) -> None:
    operator = operator_of(fixture, opaque="bytes")
    expected = expected_of(fixture)
    with no_warning():
        rows = wide_rows(operator.wide().to_arrow())
        flat = operator.state("ledger").to_arrow(flatten=True).to_pylist()
    assert rows == expected
    assert operator.state("account").schema().field("value").type == pa.binary()
    assert operator.state("ledger").schema().field("value").type == pa.map_(pa.string(), pa.binary())
    entries = {(row["key"], row["map_key"]): row["map_value"] for row in flat}
    wanted = {(key, pair["key"]): pair["value"] for key, row in expected.items() for pair in row["ledger"]}
    assert {at: base64.b64encode(value).decode() for at, value in entries.items()} == wanted


@pytest.mark.parametrize("fixture", HEAP, ids=named)
def test_opaque_values_of_native_heap_files_are_an_error_with_advice(fixture: Fixture) -> None:
    state = operator_of(fixture, opaque="bytes").state("account")
    for read in (state.schema, state.splits, state.to_arrow):
        with pytest.raises(UnsupportedSnapshot, match="no known end") as refused:
            read()
        assert "take a canonical savepoint, where opaque='bytes' reads its bytes" in (refused.value.advice or "")


def test_options_accept_their_values_only() -> None:
    for option in ({"on_error": "skip"}, {"opaque": "hex"}):
        with pytest.raises(InvalidOption, match=next(iter(option))):
            SIZED[0].open(**option)


@pytest.mark.parametrize("fixture", [SIZED[0], HEAP[0]], ids=named)
def test_the_command_line_has_both_options(fixture: Fixture, capsys: pytest.CaptureFixture[str]) -> None:
    read = ["read", fixture.snapshot, "--uid", UID, "--format", "jsonl"]
    assert main(read) == 3
    assert CLASS in capsys.readouterr().err
    assert main([*read, "--columns", "key,s03"]) == 0
    sized = fixture in SIZED
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = {key: row.get("s03") for key, row in expected_of(fixture).items() if sized or key != 4}
    assert {row["key"]: row["s03"] for row in rows} == expected
    assert main([*read, "--on-error", "null"]) == 0
    printed = capsys.readouterr()
    assert [line[:9] for line in printed.err.splitlines() if not line.startswith((" ", "rows"))] == ["warning: "]
    assert f"warning: operator '{UID}': null because" in printed.err
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert {row["key"]: row["account"] for row in rows} == dict.fromkeys(expected)
    assert main([*read, "--state", "account", "--opaque", "bytes"]) == (0 if sized else 3)
    printed = capsys.readouterr()
    if sized:
        values = {row["key"]: row["value"] for row in map(json.loads, printed.out.splitlines())}
        assert values == {key: row["account"] for key, row in expected_of(fixture).items()}
    else:
        assert "take a canonical savepoint" in printed.err


@pytest.mark.parametrize("options", [[], ["--on-error", "null"]])
def test_inspect_shows_the_reason(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", SIZED[0].snapshot, "--uid", UID, "--json", *options]) == 0
    [report] = json.loads(capsys.readouterr().out)["operators"]
    assert report["unreadable_states"] == 2
    problems = {state["name"]: state["problem"] for state in report["states"] if state["problem"]}
    assert problems.keys() == set(UNKNOWN) and all(CLASS in problem for problem in problems.values())
