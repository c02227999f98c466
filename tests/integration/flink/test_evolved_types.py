"""Columns get wider types: real Flink goes on with aggregates, joins, deduplication and TopN over them.

Both versions have the same queries over tables whose columns are wider in the new one. Results of the second rows equal
those of the new query over all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from tests.helpers.flink.evolving_job import RELEASES, VERSIONS, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

# Column → its types in both versions.
TYPES: dict[str, dict[str, tuple[str, str]]] = {
    "orders": {
        "id": ("BIGINT", "BIGINT"),
        "customer": ("BIGINT", "BIGINT"),
        "tiny": ("TINYINT", "SMALLINT"),
        "small": ("SMALLINT", "BIGINT"),
        "n": ("INT", "BIGINT"),
        "x": ("FLOAT", "DOUBLE"),
        "price": ("DECIMAL(10, 2)", "DECIMAL(12, 2)"),
        "precise": ("DECIMAL(10, 2)", "DECIMAL(30, 4)"),
        "code": ("VARCHAR(4)", "VARCHAR(40)"),
        "note": ("VARCHAR(10)", "STRING"),
        "bits": ("VARBINARY(4)", "BYTES"),
        "ts": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        "ltz": ("TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(3)"),
        "must": ("INT NOT NULL", "INT"),
        "wider": ("INT NOT NULL", "BIGINT"),
    },
    "payments": {"order_id": ("BIGINT", "BIGINT"), "paid": ("INT", "BIGINT"), "payer": ("VARCHAR(4)", "VARCHAR(40)")},
    "customers": {
        "customer": ("BIGINT", "BIGINT"),
        "age": ("SMALLINT", "INT"),
        "name": ("VARCHAR(4)", "STRING"),
        "worth": ("DECIMAL(10, 2)", "DECIMAL(30, 4)"),
        "since": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        "held": ("INT NOT NULL", "BIGINT"),
    },
    "shops": {"shop": ("BIGINT", "BIGINT"), "places": ("INT", "BIGINT"), "title": ("VARCHAR(9)", "VARCHAR(10)")},
}
MODES = {"orders": "append", "payments": "append", "customers": "upsert", "shops": "upsert"}
KEYS = {"customers": "customer", "shops": "shop"}
MORE = {"orders": "proc AS PROCTIME()"}
ALL = [*TYPES["orders"]]
WIDE = ", ".join(f"o.{name}" for name in ALL)


def numbered(by: str, last: int) -> str:
    inner = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY {by} DESC) AS r FROM orders"
    return f"SELECT {', '.join(ALL)} FROM ({inner}) WHERE r <= {last}"


def per(key: str, by: str) -> str:
    inner = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {by} DESC) AS r FROM orders"
    return f"SELECT {key}, id FROM ({inner}) WHERE r <= 1"


def per_code(by: str, last: int) -> str:
    inner = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY code ORDER BY {by} DESC) AS r FROM orders"
    return f"SELECT code, id FROM ({inner}) WHERE r <= {last}"


PER_HALF = "SELECT MOD(customer, 2), {} FROM customers WHERE customer > -{} GROUP BY MOD(customer, 2)"
WINDOW = "SELECT id, {} FROM orders WHERE id > -{} WINDOW w AS (PARTITION BY customer ORDER BY proc{})"
LAST_TWO = " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
# Sink → its columns, as those of orders or with their own types; and the query.
QUERIES: dict[str, tuple[list[str] | str, str]] = {
    "sums": (
        "customer BIGINT, a BIGINT, b BIGINT, c BIGINT, d DOUBLE, e DECIMAL(38, 4), k BIGINT",
        "SELECT customer, SUM(tiny), SUM(small), SUM(n), SUM(x), SUM(precise), COUNT(code) FROM orders "
        "GROUP BY customer",
    ),
    "bounds": (
        "customer BIGINT, a BIGINT, b BIGINT, c DOUBLE, d DECIMAL(30, 4), e STRING, f TIMESTAMP(6), g BIGINT",
        "SELECT customer, MIN(n), MAX(small), MIN(x), MAX(precise), MAX(code), MIN(ts), MAX(wider) FROM orders "
        "GROUP BY customer",
    ),
    # What calls keep of many rows: maps by values, and lists.
    "seen": (
        "customer BIGINT, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f DECIMAL(38, 4), g BIGINT, h BIGINT",
        "SELECT customer, COUNT(DISTINCT n), SUM(DISTINCT small), COUNT(DISTINCT code), COUNT(DISTINCT ts), "
        "COUNT(DISTINCT must), SUM(DISTINCT precise), MAX(DISTINCT wider), COUNT(DISTINCT tiny) FILTER (WHERE id > 1) "
        "FROM orders GROUP BY customer",
    ),
    "changing": (
        "p BIGINT, d BIGINT, e BIGINT, f STRING",
        "SELECT MOD(customer, 2), COUNT(DISTINCT age), SUM(DISTINCT age), LISTAGG(name) FROM customers "
        "WHERE customer > -20 GROUP BY MOD(customer, 2)",
    ),
    # Rows that may be taken back: maps by values and by times, and lists in the accumulator.
    "extremes": (
        "p BIGINT, a INT, b STRING, c DECIMAL(30, 4), d TIMESTAMP(6), e BIGINT, k BIGINT",
        PER_HALF.format("MIN(age), MAX(name), MAX(worth), MIN(since), MAX(held), COUNT(*)", 21),
    ),
    "ends": (
        "p BIGINT, a INT, b STRING, c DECIMAL(30, 4), d BIGINT",
        PER_HALF.format("FIRST_VALUE(age), LAST_VALUE(name), FIRST_VALUE(worth), LAST_VALUE(held)", 22),
    ),
    "arrays": (
        "p BIGINT, a STRING, b STRING, c STRING, d STRING, e STRING",
        PER_HALF.format(
            ", ".join(f"CAST(ARRAY_AGG({name}) AS STRING)" for name in ("age", "name", "worth", "since", "held")), 23
        ),
    ),
    "different": (
        "p BIGINT, a STRING, b STRING, c INT",
        PER_HALF.format(
            "CAST(ARRAY_AGG(DISTINCT age) AS STRING), LISTAGG(DISTINCT name), FIRST_VALUE(DISTINCT age)", 24
        ),
    ),
    # Rows that are only added.
    "kept_values": (
        "customer BIGINT, a BIGINT, b STRING, c DECIMAL(30, 4), d STRING, e STRING, f STRING",
        "SELECT customer, FIRST_VALUE(n), LAST_VALUE(code), LAST_VALUE(precise), CAST(ARRAY_AGG(code) AS STRING), "
        "CAST(ARRAY_AGG(ts) AS STRING), CAST(ARRAY_AGG(wider) AS STRING) FROM orders GROUP BY customer",
    ),
    "in_frames": (
        "id BIGINT, a BIGINT, b DECIMAL(30, 4), c STRING, d BIGINT",
        WINDOW.format("MIN(n) OVER w, MAX(precise) OVER w, MIN(code) OVER w, LAST_VALUE(wider) OVER w", 31, LAST_TWO),
    ),
    "earlier": (
        "id BIGINT, a BIGINT, b DECIMAL(30, 4), c STRING",
        WINDOW.format("LAG(n) OVER w, LAG(precise) OVER w, LAG(code) OVER w", 32, ""),
    ),
    "texts": (
        "customer BIGINT, a STRING, b BIGINT",
        "SELECT customer, LISTAGG(code), MAX(n) FROM orders GROUP BY customer",
    ),
    "collected": (
        "customer BIGINT, a STRING, b STRING, c STRING",
        "SELECT customer, CAST(COLLECT(n) AS STRING), CAST(COLLECT(code) AS STRING), CAST(COLLECT(price) AS STRING) "
        "FROM orders GROUP BY customer",
    ),
    # Their accumulators stay as they are.
    "means": (
        "customer BIGINT, a BIGINT, b DOUBLE, c BIGINT",
        "SELECT customer, AVG(n), AVG(x), COUNT(*) FROM orders GROUP BY customer",
    ),
    "joined": (
        "*, paid BIGINT, payer STRING",
        f"SELECT {WIDE}, paid, payer FROM orders AS o JOIN payments ON id = order_id",
    ),
    "outer": (
        "*, name STRING, age INT",
        f"SELECT {WIDE}, name, age FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.customer",
    ),
    "local": (
        "name STRING, age INT, places BIGINT, title STRING",
        "SELECT name, age, places, title FROM customers LEFT JOIN shops ON customer = shop",
    ),
    "keyed": (
        "code STRING, must INT, price DECIMAL(12, 2), n BIGINT, total BIGINT",
        "SELECT code, must, price, COUNT(*), SUM(n) FROM orders GROUP BY code, must, price",
    ),
    "paired": (
        "id BIGINT, paid BIGINT, payer STRING",
        "SELECT id, paid, payer FROM orders JOIN payments ON code = payer",
    ),
    # Keys that are other bytes in the wider type, in other key groups.
    "numbers": (
        "n BIGINT, small BIGINT, k BIGINT, last BIGINT",
        "SELECT n, small, COUNT(*), MAX(id) FROM orders GROUP BY n, small",
    ),
    "digits": (
        "precise DECIMAL(30, 4), ts TIMESTAMP(6), ltz TIMESTAMP_LTZ(3), k BIGINT",
        "SELECT precise, ts, ltz, COUNT(*) FROM orders GROUP BY precise, ts, ltz",
    ),
    "settled": (
        "id BIGINT, paid BIGINT, payer STRING",
        "SELECT id, paid, payer FROM orders JOIN payments ON n = paid",
    ),
    "billed": (
        "id BIGINT, wider BIGINT, payer STRING",
        "SELECT id, wider, payer FROM orders LEFT JOIN payments ON wider = paid",
    ),
    # Inputs of joins with a unique key, by which their rows are found below the join's key, or which is a part of it.
    "unique": (
        "n BIGINT, k BIGINT, payer STRING",
        "SELECT n, k, payer FROM (SELECT n, MAX(id) AS newest, COUNT(*) AS k FROM orders WHERE id > -41 GROUP BY n) "
        "LEFT JOIN payments ON newest = order_id",
    ),
    "unique_columns": (
        "code STRING, price DECIMAL(12, 2), payer STRING",
        "SELECT code, price, payer FROM (SELECT code, price, MAX(id) AS newest FROM orders WHERE id > -42 "
        "GROUP BY code, price) JOIN payments ON newest = order_id",
    ),
    "unique_right": (
        "order_id BIGINT, paid BIGINT, must INT, ts TIMESTAMP(6)",
        "SELECT order_id, paid, must, ts FROM payments FULL JOIN (SELECT must, ts, MAX(id) AS newest FROM orders "
        "WHERE id > -43 GROUP BY must, ts) ON order_id = newest",
    ),
    "unique_in_key": (
        "n BIGINT, k BIGINT, payer STRING",
        "SELECT n, k, payer FROM (SELECT n, COUNT(*) AS k FROM orders WHERE id > -44 GROUP BY n) "
        "LEFT JOIN payments ON n = paid",
    ),
    # TopN of rows that are replaced by their key, and text of whole numbers, which is the same in all of their types.
    "replaced": (
        "customer BIGINT, n BIGINT, code STRING, k BIGINT",
        "SELECT customer, n, code, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY k DESC) AS r "
        "FROM (SELECT customer, n, code, COUNT(*) AS k FROM orders WHERE id > -45 GROUP BY customer, n, code)) "
        "WHERE r <= 2",
    ),
    "most": (
        "customer BIGINT, code STRING, k BIGINT",
        "SELECT customer, code, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY k DESC) AS r "
        "FROM (SELECT customer, code, MAX(n) AS k FROM orders WHERE id > -47 GROUP BY customer, code)) WHERE r <= 2",
    ),
    "ordered": ("*", numbered("n DESC, precise, ts", 2)),
    "ordered_first": ("*", numbered("precise", 1)),
    "written": (
        "customer BIGINT, a STRING, b STRING",
        "SELECT customer, JSON_ARRAYAGG(n), MAX(CAST(small AS STRING)) FROM orders WHERE id > -46 GROUP BY customer",
    ),
    "top_number": ("n BIGINT, id BIGINT", per("n", "id")),
    "last_tiny": ("tiny SMALLINT, id BIGINT", per("tiny", "proc")),
    "codes": ("code STRING, id BIGINT", per_code("id", 2)),
    "last_code": ("code STRING, id BIGINT", per_code("proc", 1)),
    "top": ("*", numbered("id", 2)),
    "last": ("*", numbered("proc", 1)),
}  # fmt: skip
Rows = dict[str, list[tuple[object, ...]]]


def order(number: int, customer: int | None, *values: object) -> tuple[object, ...]:
    return (number, customer, *values)


NULL = (None,) * 11
FIRST: Rows = {
    "orders": [
        (1, 1, 127, 32767, 2147483647, 1.5, "12345678.90", "12345678.90", "tea", "é🍵", "ab", "2024-01-01T00:00:00.123",
         "2024-01-01T00:00:00Z", 1, 2147483647),
        (2, 1, -128, -32768, -2147483648, -0.25, "-0.01", "-0.01", "", "", "", "1969-12-31T23:59:59.999",
         "1969-12-31T23:59:59Z", 0, -2147483648),
        (3, 2, *NULL, 7, 7),
        (4, None, 1, 1, 1, 0.125, "99999999.99", "-99999999.99", "mate", "紅茶", "\0z", "0001-01-01T00:00:00",
         "9999-01-01T00:00:00Z", -1, 5),
    ],
    "payments": [(1, 5, "card"), (3, None, None), (3, -2147483648, "cash"), (9, 1, "")],
    "customers": [
        (1, 32767, "Ann", "12345678.90", "2024-01-01T00:00:00.123", 7), (2, None, None, None, None, 1),
        (9, -1, "Zoë", "-0.01", "1969-12-31T23:59:59.999", 2147483647),
        (4, 4, "", "0.50", "0001-01-01T00:00:00", -2147483648),
    ],
    "shops": [(1, 2147483647, "Uno"), (3, None, None), (9, 0, "")],
}  # fmt: skip
SECOND: Rows = {
    "orders": [
        (5, 1, 1000, 9007199254740993, 4294967296, 1e300, "1234567890.12", "99999999999999999999999999.9999",
         "longer than four", "longer than ten", "more", "2024-01-01T00:00:00.123456",
         "2024-01-01T00:00:00.5Z", None, None),
        (6, 2, 1, 1, 1, 0.5, "0.50", "0.0001", "x", "y", "z", "2024-02-29T12:00:00",
         "2024-02-29T12:00:00Z", 1, 4294967296),
        (7, None, *NULL, None, 1),
        (8, 3, 1, 1, 5, 0.5, "12345678.90", "0.0001", "tea", "y", "z", "2024-02-29T12:00:00", "2024-02-29T12:00:00Z",
         1, 1),
        (9, 3, 1, 1, 5, 0.5, "0.01", "0.0001", "card", "y", "z", "2024-02-29T12:00:00", "2024-02-29T12:00:00Z", 1, 1),
        (10, 3, *NULL, 7, 7),
    ],
    "payments": [(2, 4294967296, "longer"), (5, 1, None), (3, 7, "cash"), (99, 3, "mate")],
    "customers": [
        (3, 70000, "Cid the long", "99999999999.1234", "2024-01-01T00:00:00.123456", 4294967296),
        (1, 70000, "Ann", "12345678.90", "2024-01-01T00:00:00.123", 7), (5, None, None, None, None, None),
        (9, -2, "Zoë", "-0.01", "1969-12-31T23:59:59.999", 2147483647), (4, 9, "q", "0.5", "0001-01-01T00:00:00", 4),
    ],
    "shops": [(1, 4294967296, "longer one"), (2, 1, "Due")],
}  # fmt: skip


def _columns(name: str, version: int) -> str:
    parts = [f"{column} {types[version]}" for column, types in TYPES[name].items()]
    if name in KEYS:
        parts.append(f"PRIMARY KEY ({KEYS[name]}) NOT ENFORCED")
    return ", ".join([*parts, MORE[name]] if name in MORE else parts)


def scripts(folder: Path) -> list[str]:
    found = []
    for version in range(len(VERSIONS)):
        feeds: dict[str, Feed] = {name: (_columns(name, version), MODES[name]) for name in TYPES}
        rest = ", ".join(
            f"{column} {types[version].removesuffix(' NOT NULL')}" for column, types in TYPES["orders"].items()
        )
        queries = {name: (str(columns).replace("*", rest), query) for name, (columns, query) in QUERIES.items()}
        found.append(script(folder, feeds, queries))
    return found


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    rows: dict[str, Sequence[Sequence[object]]] = {
        name: [row for part in parts for row in part[name]] for name in TYPES
    }
    job.feed(rows, later=["orders", "shops"])


@pytest.fixture(scope="module", params=["1.20", "2.3"])
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `before` and `all` are what the new one gives for these and for all."""
    folder = tmp_path_factory.mktemp("types")
    made = EvolvingJob(RELEASES[request.param], folder, scripts(folder))
    made.begin(feed, FIRST, SECOND)
    yield made


def test_queries_go_on_over_wider_columns(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"))
        plan = str(writer.plan())
        # Means and numbers have accumulators of these types anyway.
        assert "SUM(n) kept as BIGINT" in plan and "AVG(x) kept" not in plan, plan
        assert "COUNT(DISTINCT n) kept over BIGINT" in plan and "COLLECT(code) kept over VARCHAR(40)" in plan, plan
        assert "MIN(age) kept over INT" in plan and "ARRAY_AGG(code) kept over VARCHAR(40)" in plan, plan
        assert "key code: VARCHAR(4) → VARCHAR(40), must: INT NOT NULL → INT, price: DECIMAL" in plan, plan
        assert "left: age: SMALLINT → INT, name: VARCHAR(4) → STRING, right: places: INT → BIGINT" in plan, plan

    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES)


def test_flink_itself_does_not_read_the_state(flink: EvolvingJob) -> None:
    """The operators have other numbers, and their serializers other types."""
    error = flink.error_without_evolve(feed, SECOND)
    assert "Cannot map checkpoint/savepoint state" in error or "must not be incompatible" in error, error
