"""Joins of another type, TopN of another number, and deduplication that returns another row, keep the same rows.

They emit others, and real Flink goes on with them.

Rows of joins get the numbers of their partners, or lose them. What the new query prints after the restore has to be
what it prints where it ran over all rows: it takes back rows without a partner when one comes, and emits them when the
last one goes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, VERSIONS, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

TABLES: dict[str, Feed] = {
    "orders": ("id BIGINT, customer BIGINT, note STRING", "append"),
    "payments": ("order_id BIGINT, payer STRING", "append"),
    "customers": ("customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
    "shops": ("shop BIGINT, city STRING, PRIMARY KEY (shop) NOT ENFORCED", "upsert"),
    "bids": (
        "k BIGINT, n INT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), z DATE, b BOOLEAN, f FLOAT, t TINYINT",
        "append",
    ),
    "asks": (
        "k BIGINT, n BIGINT, x DOUBLE, d DECIMAL(8, 4), s VARCHAR(10), ts TIMESTAMP(6), z DATE, b BOOLEAN, f FLOAT, "
        "i INT, u INT, PRIMARY KEY (u) NOT ENFORCED",
        "upsert",
    ),
}
# The joins of both versions: each pair of types, over rows of its own, so that no query is another one.
TYPES = (
    ("INNER", "LEFT"), ("INNER", "RIGHT"), ("INNER", "FULL"), ("LEFT", "INNER"), ("LEFT", "FULL"), ("RIGHT", "LEFT"),
    ("FULL", "INNER"), ("FULL", "RIGHT"),
)  # fmt: skip
# Rows are found by all of their columns, by the join's key, by a key of their own (LEFT_TTL: with a time to live).
PAIRS = {
    "sold": (
        "id BIGINT, payer STRING",
        "SELECT id, payer FROM (SELECT * FROM orders WHERE id > -{0}) AS o {1} JOIN payments AS p ON o.id = p.order_id",
    ),
    "known": (
        "id BIGINT, name STRING",
        "SELECT id, name FROM (SELECT * FROM orders WHERE id > -{0}) AS o {1} JOIN "
        "(SELECT * FROM customers WHERE customer > -{0}) AS c ON o.customer = c.customer",
    ),
    "near": (
        "customer BIGINT, shop BIGINT",
        "SELECT customer, shop FROM (SELECT * FROM customers WHERE customer > -{0}) AS c {1} JOIN "
        "(SELECT * FROM shops WHERE shop > -{0}) AS s ON c.city = s.city",
    ),
    "every": (
        "shop BIGINT, id BIGINT",
        "SELECT shop, id FROM (SELECT * FROM shops WHERE shop > -{0}) AS s {1} JOIN "
        "(SELECT * FROM orders WHERE id > -{0}) AS o ON TRUE",
    ),
}  # fmt: skip
QUERIES: dict[str, tuple[str, str, str]] = {
    f"{name}_{number}": (columns, *(query.format(number, one) for one in types))
    for name, (columns, query) in PAIRS.items()
    for number, types in enumerate(TYPES, 10)
    if name != "every" or types == ("INNER", "LEFT")
}
# The same of joins that return rows of the left input by whether they have a partner, in both directions.
OF_ONE_SIDE = (
    ("SEMI", "ANTI"), ("ANTI", "SEMI"), ("INNER", "SEMI"), ("INNER", "ANTI"), ("LEFT", "SEMI"), ("LEFT", "ANTI"),
    ("RIGHT", "SEMI"), ("FULL", "ANTI"), ("SEMI", "INNER"), ("SEMI", "LEFT"), ("ANTI", "FULL"), ("ANTI", "RIGHT"),
)  # fmt: skip
SEMI = {"SEMI": "EXISTS", "ANTI": "NOT EXISTS"}
# Column of the left input that is shown, the left input and its key, the right one, and the columns of the condition.
SIDES = {
    "paid": ("id", "orders", "id", "(SELECT order_id FROM payments)", "id", "order_id"),
    "listed": ("id", "orders", "id", "(SELECT customer FROM customers)", "customer", "customer"),
    "close": ("customer", "customers", "customer", "(SELECT shop, city FROM shops)", "city", "city"),
}


def of_type(name: str, kind: str, number: int) -> str:
    """The query with a join of a type; Flink leaves out a LEFT join of which it needs no column."""
    shown, left, key, right, one, two = SIDES[name]
    rows, condition = f"(SELECT * FROM {left} WHERE {key} > -{number}) AS l", f"l.{one} = r.{two}"
    if kind in SEMI:
        exists = f"{SEMI[kind]} (SELECT 1 FROM {right} AS r WHERE {condition})"
        return f"SELECT {shown}, CAST(NULL AS STRING) FROM {rows} WHERE {exists}"
    return f"SELECT l.{shown}, CAST(r.{two} AS STRING) FROM {rows} {kind} JOIN {right} AS r ON {condition}"


QUERIES |= {
    f"{name}_{number}": ("id BIGINT, found STRING", *(of_type(name, one, number) for one in types))
    for name in SIDES
    for number, types in enumerate(OF_ONE_SIDE, 100)
}
# Conditions beside the key, as DuckDB and Flink compute them, of joins whose rows begin to be counted.
CONDITIONS = (
    "l.n > r.n", "l.x >= r.x", "l.x <> r.x", "NOT (l.x < r.x)", "l.d <= r.d", "l.d > r.n", "l.s < r.s", "l.s >= r.s",
    "l.ts <= r.ts", "l.z <> r.z", "l.b OR r.b", "l.b <> r.b", "l.f < r.x", "l.x > r.i", "l.f <= r.f", "l.t < r.f",
    "(l.n > r.n) IS NOT TRUE", "l.n IS NULL OR r.n IS NULL OR (l.n <> r.n AND l.s <> 'b')", "l.n > r.n AND l.d < r.d",
    "CAST(l.t AS INT) < r.i", "l.x > r.x OR l.d > 1.5 AND r.n < 7", "l.s <> r.s OR r.s = 'it''s é'",
)  # fmt: skip
COUNTED = (("INNER", "LEFT"), ("INNER", "FULL"), ("LEFT", "FULL"), ("INNER", "RIGHT"), ("INNER", "ANTI"))


def beside(kind: str, condition: str, number: int) -> str:
    left, on = f"(SELECT * FROM bids WHERE n > -{number}) AS l", f"l.k = r.k AND ({condition})"
    if kind in SEMI:
        exists = f"{SEMI[kind]} (SELECT 1 FROM asks AS r WHERE {on})"
        return f"SELECT l.n, CAST(NULL AS BIGINT) FROM {left} WHERE {exists}"
    return f"SELECT l.n, r.k FROM {left} {kind} JOIN asks AS r ON {on}"


QUERIES |= {
    f"beside_{number}": ("n INT, other BIGINT", *(beside(one, condition, number) for one in types))
    for number, (condition, types) in enumerate(zip(CONDITIONS, itertools.cycle(COUNTED), strict=False), 10)
}
# TopN over rows that are taken back, as a customer may move to another city: with and without the rank, and of all.
RANKED = {
    "top": ("city STRING, customer BIGINT", "SELECT city, customer FROM {} WHERE r <= {}"),
    "rank": ("city STRING, r BIGINT, name STRING", "SELECT city, r, name FROM {} WHERE r <= {}"),
}
NUMBERED = (
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY name) AS r FROM "
    "(SELECT * FROM customers WHERE customer > -{}))"
)
QUERIES |= {
    f"{name}_{number}": (columns, *(query.format(NUMBERED.format(number), last) for last in lasts))
    for name, (columns, query) in RANKED.items()
    for number, lasts in ((20, (1, 3)), (21, (2, 3)), (22, (3, 1)), (23, (3, 2)))
    if name == "top" or 1 not in lasts  # the rank of the only row is no column of TopN
}
# TopN over rows that are only added keeps those of its ranks alone: fewer, with the rank or without it, which changes.
ADDED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY {}) AS r FROM orders WHERE id > -{})"
SHOWN = {"best": "customer, CAST(NULL AS BIGINT), id, note", "place": "customer, r, id, note"}
ORDERS = (
    ("note DESC", (3, 2)), ("note", (4, 2)), ("CHAR_LENGTH(note) DESC, id < 5", (4, 3)),
    ("CHAR_LENGTH(note) DESC", (4, 2)), ("CHAR_LENGTH(note) DESC NULLS LAST", (4, 4)),
)  # fmt: skip
QUERIES |= {
    f"{old}_{new}_{number}": (
        "customer BIGINT, r BIGINT, id BIGINT, note STRING",
        *(
            f"SELECT {SHOWN[name]} FROM {ADDED.format(by, number)} WHERE r <= {last}"
            for name, last in zip((old, new), lasts, strict=True)
        ),
    )
    for pair, (old, new) in enumerate(itertools.product(SHOWN, repeat=2))
    for number, (by, lasts) in enumerate(ORDERS, 40 + 10 * pair)
    if old != new or lasts[0] != lasts[1]
}
QUERIES["least"] = (
    "id BIGINT, note STRING",
    *(f"SELECT id, note FROM orders WHERE id > -90 ORDER BY id DESC NULLS LAST, note LIMIT {last}" for last in (4, 2)),
)
# With the rank and without it, over rows that are taken back.
QUERIES |= {
    f"{old}_{new}": (
        "city STRING, r BIGINT, name STRING",
        *(f"SELECT city, {one}, name FROM {NUMBERED.format(number)} WHERE r <= 2" for one in (first, second)),
    )
    for number, (old, first, new, second) in enumerate(
        (("hidden", "CAST(NULL AS BIGINT)", "shown", "r"), ("shown", "r", "hidden", "CAST(NULL AS BIGINT)")), 24
    )
}
QUERIES["first"] = (
    "customer BIGINT, name STRING",
    *(f"SELECT customer, name FROM customers WHERE customer > -30 ORDER BY city, name LIMIT {last}" for last in (2, 5)),
)
Rows = dict[str, list[Sequence[object]]]
FIRST: Rows = {
    "orders": [
        (1, 1, "a"),
        (2, 1, ""),
        (2, 1, ""),
        (3, 2, None),
        (4, None, "d"),
        (5, 7, "\0🍵"),
        (None, 2, "e"),
        (9, 1, "b"),
        (10, 1, "é"),
        (11, 1, None),
        (12, 2, "🍵"),
        (13, 2, "zz"),
    ],
    "payments": [(1, "card"), (3, "cash"), (3, "cash"), (3, "card"), (8, "card"), (None, "cash"), (7, None)],
    "customers": [
        (1, "Ann", "Rome"),
        (2, "Bob", "Oslo"),
        (9, "Zoë", None),
        (5, "Eve", "Rome"),
        (8, "Gil", "Rome"),
        (4, "Dan", "Rome"),
        (6, "Fay", "Nice"),
    ],
    "shops": [(1, "Rome"), (2, "Rome"), (3, None), (4, "Bari"), (5, "Nice")],
    "bids": [
        (1, 5, 1.5, "1.50", "b", "2026-01-01T00:00:00.123", "2026-01-01", "true", 0.1, 1),
        (1, 7, "NaN", "2.00", "é", "2026-01-02T00:00:00", "1969-12-31", "false", "NaN", -1),
        (1, 7, -0.0, "2.00", "", "2026-01-02T00:00:00", "1969-12-31", "false", 0.0, -1),
        (1, 8, *(None,) * 8),
        (2, 2147483647, "Infinity", "99999999.99", "🍵", "1969-12-31T23:59:59.999", None, None, 16777216, 127),
        (3, 1, 1.0, "1.00", "a", None, "2026-01-01", "true", 1.0, 0),
        (None, 2, 1.0, "1.00", "a", None, "2026-01-01", "true", 1.0, 0),
    ],
    "asks": [
        (1, 4, 1.5, "1.5000", "a", "2026-01-01T00:00:00.123001", "2026-01-02", "true", 0.1, 1, 1),
        (1, 7, "NaN", "1.9999", "é", "2026-01-02T00:00:00", "1969-12-31", "false", 0.5, 0, 2),
        (1, 9, 0.0, "2.0001", "it's é", "2026-01-03T00:00:00", "1969-12-30", "true", -0.0, -5, 3),
        (1, None, *(None,) * 8, 4),
        (
            2,
            2147483648,
            "Infinity",
            "9999.9999",
            "\ue000",
            "1969-12-31T23:59:59.998999",
            None,
            None,
            16777217,
            2147483647,
            5,
        ),
        (4, 1, 1.0, "1.0000", "a", None, "2026-01-01", "true", 1.0, 0, 6),
    ],
}
SECOND: Rows = {
    "orders": [(6, 1, "n6"), (8, 3, "n8"), (2, 1, ""), (None, 1, None), (14, 1, "aaa"), (15, 2, "0"), (16, 2, "z")],
    "payments": [(2, "card"), (6, "cash"), (5, None), (5, None)],
    "customers": [(3, "Cid", "Rome"), (2, "Bea", "Rome"), (7, "Dee", "Oslo")],
    "shops": [(4, "Oslo"), (2, "Oslo"), (6, None)],
    "bids": [
        (1, 6, 1.5, "1.99", "c", "2026-01-01T00:00:00.124", "2026-01-01", "false", 0.1, 1),
        (4, 3, 0.5, "0.50", "", None, "2027-01-01", "true", 0.5, 1),
        (3, 4, 2.0, "1.00", "a", None, "2026-01-01", "true", 1.0, 0),
    ],
    "asks": [
        (3, 0, 0.5, "2.0000", "b", "2026-01-01T00:00:00", "2026-01-02", "false", 2.0, 1, 7),
        (2, 1, -1.5, "0.0001", "it's é", "1969-12-31T23:59:59.999999", "2026-01-02", "true", 1.0, 0, 5),
        (1, 8, 2.5, "1.9000", "z", "2026-01-01T00:00:00", "1969-12-31", "true", 7.0, 3, 2),
    ],
}
DELETED: Rows = {
    "customers": [(1, "Ann", "Rome"), (6, "Fay", "Nice")],
    "shops": [(5, "Nice"), (3, None)],
    "asks": [(1, 4, 1.5, "1.5000", "a", "2026-01-01T00:00:00.123001", "2026-01-02", "true", 0.1, 1, 1)],
}


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    rows = {name: [row for part in parts for row in part[name]] for name in TABLES}
    job.feed(rows, later=["orders", "shops", "asks"], deleted=DELETED if parts[-1] is SECOND else {})


@pytest.fixture(scope="module", params=NEW_PLANNER)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `before` and `all` are what the new one gives for these and for all."""
    folder = tmp_path_factory.mktemp("joins")
    scripts = [
        script(folder, TABLES, {name: (one[0], one[1 + version]) for name, one in QUERIES.items()})
        for version in range(len(VERSIONS))
    ]
    made = EvolvingJob(RELEASES[request.param], folder, scripts)
    made.begin(feed, FIRST, SECOND)
    yield made


def test_results_are_those_of_the_new_query(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"), emitted="keep")
        plan = str(writer.plan())
        assert "INNER → LEFT (rows of the left input without a partner were not emitted)" in plan, plan
        assert "SEMI → ANTI (rows of the left input without a partner were not emitted, rows of the left" in plan, plan
        assert "the first 3 → the first 1 (rows of the ranks 2 to 3 stay emitted)" in plan, plan

    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES)


def test_what_was_emitted_has_to_be_left_as_it_is(flink: EvolvingJob) -> None:
    uid = flink.uid_of("new", "sold_10", "join")
    with pytest.raises(InvalidOption, match="was INNER and is LEFT, so that it would have emitted other results") as e:
        flink.writer("canonical").evolve(flink.path("old.json"), flink.path("new.json"))
    assert "--emitted keep" in str(e.value) and uid in str(e.value)


VISIT = "id BIGINT, shop BIGINT, note STRING, ts TIMESTAMP(3), proc AS PROCTIME(), WATERMARK FOR ts AS ts"
VISITS: dict[str, Feed] = {"visits": (VISIT, "append")}
KEPT = (
    "SELECT id, shop, note FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS r FROM visits "
    "WHERE id > -{}) WHERE r = 1"
)
# By processing time the state of the first row of each key has no row; by the time of rows Flink 2.1 and later have
# another operator for it, which waits for that time.
ORDERED = ("proc DESC", "proc"), ("ts DESC", "ts"), ("ts", "ts DESC"), ("ts", "ts")
OTHER_ROWS = {
    release: {
        f"{key}_{number}": (
            "id BIGINT, shop BIGINT, note STRING",
            *(KEPT.format(key, one, number) for one in ORDERED[number - 10]),
        )
        for key in ("shop", "note")
        for number in numbers
    }
    for release, numbers in {"1.20": (10, 11, 12), "2.3": (10, 11), "1.20 to 2.3": (10, 11, 12, 13)}.items()
}
# Of each key one row is emitted before the restore: it counts as the first and as the last.
VISITED: Rows = {
    "visits": [
        (1, 1, "a", "2026-01-01T10:00:00"),
        (2, 2, "", "2026-01-01T09:00:00"),
        (3, None, "\0🍵", "2026-01-01T11:00:00"),
        (4, -(2**63), None, "2026-01-01T11:00:01"),
    ]
}
EARLIER = 8
VISITED_LATER: Rows = {
    "visits": [
        (5, 1, "z", "2026-01-01T12:00:00"),
        (6, 3, "a", "2026-01-01T13:00:00"),
        (7, None, None, "2026-01-01T14:00:00"),
        (EARLIER, -(2**63), "b", "2026-01-01T10:30:00"),  # earlier than the row that was emitted
        (9, 3, "a", "2026-01-01T15:00:00"),
    ]
}


@pytest.mark.parametrize("release", OTHER_ROWS)
def test_another_row_of_each_key(release: str, tmp_path: Path) -> None:
    """The first instead of the last, or the other way round: the keys that the state has do not begin again."""
    queries = OTHER_ROWS[release]
    waits = RELEASES[release][1] == "2.3"
    scripts = [
        script(tmp_path, VISITS, {name: (one[0], one[version]) for name, one in queries.items()}) for version in (1, 2)
    ]
    job = EvolvingJob(RELEASES[release], tmp_path, scripts)

    def feed_visits(job: EvolvingJob, version: int, *parts: Rows) -> None:
        # What comes after its time is left out, if the watermark has come before it.
        job.feed({"visits": [row for part in parts for row in part["visits"] if not waits or row[0] != EARLIER]})

    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(job.path("old.json"), job.path("new.json"), emitted="keep")
        assert "the last row → the first row (of each key the row that was emitted" in str(writer.plan())
        assert ("the first row at once → the first row when its time has come" in str(writer.plan())) is job.moves

    job.begin(feed_visits, VISITED, VISITED_LATER)
    job.go_on(feed_visits, VISITED_LATER, evolve)
    job.check(queries)


WAITING = VISIT.replace("FOR ts AS ts", "FOR ts AS ts - INTERVAL '2' HOUR")
EARLIEST = (
    "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY ts) AS r FROM visits WHERE id > -{}) "
    "WHERE r = 1"
)
# Queries of both versions: their columns stay, or some are not read any more.
FIRST_VISITS = {
    "same": ("id, shop, note", "id, shop, note", "shop"),
    "same_note": ("id, shop, note", "id, shop, note", "note"),
    "fewer": ("id, shop, note", "id, shop, CAST(NULL AS STRING)", "shop"),
    "fewer_note": ("id, shop, note", "id, CAST(NULL AS BIGINT), note", "note"),
}


def test_first_rows_that_wait_go_on_with_other_columns(tmp_path: Path) -> None:
    """RowTimeDeduplicateKeepFirstRowFunction: rows whose time has not come stay, with their timers."""
    queries = {
        name: ("id BIGINT, shop BIGINT, note STRING", *(EARLIEST.format(one, key, number) for one in shown))
        for number, (name, (*shown, key)) in enumerate(FIRST_VISITS.items(), 20)
    }
    tables: dict[str, Feed] = {"visits": (WAITING, "append")}
    scripts = [
        script(tmp_path, tables, {name: (one[0], one[version]) for name, one in queries.items()}) for version in (1, 2)
    ]
    job = EvolvingJob(RELEASES["2.3"], tmp_path, scripts)

    def feed_visits(job: EvolvingJob, version: int, *parts: Rows) -> None:
        job.feed({"visits": [row for part in parts for row in part["visits"] if row[0] != EARLIER]})

    job.begin(feed_visits, VISITED, VISITED_LATER)
    job.go_on(feed_visits, VISITED_LATER, lambda writer: writer.evolve(job.path("old.json"), job.path("new.json")))
    job.check(queries)
