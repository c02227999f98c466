"""Nodes that hold rows until time has come get other columns: real Flink goes on with the changed query.

Joins, TopN and deduplication of windows, joins of rows that are near in time or valid at a time, aggregates of OVER,
sorting by time, and the rows that are kept before a sink. Rows of before have NULL in the new columns, in the run of
the new query over all rows, too, with which results are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, SOURCES, VERSIONS, EvolvingJob, Feed, script, table

pytestmark = pytest.mark.flink

# Table → the mode of its changes, and its columns in both versions.
TABLES: dict[str, tuple[str, str, str]] = {
    "orders": (
        "append",
        "id BIGINT, product VARCHAR(4), amount INT, ts TIMESTAMP(3), proc AS PROCTIME(), WATERMARK FOR ts AS ts",
        "note STRING, ts TIMESTAMP(3), id BIGINT, proc AS PROCTIME(), amount BIGINT, product STRING, "
        "WATERMARK FOR ts AS ts",
    ),
    "payments": (
        "append",
        "order_id BIGINT, payer STRING, pts TIMESTAMP(3), WATERMARK FOR pts AS pts",
        "order_id BIGINT, paid DOUBLE, pts TIMESTAMP(3), payer STRING, WATERMARK FOR pts AS pts",
    ),
    "rates": (
        "upsert",
        "product STRING, rate DOUBLE, rts TIMESTAMP(3), PRIMARY KEY (product) NOT ENFORCED, WATERMARK FOR rts AS rts",
        "rts TIMESTAMP(3), product STRING, bank STRING, rate DOUBLE, PRIMARY KEY (product) NOT ENFORCED, "
        "WATERMARK FOR rts AS rts",
    ),
    "customers": (
        "upsert",
        "customer BIGINT, city STRING, name STRING, PRIMARY KEY (customer) NOT ENFORCED",
        "phone STRING, customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED",
    ),
}  # fmt: skip
NEAR = "ON id = order_id AND pts BETWEEN ts - INTERVAL '1' HOUR AND ts + INTERVAL '2' HOUR"
WINDOWS = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '1' HOUR)))"
ORDERS, PAYMENTS = WINDOWS.format("orders", "ts"), WINDOWS.format("payments", "pts")
SAME = f"FROM {ORDERS} AS o {{}} JOIN {PAYMENTS} AS p ON id = order_id AND o.window_start = p.window_start AND " \
    "o.window_end = p.window_end"  # fmt: skip
VALID = "FROM orders AS o {}JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.product = r.product"
NUMBERED = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, product ORDER BY {}) " \
    f"AS r FROM {ORDERS}) WHERE r <= {{}}"  # fmt: skip
OVER = "SELECT {}, {} OVER (PARTITION BY product ORDER BY ts {}) FROM orders"
# Sink → its columns in both versions, and both queries.
QUERIES: dict[str, tuple[str, str, str, str]] = {
    "near": (
        "id BIGINT, payer STRING", "id BIGINT, payer STRING, note STRING, paid DOUBLE",
        f"SELECT id, payer FROM orders JOIN payments {NEAR}",
        f"SELECT id, payer, note, paid FROM orders JOIN payments {NEAR}",
    ),
    "near_or_not": (
        "id BIGINT, payer STRING, amount INT", "amount BIGINT, payer STRING, note STRING",
        f"SELECT id, payer, amount FROM orders LEFT JOIN payments {NEAR}",
        f"SELECT amount, payer, note FROM orders LEFT JOIN payments {NEAR}",
    ),
    "same": (
        "id BIGINT, payer STRING, s TIMESTAMP(3)", "id BIGINT, note STRING, paid DOUBLE, s TIMESTAMP(3)",
        f"SELECT id, payer, o.window_start {SAME.format('')}",
        f"SELECT id, note, paid, o.window_start {SAME.format('')}",
    ),
    "same_or_not": (
        "id BIGINT, payer STRING, amount INT", "id BIGINT, amount BIGINT, payer STRING",
        f"SELECT id, payer, amount {SAME.format('FULL')}",
        f"SELECT id, amount, payer {SAME.format('FULL')}",
    ),
    "valid": (
        "id BIGINT, rate DOUBLE", "id BIGINT, rate DOUBLE, bank STRING, note STRING",
        f"SELECT id, rate {VALID.format('LEFT ')}", f"SELECT id, rate, bank, note {VALID.format('LEFT ')}",
    ),
    "top": (
        "id BIGINT, amount INT, product STRING", "product STRING, id BIGINT, amount INT, note STRING",
        NUMBERED.format("id, amount, product", "id DESC", 2),
        NUMBERED.format("product, id, CAST(amount AS INT), note", "id DESC", 2),
    ),
    "last": (
        "id BIGINT, amount INT", "id BIGINT, note STRING, amount BIGINT",
        NUMBERED.format("id, amount", "ts DESC", 1), NUMBERED.format("id, note, amount", "ts DESC", 1),
    ),
    "running": (
        "id BIGINT, total BIGINT", "id BIGINT, note STRING, total BIGINT",
        OVER.format("id", "SUM(id)", "RANGE UNBOUNDED PRECEDING"),
        OVER.format("id, note", "SUM(id)", "RANGE UNBOUNDED PRECEDING"),
    ),
    "numbered": (
        "id BIGINT, n BIGINT", "note STRING, n BIGINT, id BIGINT",
        "SELECT id, COUNT(id) OVER (PARTITION BY product ORDER BY ts ROWS UNBOUNDED PRECEDING) FROM orders",
        "SELECT note, COUNT(id) OVER (PARTITION BY product ORDER BY ts ROWS UNBOUNDED PRECEDING), id FROM orders",
    ),
    "recent": (
        "id BIGINT, total BIGINT", "id BIGINT, note STRING, total BIGINT",
        OVER.format("id", "SUM(id)", "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"),
        OVER.format("id, note", "SUM(id)", "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"),
    ),
    "pairs": (
        "id BIGINT, total BIGINT", "id BIGINT, note STRING, total BIGINT",
        OVER.format("id", "SUM(id)", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
        OVER.format("id, note", "SUM(id)", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
    ),
    "amounts": (
        "id BIGINT, total BIGINT, amount INT", "id BIGINT, note STRING, total BIGINT, amount BIGINT",
        "SELECT id, SUM(id) OVER (PARTITION BY amount ORDER BY ts RANGE UNBOUNDED PRECEDING), amount FROM orders",
        "SELECT id, note, SUM(id) OVER (PARTITION BY amount ORDER BY ts RANGE UNBOUNDED PRECEDING), amount FROM orders",
    ),
    "sorted": (
        "id BIGINT, ts TIMESTAMP(3)", "id BIGINT, ts TIMESTAMP(3), note STRING",
        "SELECT id, ts FROM orders ORDER BY ts, id DESC", "SELECT id, ts, note FROM orders ORDER BY ts, id DESC",
    ),
    "cities": (
        "city STRING, customer BIGINT, name STRING, PRIMARY KEY (city) NOT ENFORCED",
        "city STRING, phone STRING, name STRING, customer BIGINT, PRIMARY KEY (city) NOT ENFORCED",
        "SELECT city, customer, name FROM customers", "SELECT city, phone, name, customer FROM customers",
    ),
}  # fmt: skip
SEEN = (
    "SELECT {}, SUM(id) OVER (PARTITION BY product ORDER BY proc ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM orders"
)
QUERIES["seen"] = (
    "id BIGINT, total BIGINT", "note STRING, id BIGINT, total BIGINT", SEEN.format("id"), SEEN.format("note, id"),
)  # fmt: skip
# Other calls, each over rows of its own. Lists and maps of calls are kept by the number of the call.
CALLS = "SELECT {} FROM orders WHERE id > {} WINDOW w AS (PARTITION BY product ORDER BY {})"


def calls(number: int, order: str, *versions: Sequence[str]) -> tuple[str, str, str, str]:
    """Columns and queries of calls of one window in both versions."""
    columns, queries = [], []
    for version, (own, made) in enumerate(zip(("id", "note, id"), versions, strict=True)):
        types = ["INT" if call == "SUM(amount)" and not version else "BIGINT" for call in made]
        shown = ["note STRING"] * version + ["id BIGINT", *(f"c{at} {type_}" for at, type_ in enumerate(types))]
        columns.append(", ".join(shown))
        queries.append(CALLS.format(", ".join([own, *(f"{call} OVER w" for call in made)]), -number, order))
    return columns[0], columns[1], queries[0], queries[1]


QUERIES |= {
    "more": calls(
        0, "ts RANGE UNBOUNDED PRECEDING",
        ["SUM(id)", "COUNT(amount)", "SUM(amount)"], ["COUNT(amount)", "SUM(amount)", "SUM(id)"],
    ),
    "extremes": calls(
        1, "ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        ["MIN(id)", "SUM(id)", "MAX(id)"], ["SUM(id)", "MAX(id)", "MIN(id)"],
    ),
    "fewer": calls(
        2, "ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW", ["MAX(id)", "COUNT(*)"], ["COUNT(*)"]
    ),
    "some": calls(
        3, "proc ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", ["MAX(id)", "COUNT(amount)"], ["COUNT(amount)", "MAX(id)"]
    ),
    "ever": calls(4, "proc RANGE UNBOUNDED PRECEDING", ["SUM(id)", "MIN(id)"], ["MIN(id)", "SUM(id)"]),
    # New calls, of the rows that are in the frame.
    "added": calls(
        7, "ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        ["MAX(id)", "COUNT(amount)"], ["COUNT(id)", "SUM(amount)", "MAX(id)", "COUNT(amount)"],
    ),
    "added_range": calls(
        8, "ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW",
        ["COUNT(amount)"], ["SUM(id)", "COUNT(product)", "AVG(amount)", "COUNT(amount)"],
    ),
    "added_as_they_come": calls(
        9, "proc ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        ["COUNT(amount)"], ["AVG(id)", "SUM(amount)", "COUNT(amount)"],
    ),
    "earlier": calls(5, "ts", ["LAG(id)", "LAG(id, 2)"], ["LAG(id, 2)", "LAG(id)"]),
    "ranks": calls(10, "ts", ["DENSE_RANK()", "RANK()"], ["RANK()", "DENSE_RANK()"]),
}  # fmt: skip
# Calls that begin with the restore, in frames that rows never leave; and what is of rows of before and since.
BEGUN = {
    "begun": calls(20, "ts RANGE UNBOUNDED PRECEDING", ["COUNT(*)"], ["COUNT(*)", "MIN(id)"]),
    "begun_rows": calls(21, "ts ROWS UNBOUNDED PRECEDING", ["MAX(id)"], ["AVG(id)", "MAX(id)"]),
    "begun_as_they_come": calls(22, "proc RANGE UNBOUNDED PRECEDING", ["MAX(id)"], ["SUM(id)", "MAX(id)"]),
}
# Rows of before have no note: it is null in them, also when they leave the frame.
BEGUN["begun_frame"] = calls(
    23, "ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", ["COUNT(*)"], ["COUNT(note)", "COUNT(*)"]
)
SINCE = {
    "begun_frame": {"+I[n9, 9, 1, 2]", "+I[n7, 7, 1, 2]", "+I[n11, 11, 2, 2]"},
    "begun": {"+I[n9, 9, 2, 9]"},
    "begun_rows": {"+I[n9, 9, 9, 9]"},
    "begun_as_they_come": {"+I[n9, 9, 9, 9]", "+I[n7, 7, 7, 7]", "+I[n11, 11, 18, 11]", "+I[, 8, 8, 8]"},
}
# In the order of a column that is no time, which Flink 1.20 does not plan: rows are taken back.
ORDERED = "SELECT {}, SUM(id) OVER (PARTITION BY product ORDER BY id) FROM orders"
FOUND = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY ts{}) AS r FROM orders) WHERE r = 1"
QUERIES["latest"] = (
    "id BIGINT, product VARCHAR(4)", "id BIGINT, note STRING, product STRING",
    FOUND.format("id, product", " DESC"), FOUND.format("id, note, product", " DESC"),
)  # fmt: skip
RECENT = {
    # For the first row, which waits for the watermark, Flink 2 has another operator.
    "earliest": (
        "id BIGINT, product VARCHAR(4)", "id BIGINT, note STRING, product STRING",
        FOUND.format("id, product", ""), FOUND.format("id, note, product", ""),
    ),
    "ordered": (
        "id BIGINT, total BIGINT", "id BIGINT, note STRING, total BIGINT",
        ORDERED.format("id"), ORDERED.format("id, note"),
    ),
    "places": calls(6, "id", ["SUM(id)", "COUNT(amount)", "MAX(id)"], ["MAX(id)", "COUNT(amount)", "SUM(id)"]),
}  # fmt: skip


def queries_of(job: str) -> dict[str, tuple[str, str, str, str]]:
    return {**QUERIES, **BEGUN, **(RECENT if job == "2.3" else {})}


BY_KEY = ("cities",)
"""Sinks with a primary key, which get the last row of each key."""
Rows = dict[str, list[dict[str, object]]]


def of(names: str, *rows: Sequence[object]) -> list[dict[str, object]]:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def on(day: int, time: str) -> str:
    return f"2024-01-{day:02}T{time}"


ORDER, PAYMENT = "id product amount ts note", "order_id payer pts paid"
RATE, CUSTOMER = "product rate rts bank", "customer city name phone"
FIRST: Rows = {
    "orders": of(
        ORDER, (1, "tea", 10, on(1, "00:05:00"), None), (2, "tea", None, on(1, "00:10:00"), None),
        (3, None, 2147483647, on(1, "00:20:00"), None), (4, "é🍵", -2147483648, on(1, "01:00:00"), None),
        (5, "tea", 0, on(1, "01:30:00"), None), (6, "tea", 7, on(1, "01:31:00"), None),
    ),
    "payments": of(
        PAYMENT, (1, "card", on(1, "00:06:00"), None), (4, "cash", on(1, "00:59:59.999"), None),
        (9, "early", on(1, "01:20:00"), None), (5, None, on(1, "01:31:00"), None),
    ),
    "rates": of(
        RATE, ("tea", 1.0, on(1, "00:00:00"), None), ("é🍵", -0.0, on(1, "00:30:00"), None),
        ("tea", 1.5, on(1, "01:20:00"), None),
    ),
    "customers": of(
        CUSTOMER, (1, "Rome", "Ann", None), (2, "Oslo", "Bob", None), (3, "Rome", "Cid", None), (9, "Bonn", "Zoë", None)
    ),
}  # fmt: skip
SECOND: Rows = {
    "orders": of(
        ORDER, (7, "tea", 4294967296, on(1, "01:40:00"), "n7"), (8, None, None, on(1, "01:45:00"), ""),
        (9, "é🍵", 2, on(1, "01:59:59.999"), "n9"), (10, "longer", 1, on(1, "02:00:00"), "n10"),
        (11, "tea", 0, on(1, "05:00:00"), "n11"), (12, "last", 1, on(9, "00:00:00"), "n12"),
    ),
    "payments": of(
        PAYMENT, (5, "card", on(1, "01:50:00"), 1.5), (7, "cash", on(1, "01:41:00"), 0.0),
        (6, "cash", on(1, "01:59:00"), 2.5), (4, "late", on(1, "02:10:00"), -0.0), (12, "last", on(9, "00:00:00"), 9.0),
    ),
    "rates": of(
        RATE, ("tea", 1.6, on(1, "01:35:00"), "b1"), ("longer", 3.0, on(1, "01:50:00"), "b2"),
        ("tea", 1.7, on(8, "01:50:00"), "b3"), ("last", 9.0, on(9, "00:00:00"), None),
    ),
    "customers": of(
        CUSTOMER, (1, "Oslo", "Ann", "111"), (4, "Rome", "Dee", "444"), (3, "Rome", "Cyd", "333"),
        (1, "Bonn", "Ann", "112"), (4, "Kyiv", "Dee", "444"),
    ),
}  # fmt: skip


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    rows = {}
    for name, (_, *columns) in TABLES.items():
        names = [column.split()[0] for column in columns[version].split(", ")]
        rows[name] = [[row[one] for one in names if one in row] for part in parts for row in part[name]]
    job.feed(rows)


def scripts(folder: Path, job: str) -> list[str]:
    found = []
    for version in range(len(VERSIONS)):
        feeds: dict[str, Feed] = {name: (one[1 + version], one[0]) for name, one in TABLES.items()}
        queries = {name: (one[version], one[2 + version]) for name, one in queries_of(job).items()}
        if RELEASES[job][version] == "2.3":
            # Flink 1.20 does so unasked.
            queries |= {name: (queries[name][0], f"{queries[name][1]} ON CONFLICT DO DEDUPLICATE") for name in BY_KEY}
        found.append(script(folder, feeds, queries))
    return found


@pytest.fixture(scope="module", params=NEW_PLANNER)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `before` and `all` are what the new one gives for these and for all."""
    folder = tmp_path_factory.mktemp("buffers")
    made = EvolvingJob(RELEASES[request.param], folder, scripts(folder, request.param))
    made.begin(feed, FIRST, SECOND)
    yield made


def shown(name: str, *changes: Sequence[str]) -> object:
    """The rows that a sink has after changes."""
    if name not in BY_KEY:
        return table(*changes)
    found = {}
    for change in (change for part in changes for change in part):
        key = change[3:].split(", ")[0]
        found.pop(key, None)
        if change[:2] != "-D":
            found[key] = change[3:]
    return found


def test_rows_that_wait_get_other_columns(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"), new_aggregates="empty")
        assert str(writer.plan()).count("from the rows in its frame") == 9
        # Of frames that begin with the first row; Flink 2 has other timers than Flink 1.
        assert str(writer.plan()).count("timers at the times of its rows") == 8 * flink.moves

    flink.go_on(feed, SECOND, evolve)
    sinks = flink.changes("all").keys()
    assert sinks >= set(QUERIES)
    flink.check(sinks - BEGUN.keys(), shown)
    for form in SOURCES:
        for name, rows in SINCE.items():
            assert set(flink.changes(f"new-{form}")[name]) >= rows, (form, name)
