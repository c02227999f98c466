"""Nodes whose rows wait, and joins, with other bounds, types, conditions and ranks: real Flink goes on with the rows
that they keep.

What is refused, such as wider bounds, is in `tests/helpers/flink/refused_changes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from stateproc import SavepointWriter
from tests.helpers.flink.evolving_job import RELEASES, VERSIONS, EvolvingJob, Feed, script, table

pytestmark = pytest.mark.flink

TABLES: dict[str, Feed] = {
    "orders": (
        "id BIGINT, customer BIGINT, amount DOUBLE, ts TIMESTAMP(3), proc AS PROCTIME(), WATERMARK FOR ts AS ts - "
        "INTERVAL '1' HOUR",
        "append",
    ),
    "payments": (
        "order_id BIGINT, payer STRING, ts TIMESTAMP(3), proc AS PROCTIME(), WATERMARK FOR ts AS ts - "
        "INTERVAL '1' HOUR",
        "append",
    ),
    "rates": (
        "payer STRING, rate DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR, "
        "PRIMARY KEY (payer) NOT ENFORCED",
        "upsert",
    ),
}
NEAR = (
    "SELECT o.id, p.payer FROM (SELECT * FROM orders WHERE id > -{0}) AS o {1} JOIN payments AS p ON "
    "o.id = p.order_id AND o.{2} BETWEEN p.{2} - INTERVAL '{3}' MINUTE AND p.{2} + INTERVAL '{4}' MINUTE"
)
FRAME = (
    "SELECT id, {1} FROM (SELECT * FROM orders WHERE id > -{0}) WINDOW w AS (PARTITION BY customer ORDER BY {2} {3} "
    "BETWEEN {4} PRECEDING AND CURRENT ROW)"
)
SUMS = "CAST(COUNT(amount) OVER w AS STRING), SUM(amount) OVER w"
LEAST = "CAST(COUNT(amount) OVER w AS STRING), MIN(amount) OVER w"
BEGUN = "CAST(COUNT(*) OVER w AS STRING), SUM(amount) OVER w"
Query = tuple[str, str, str]


def near(number: int, kind: str, time: str, old: tuple[int, int], new: tuple[int, int]) -> Query:
    return "id BIGINT, payer STRING", *(NEAR.format(number, kind, time, *bounds) for bounds in (old, new))


def changed(columns: str, form: str, number: int, old: Sequence[object], new: Sequence[object]) -> Query:
    return columns, *(form.format(number, *one) for one in (old, new))


def frame(number: int, old: tuple[str, str, str, str], new: tuple[str, str, str, str]) -> Query:
    return "id BIGINT, m STRING, n DOUBLE", *(FRAME.format(number, *one) for one in (old, new))


WINDOWS = "SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
OF_WINDOWS = (
    f"SELECT o.id, p.payer FROM ({WINDOWS.format('orders')} WHERE id > -{{0}}) AS o {{1}} JOIN "
    f"({WINDOWS.format('payments')}) AS p ON o.id = p.order_id {{2}} AND o.window_start = p.window_start AND "
    "o.window_end = p.window_end"
)
MOST = (
    "SELECT id, CAST(customer AS STRING), amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
    f"window_end ORDER BY amount DESC) AS r FROM ({WINDOWS.format('orders')}) WHERE id > -{{0}}) "
    "WHERE r <= {1} AND r >= {2}"
)
RATED = (
    "SELECT CAST(p.order_id AS STRING), p.payer, r.rate FROM (SELECT * FROM payments WHERE order_id > -{0}) AS p {1} "
    "JOIN rates FOR SYSTEM_TIME AS OF p.ts AS r ON p.payer = r.payer {2}"
)
PAIRS = (
    "SELECT o.id, p.payer FROM (SELECT * FROM orders WHERE id > -{0}) AS o {1} JOIN payments AS p ON "
    "o.id = p.order_id {2}"
)
OVER, UNLIKE = "AND o.customer < p.order_id", "AND o.customer <> p.order_id"
PAYERS, RATES = "id BIGINT, payer STRING", "m STRING, payer STRING, n DOUBLE"
HOUR, HALF = "INTERVAL '60' MINUTE", "INTERVAL '30' MINUTE"
QUERIES: dict[str, Query] = {
    "near": near(10, "INNER", "ts", (60, 60), (30, 10)),
    "near_one_side": near(11, "INNER", "ts", (60, 60), (60, 0)),
    "near_at_once": near(12, "INNER", "proc", (60, 60), (30, 30)),
    "in_range": frame(20, (SUMS, "ts", "RANGE", HOUR), (SUMS, "ts", "RANGE", HALF)),
    "in_range_least": frame(21, (LEAST, "ts", "RANGE", HOUR), (LEAST, "ts", "RANGE", HALF)),
    "in_range_new_call": frame(22, (SUMS, "ts", "RANGE", HOUR), (BEGUN, "ts", "RANGE", HALF)),
    "in_range_at_once": frame(23, (SUMS, "proc", "RANGE", HOUR), (SUMS, "proc", "RANGE", HALF)),
    # One row more is what the state has between two rows.
    "in_rows": frame(24, (SUMS, "ts", "ROWS", "1"), (SUMS, "ts", "ROWS", "2")),
    "in_rows_least": frame(25, (LEAST, "ts", "ROWS", "2"), (LEAST, "ts", "ROWS", "3")),
    "in_rows_new_call": frame(26, (SUMS, "ts", "ROWS", "2"), (BEGUN, "ts", "ROWS", "3")),
    "in_rows_at_once": frame(27, (SUMS, "proc", "ROWS", "1"), (SUMS, "proc", "ROWS", "2")),
    # Joins of another type, or with another condition.
    "near_inner": changed(PAYERS, NEAR, 40, ("LEFT", "ts", 60, 60), ("INNER", "ts", 60, 60)),
    "near_left": changed(PAYERS, NEAR, 41, ("FULL", "ts", 60, 60), ("LEFT", "ts", 60, 60)),
    "of_windows": changed(PAYERS, OF_WINDOWS, 42, ("INNER", ""), ("FULL", "")),
    "of_windows_inner": changed(PAYERS, OF_WINDOWS, 43, ("LEFT", OVER), ("INNER", UNLIKE)),
    "rated": changed(RATES, RATED, 44, ("INNER", ""), ("LEFT", "")),
    "rated_inner": changed(RATES, RATED, 45, ("LEFT", ""), ("INNER", "AND r.rate < p.order_id")),
    "pairs": changed(PAYERS, PAIRS, 46, ("INNER", OVER), ("INNER", UNLIKE)),
    "pairs_left": changed(PAYERS, PAIRS, 47, ("", OVER), ("LEFT", UNLIKE)),
    "pairs_inner": changed(PAYERS, PAIRS, 48, ("FULL", OVER), ("", "AND o.customer > p.order_id - 9")),
    # The first rows of windows.
    "most": changed("id BIGINT, m STRING, n DOUBLE", MOST, 50, (4, 1), (2, 1)),
    "most_but_one": changed("id BIGINT, m STRING, n DOUBLE", MOST, 51, (3, 1), (3, 2)),
}
Rows = dict[str, list[Sequence[object]]]


def at(minute: int) -> str:
    return f"2026-01-01T{10 + minute // 60:02}:{minute % 60:02}:00"


FIRST: Rows = {
    "orders": [
        (1, 1, 10.0, at(0)), (2, 1, 4.5, at(20)), (3, 2, None, at(25)), (4, None, -1.0, at(30)), (5, 1, 7.0, at(45)),
        (6, 2, 2.0, at(50)), (7, 1, 1.0, at(55)), (8, 2, 0.25, at(90)), (9, 1, 0.5, at(150)),
    ],
    "payments": [
        (1, "card", at(10)), (2, "cash", at(75)), (3, None, at(5)), (6, "cash", at(75)), (9, "card", at(150)),
        (5, "🍵", at(100)),
    ],
    "rates": [("card", 1.5, at(0)), ("cash", 2.5, at(70)), ("card", 3.5, at(140)), ("🍵", 0.5, at(150))],
}  # fmt: skip
SECOND: Rows = {
    "orders": [
        (10, 1, 3.0, at(160)), (11, 2, 8.0, at(165)), (12, None, 6.0, at(170)), (13, 1, 100.0, at(185)),
        (14, 2, 2.5, at(210)), (15, 1, -8.0, at(240)), (16, 1, 0.0, at(400)),
    ],
    "payments": [
        (8, "card", at(140)), (7, "late", at(110)), (9, "again", at(205)), (9, "near", at(155)), (10, "x", at(150)),
        (13, "y", at(215)), (14, "z", at(200)), (15, "cash", at(400)),
    ],
    "rates": [("x", 9.5, at(140)), ("cash", 4.5, at(300)), ("near", -1.0, at(400))],
}  # fmt: skip


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    job.feed({name: [row for part in parts for row in part[name]] for name in TABLES})


@pytest.fixture(scope="module", params=RELEASES)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    folder = tmp_path_factory.mktemp("bounds")
    scripts = [
        script(folder, TABLES, {name: (one[0], one[1 + version]) for name, one in QUERIES.items()})
        for version in range(len(VERSIONS))
    ]
    made = EvolvingJob(RELEASES[request.param], folder, scripts)
    made.begin(feed, FIRST, SECOND)
    yield made


def test_results_are_those_of_the_new_query(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"), emitted="keep", new_aggregates="empty")
        plan = str(writer.plan())
        assert "rows of -3600000 to 0 ms → rows of -1800000 to 0 ms" in plan, plan

    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES, shown)


def shown(name: str, *changes: Sequence[str]) -> object:
    """The rows of a sink; by processing time its ids and the largest frame, as rows of one millisecond have one."""
    found = table(*changes)
    if name != "in_range_at_once":
        return found
    rows = [row.strip("[]").split(", ") for row in found]
    return sorted(row[0] for row in rows), max(int(row[1]) for row in rows)
