"""Operators, states and fields whose names differ by case only, where readers do not distinguish them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption
from stateproc.row_formats.case_collisions import (
    ascii_lower,
    colliding_names,
    distinct_names,
    distinct_reader,
    java_fold,
    unique_names,
)
from stateproc.row_formats.json_values import json_lines
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.cases import CaseSnapshot, case_snapshots
from tests.helpers.command_runs import CommandRun, command_runner

SNAPSHOTS = [item for item in case_snapshots() if item.case == "names-by-case"]
LEGACY = {"ID_1": 503, "Name_1": "Upper3", "id_2": 3, "inner": {"X_1": -3, "x_2": 3}, "name_2": None}
QUERIES: list[tuple[str, list[dict[str, Any]]]] = [
    ('SELECT key, value FROM orders."count" WHERE key = 3', [{"key": 3, "value": 3}]),
    ('SELECT value FROM orders."Count" WHERE key = 3', [{"value": 1003}]),
    ('SELECT value FROM "Orders"."Count" WHERE key = 3', [{"value": 101003}]),
    ('SELECT value FROM orders."BYNAME" WHERE key = 3', [{"value": [("K3", 7003)]}]),
    ('SELECT value FROM orders."Items" WHERE key = 3', [{"value": ["UP3", "UP2-3"]}]),
    ('SELECT value.id, value."ID" FROM orders.legacy WHERE key = 3', [{"id": 3, "ID": 503}]),
    ('SELECT value.name, value."Name" FROM orders.legacy WHERE key = 3', [{"name": None, "Name": "Upper3"}]),
    ("SELECT value.inner.x, value.inner.X FROM orders.legacy WHERE key = 3", [{"x": 3, "X": -3}]),
    ("SELECT value.id FROM orders.legacy WHERE value.id = 3", [{"id": 3}]),
    ("SELECT l.value.id FROM orders.legacy l WHERE l.value.ID = 503", [{"id": 3}]),
    ("SELECT value FROM orders.legacy WHERE key = 3", [{"value": LEGACY}]),
    ("SELECT value.* FROM orders.legacy WHERE key = 3", [LEGACY]),
    (
        "SELECT value['id'] AS a, struct_extract(value, 'ID') AS b FROM orders.legacy WHERE key = 3",
        [{"a": 3, "b": 503}],
    ),
    ("SELECT sum(id)::BIGINT AS n FROM (SELECT value.id FROM orders.legacy)", [{"n": 15}]),
    ("SELECT value.id FROM orders.legacy ORDER BY value.id DESC LIMIT 1", [{"id": 5}]),
    (
        'SELECT value.id FROM orders.legacy WHERE key = 3 UNION ALL SELECT value.ID FROM "Orders".legacy WHERE key = 3',
        [{"id": 3}, {"id": 503}],
    ),
    (
        'SELECT a.value, b.value FROM orders."count" a JOIN orders."Count" b USING (key) WHERE key = 3',
        [{"value": 3, "value_1": 1003}],
    ),
    (
        "SELECT (SELECT max(b.value.id) FROM orders.legacy b WHERE b.key = a.key) AS n FROM orders.legacy a "
        "WHERE a.key = 3",
        [{"n": 3}],
    ),
    ('SELECT value FROM "Orders_1"."count_2" WHERE key = 3', [{"value": 100003}]),
    ("SELECT value.id_2 FROM orders_2.legacy WHERE key = 3", [{"id_2": 3}]),
]


@pytest.fixture(params=SNAPSHOTS, ids=str)
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    case: CaseSnapshot = request.param
    return case.open()


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


@pytest.mark.parametrize(("query", "rows"), QUERIES)
def test_the_name_that_is_written_exactly_wins(snapshot: Snapshot, query: str, rows: list[dict[str, Any]]) -> None:
    assert snapshot.sql(query).to_pylist() == rows


def test_the_command_line_prints_all_columns(run: Callable[..., CommandRun]) -> None:
    query = 'SELECT value.id, value."ID", a.key, a.key FROM orders.legacy a WHERE key = 3'
    found = run("sql", SNAPSHOTS[0].path, query, "--uids", "src,orders,Orders", "--format", "jsonl")
    assert found.rows == [{"id": 3, "ID": 503, "key": 3, "key_1": 3}]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ('SELECT * FROM ORDERS."count"', ('"orders"', '"Orders"')),
        ("SELECT * FROM orders.COUNT", ('"orders"."count"', '"orders"."Count"')),
        ('SELECT * FROM "count"', ('"orders"."count"', '"Orders"."count"')),
        ("SELECT value.Id FROM orders.legacy", ('"id"', '"ID"')),
        ("SELECT value.inner['Id'] FROM orders.legacy", ("X_1", "x_2")),
        ("SELECT v.id FROM (SELECT value AS v FROM orders.legacy)", ("ID_1", "id_2")),
        ("SELECT list_transform([value], x -> x.id) FROM orders.legacy", ("ID_1", "id_2")),
    ],
)
def test_another_name_is_an_error_that_names_both(snapshot: Snapshot, query: str, names: tuple[str, str]) -> None:
    with pytest.raises(InvalidOption) as caught:
        snapshot.sql(query)
    assert all(name in str(caught.value) for name in names), caught.value


def test_one_name_but_for_case_is_found(snapshot: Snapshot) -> None:
    assert snapshot.sql("SELECT count(*) AS n FROM orders.LEGACY").to_pylist() == [{"n": 6}]
    assert snapshot.sql("SELECT value.INNER.x FROM orders.legacy WHERE key = 3").to_pylist() == [{"x": 3}]


def test_statements_that_are_no_queries_read_the_named_state(snapshot: Snapshot) -> None:
    database = snapshot.sql_database()
    database.run('CREATE TABLE copy AS SELECT * FROM orders."Count"').reader().read_all()
    assert database.run("SELECT value FROM copy WHERE key = 3").reader().read_all().to_pylist() == [{"value": 1003}]
    described = database.run('DESCRIBE "Orders".legacy').reader().read_all().to_pylist()
    assert [row["column_name"] for row in described] == ["key_group", "key", "value"]
    shown = database.run("SHOW ALL TABLES").reader().read_all().to_pylist()
    assert {"Orders_1", "orders_2"} <= {row["schema"] for row in shown}
    database.close()


def test_views_have_names_that_duckdb_distinguishes(snapshot: Snapshot) -> None:
    import duckdb

    with snapshot.to_duckdb() as connection:
        query = 'SELECT value.id_2, value.inner."X_1" FROM orders_2.legacy WHERE value.id_2 = 3'
        assert connection.execute(query).fetchall() == [(3, -3)]
        assert connection.execute('SELECT value FROM "Orders_1"."Count_1" WHERE key = 3').fetchall() == [(101003,)]
    for query in ('SELECT count(*) FROM orders."count"', 'FROM "Orders"."Count"'):
        with snapshot.to_duckdb() as connection, pytest.raises(duckdb.Error, match=r'"orders_2"."count_2"'):
            connection.execute(query).fetchall()
    with snapshot.to_duckdb() as connection, pytest.raises(duckdb.Error, match="id_2"):
        connection.execute("SELECT value.id FROM orders_2.legacy").fetchall()


def test_a_relation_of_one_state_and_of_a_wide_table(snapshot: Snapshot) -> None:
    legacy = snapshot.state("orders", "legacy").to_duckdb().filter("value.id_2 = 3").project("value.ID_1")
    assert legacy.fetchall() == [(503,)]
    wide = snapshot.operator("orders").wide().to_duckdb().filter("key = 3").project("count_2, Count_1")
    assert wide.fetchall() == [(3, 1003)]


def test_conditions_of_read(snapshot: Snapshot) -> None:
    state = snapshot.state("orders", "legacy")
    assert [row["key"] for row in state.to_arrow(where="value.id = 3 AND value.inner.X < 0").to_pylist()] == [3]
    with pytest.raises(InvalidOption, match='\'Id\' may mean "ID" or "id"'):
        state.to_arrow(where="value.Id = 3")
    with pytest.raises(InvalidOption, match="may mean"):
        snapshot.operator("orders").wide().to_arrow(where="COUNT = 3")


def test_delta_refuses_such_a_state_before_anything_is_written(snapshot: Snapshot, tmp_path: Path) -> None:
    manifest = snapshot.export(str(tmp_path), format="delta", uids=["orders"])
    problems = {state.state: state.problem for state in manifest.states if state.problem is not None}
    assert list(problems) == ["legacy"]
    assert "value.ID, value.id" in (problems["legacy"] or "")
    assert "parquet" in (problems["legacy"] or "")
    assert not list(tmp_path.glob("**/legacy*"))
    parquet = snapshot.export(str(tmp_path / "parquet"), uids=["orders"], states=["legacy"])
    assert not parquet.states[0].problem


def test_unknown_uids_do_not_take_the_name_of_a_known_one() -> None:
    """Without the uid `orders`, the operator is still meant by it, not the one that was named `Orders`."""
    import stateproc

    snapshot = stateproc.open(SNAPSHOTS[0].path, uids=["Orders"])
    assert snapshot.sql('SELECT value FROM orders."count" WHERE key = 3').to_pylist() == [{"value": 3}]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["id", "x", "ID"], ["id_2", "x", "ID_1"]),
        (["a", "A", "A_1"], ["a_3", "A_2", "A_1"]),
        (["é", "É"], ["é", "É"]),  # DuckDB folds A to Z only
        (["straße", "STRASSE"], ["straße", "STRASSE"]),
        (["a.b", "A.B", 'q"', 'Q"'], ["a.b_2", "A.B_1", 'q"_2', 'Q"_1']),
        ([], []),
    ],
)
def test_names_are_numbered_in_the_order_of_code_points(names: list[str], chosen: list[str]) -> None:
    assert distinct_names(names, ascii_lower) == chosen


@pytest.mark.parametrize(
    ("one", "other"), [("İ", "i"), ("ı", "I"), ("Σ", "ς"), ("σ", "ς"), ("É", "é"), ("\u212a", "k")]
)
def test_java_takes_for_equal(one: str, other: str) -> None:
    assert java_fold(one) == java_fold(other)


@pytest.mark.parametrize(("one", "other"), [("ß", "ss"), ("ﬀ", "FF"), ("é", "e")])
def test_java_distinguishes(one: str, other: str) -> None:
    assert java_fold(one) != java_fold(other)


def test_fields_at_any_depth_keep_their_values() -> None:
    struct = pa.struct([("id", pa.int32()), ("ID", pa.string())])
    type_ = pa.map_(struct, pa.list_(struct))
    row = [({"id": 1, "ID": "a"}, [{"id": 2, "ID": None}, None])]
    table = pa.table({"v": pa.array([row, None, []], type_), "V": [1, None, 3]}).slice(0, 2)
    assert colliding_names(table.schema, ascii_lower) == [
        "V", "v", "v.key.ID", "v.key.id", "v.value[].ID", "v.value[].id"
    ]  # fmt: skip
    found = distinct_reader(table.to_reader(), ascii_lower).read_all().to_pylist()
    renamed = [({"id_2": 1, "ID_1": "a"}, [{"id_2": 2, "ID_1": None}, None])]
    assert found == [{"v_2": renamed, "V_1": 1}, {"v_2": None, "V_1": None}]


def test_equal_names_are_all_in_json() -> None:
    assert unique_names(["key", "key", "key_1", "Key"]) == ["key", "key_2", "key_1", "Key"]
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert [json.loads(line) for line in json_lines(batch)] == [{"a": 1, "a_1": 2}]
