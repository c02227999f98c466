"""Queries over states return what DuckDB returns over their tables; conditions on keys limit what is read."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import pytest

import stateproc
from stateproc.errors import InvalidOption, NotFound
from stateproc.sql import SqlDatabase
from stateproc.sql.catalog import SqlTable
from stateproc.sql.pushdown import ScanRequest
from tests.helpers.fixtures import FIXTURES, Fixture, newest_fixtures, unknown_type_fixtures

READS_EVERY_MODE = False

DEMO = str(FIXTURES / "1.20/demo/snapshot")
UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]
C = '"orders-per-customer"'


def demo() -> stateproc.Snapshot:
    return stateproc.open(DEMO, uids=UIDS)


@cache
def _tables() -> duckdb.DuckDBPyConnection:
    """Return a connection with tables that contain all rows."""
    connection = duckdb.connect(config={"python_enable_replacements": False})
    for operator in demo().operators:
        connection.execute(f'CREATE SCHEMA "{operator.display}"')
        for name in operator:
            connection.register("rows", operator[name].to_arrow())
            connection.execute(f'CREATE TABLE "{operator.display}"."{name}" AS FROM rows')
            if name not in ("event timers", "processing timers"):
                connection.execute(f'CREATE TABLE "{name}" AS FROM rows')
    return connection


def plain_duckdb(query: str) -> list[tuple[Any, ...]]:
    """The same query over tables that contain all rows."""
    return _tables().cursor().execute(query).fetchall()


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ScanRequest]]:
    """Record what is read of which table."""
    found: list[tuple[str, ScanRequest]] = []
    register = SqlDatabase._register

    def recorded(self: SqlDatabase, name: str, table: SqlTable, request: ScanRequest) -> None:
        found.append((table.name, request))
        register(self, name, table, request)

    monkeypatch.setattr(SqlDatabase, "_register", recorded)
    return found


QUERIES = [
    "SELECT count(*) FROM profile",
    "SELECT key, value.name FROM profile WHERE key = 42",
    f"SELECT p.key, p.value.total FROM {C}.profile p WHERE p.key IN (7, 42, 1000) ORDER BY 1",
    "SELECT a.key, b.key FROM profile a JOIN profile b ON a.key = b.key + 1 WHERE a.key < 5 ORDER BY 1",
    "SELECT a.key FROM profile a, profile b WHERE a.key = 3 AND b.key = 4",
    "SELECT a.key, b.key FROM profile a LEFT JOIN profile b ON a.key = b.key AND b.key = 2 WHERE a.key < 3 ORDER BY 1",
    "SELECT a.key, b.key FROM profile a LEFT JOIN profile b ON a.key = b.key WHERE b.key = 2",
    "SELECT a.key FROM profile a ANTI JOIN profile b ON a.key = b.key + 1 WHERE a.key = 0",
    "SELECT a.key, b.key FROM profile a FULL JOIN (FROM profile WHERE key = 2) b USING (key) WHERE a.key = 2",
    "WITH profile AS (SELECT 1 AS key) SELECT * FROM profile",
    "WITH t AS (SELECT * FROM profile WHERE key < 10) SELECT count(*), max(key) FROM t WHERE key = 3 OR key = 4",
    "SELECT key FROM profile WHERE key = 1 UNION ALL SELECT key FROM profile WHERE key = 2 ORDER BY 1",
    'SELECT key FROM profile p WHERE EXISTS (SELECT 1 FROM "spent-per-product" s WHERE s.key = p.key AND s.key = 9)',
    'SELECT key FROM profile WHERE key = (SELECT max(key) FROM "spent-per-product" WHERE key < 50)',
    "SELECT key, key_group FROM profile WHERE key_group = 29 ORDER BY key",
    "SELECT key FROM profile WHERE key_group BETWEEN 3 AND 5 AND key > 10 ORDER BY key",
    "SELECT key FROM profile WHERE (key = 1 OR key = 2) AND NOT value.vip ORDER BY 1",
    "SELECT key FROM profile WHERE key = 1 OR value.orders = 3 ORDER BY 1 LIMIT 3",
    "SELECT key FROM profile WHERE NOT key = 1 ORDER BY 1 LIMIT 3",
    "SELECT key FROM profile WHERE key = '42'",
    "SELECT key FROM profile WHERE key = 41.5 OR key = 42.0",
    "SELECT KEY FROM Profile WHERE Key = 42",
    "SELECT key + 1 AS key FROM profile WHERE key = 42",
    "SELECT x.a FROM profile AS x(g, a, v) WHERE x.a = 42",
    "SELECT p FROM profile p WHERE key = 42",
    "SELECT * EXCLUDE (value) FROM profile WHERE key = 42",
    "SELECT COLUMNS('k.*') FROM profile WHERE key = 42",
    "FROM profile WHERE key = 42",
    "SELECT max(key) OVER () FROM profile WHERE key IN (1, 5) LIMIT 1",
    f'SELECT service, count(*) FROM {C}."event timers" WHERE key = 7 GROUP BY ALL',
    "SELECT count(*) FROM \"window-contents\" WHERE key = 'tea'",
    "SELECT a.key FROM profile a NATURAL JOIN profile b WHERE a.key = 4",
    "SELECT count(*) FROM profile PIVOT (count(*) FOR key IN (1, 2))",
    'SELECT sum(x) FROM (SELECT unnest(map_values(value)) x FROM "spent-per-product" WHERE key = 3)',
    "SELECT key FROM (profile a JOIN profile b USING (key)) WHERE key = 3",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_return_what_duckdb_returns_over_tables(query: str) -> None:
    found = demo().sql(query)
    rows = (
        [tuple(row.values()) for row in found.to_pylist()]
        if len(set(found.column_names)) == found.num_columns
        else None
    )
    if rows is None:
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert repr(_dicts(rows)) == repr(_dicts(plain_duckdb(query)))


def _dicts(value: Any) -> Any:
    """Arrow has maps as lists of pairs, DuckDB as dicts."""
    if isinstance(value, dict):
        return [(_dicts(key), _dicts(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_dicts(item) for item in value]
    return value


@pytest.mark.parametrize(
    ("query", "keys", "groups"),
    [
        ("SELECT value FROM profile WHERE key = 42", (42,), None),
        ("SELECT p.key FROM profile p WHERE p.key IN (1, 2) AND p.value.total > 3", (1, 2), None),
        ("SELECT key FROM profile WHERE key_group IN (3, 4)", None, {3, 4}),
        ("SELECT a.key FROM profile a LEFT JOIN revenue b ON a.key = b.k WHERE a.key = 1", (1,), None),
        ("SELECT key FROM profile WHERE key = 1 OR key_group = 3", None, None),
        ("SELECT key FROM profile WHERE key = 1 OR value.vip", None, None),
        ("SELECT b.key FROM revenue a LEFT JOIN profile b ON a.k = b.key WHERE b.key = 1", None, None),
        ("SELECT key FROM profile TABLESAMPLE 10% WHERE key = 1", None, None),
        ("SELECT key FROM profile WHERE EXISTS (SELECT 1 FROM revenue WHERE profile.key = 1)", None, None),
    ],
)
def test_what_is_pushed_down(
    query: str, keys: tuple[int, ...] | None, groups: set[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = requests_of(monkeypatch)
    demo().sql(f"WITH revenue AS (SELECT 1 AS k) {query}")
    ((name, request),) = found
    assert (name, request.keys) == ("profile", keys)
    assert request.key_groups == groups
    if groups is None and "value" not in query and "TABLESAMPLE" not in query:
        assert request.columns is not None and "value" not in request.columns


def test_only_needed_columns_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = requests_of(monkeypatch)
    demo().sql("SELECT count(*) FROM profile")
    demo().sql("SELECT * FROM profile LIMIT 1")
    demo().sql("SELECT value.total FROM profile LIMIT 1")
    assert [request.columns for _, request in found] == [("key_group",), None, ("value",)]


def test_tables_about_the_snapshot() -> None:
    snapshot = demo()
    assert snapshot.sql("SELECT count(*) n FROM states").to_pylist() == [{"n": 8}]
    assert snapshot.sql("SELECT partition FROM offsets ORDER BY 1").num_rows == 6
    assert snapshot.sql("SELECT uid FROM files WHERE uid IS NOT NULL").num_rows > 0
    assert snapshot.sql("SELECT * FROM operators").num_rows == 3


def test_other_statements() -> None:
    snapshot = demo()
    assert snapshot.sql("DESCRIBE profile").column("column_name").to_pylist() == ["key_group", "key", "value"]
    assert snapshot.sql('SUMMARIZE "orders-per-customer".profile').num_rows == 3
    assert snapshot.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_errors_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = demo()
    with pytest.raises(NotFound, match="profil"):
        snapshot.sql('SELECT * FROM "orders-per-customer".profil')
    for query in ("SELECT * FROM nothing", "SELECT nokey FROM profile", "SELEC 1", "", "SELECT 1; SELECT 2"):
        with pytest.raises(InvalidOption):
            snapshot.sql(query)
    with pytest.raises(InvalidOption, match="operators have a state 'event timers'"):
        snapshot.sql('SELECT * FROM "event timers"')


def test_an_unreadable_state_is_an_error_of_its_own_queries_only() -> None:
    snapshot = unknown_type_fixtures("hashmap-canonical")[0].open()
    bad = next(state for state in snapshot.states if state.problem is not None)
    good = next(state for state in snapshot.states if state.problem is None)
    with pytest.raises(stateproc.UnsupportedSnapshot):
        snapshot.sql(f'SELECT * FROM "{bad.operator.display}"."{bad.name}"')
    assert snapshot.sql(f'SELECT count(*) FROM "{good.operator.display}"."{good.name}"').num_rows == 1


def test_views_in_a_connection() -> None:
    with duckdb.connect() as connection:
        assert demo().to_duckdb(connection) is connection
        query = 'SELECT count(*) FROM "orders-per-customer".profile JOIN profile USING (key)'
        assert connection.sql(query).fetchall() == connection.sql(query).fetchall() == [(300,)]


def test_results_are_streams() -> None:
    database = demo().sql_database(threads=1, memory_limit="200MB")
    result = database.run("SELECT key FROM profile ORDER BY key")
    assert result.schema.names == ["key"]
    assert sum(len(batch) for batch in result.batches) == 300
    assert database.run("SELECT count(*) FROM profile").reader().read_all().num_rows == 1
    database.close()


@pytest.mark.parametrize("fixture", newest_fixtures(), ids=lambda item: item.name)
def test_every_state_is_a_table(fixture: Fixture) -> None:
    snapshot = fixture.open()
    database = snapshot.sql_database(threads=1)
    for table in database.catalog.states:
        assert table.state is not None
        try:
            rows = table.opened.to_arrow(threads=1).num_rows
        except stateproc.SnapshotError:
            continue
        name = ".".join('"' + part.replace('"', '""') + '"' for part in (str(table.schema_name), table.name))
        assert database.run(f"SELECT count(*) AS n FROM {name}").reader().read_all().to_pylist() == [{"n": rows}]
    database.close()
