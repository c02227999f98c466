"""Aggregates of windows get other calls, columns, wider types and phases: real Flink goes on with the open windows.

Results of the second rows, of windows that were open when the savepoint was taken, equal those of the new query over
all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, SOURCES, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

# The new version has its columns in another order, and two are wider.
COLUMNS = ("product VARCHAR(4), amount DOUBLE, n INT, ts TIMESTAMP(3), id BIGINT",
           "id BIGINT, note STRING, ts TIMESTAMP(3), n BIGINT, amount DOUBLE, product STRING")  # fmt: skip
TIMES = "WATERMARK FOR ts AS ts"
BATCHES = """SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '100';
"""
ONE_PHASE = "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';\n"
PHASES = {"2.3": (ONE_PHASE, BATCHES), "1.20 to 2.3": ("", ONE_PHASE)}
TUMBLE = "TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
HOP = "HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '3' HOUR)"
CUMULATE = "CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)"
SESSION = "SESSION(TABLE orders PARTITION BY product, DESCRIPTOR(ts), INTERVAL '1' HOUR)"


def over(window: str, calls: str, key: str = "product, ") -> str:
    return f"SELECT {key}window_start, window_end, {calls} FROM TABLE({window}) GROUP BY {key}window_start, window_end"


def per_window(calls: str, read: str) -> str:
    """Windows of rows that have windows already."""
    return f"SELECT window_start, window_end, {calls} FROM ({read}) GROUP BY window_start, window_end"


def grouped(window: str, calls: str) -> str:
    """A window of GROUP BY, as SQL had them before table functions of windows."""
    kind, sizes = window.split(":")
    return (
        f"SELECT product, {kind}_START(ts, {sizes}), {kind}_END(ts, {sizes}), {calls} FROM orders "
        f"GROUP BY product, {kind}(ts, {sizes})"
    )


FIRST_ROWS = (
    "SELECT product, window_start, window_end, n, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
    f"window_end, product ORDER BY n DESC, amount) AS r FROM TABLE({TUMBLE})) WHERE r <= 2"
)
HOURS = over(TUMBLE, "SUM(amount) AS total, COUNT(*) AS m")
# Sink → the old query, the new one, and of both the columns after the window.
QUERIES = {
    "kept": (over(TUMBLE, "SUM(amount)"), over(TUMBLE, "SUM(amount)"), "a DOUBLE", "a DOUBLE"),
    "mean": (
        over(TUMBLE, "SUM(amount), COUNT(amount), MAX(n)"),
        over(TUMBLE, "MAX(n), AVG(amount), COUNT(amount)"),
        "a DOUBLE, b BIGINT, c INT",
        "c BIGINT, d DOUBLE, b BIGINT",
    ),
    # Flink counts the rows of a window that hops, if the query does not.
    "counted": (
        over(HOP, "MAX(amount), SUM(id)"), over(HOP, "SUM(id), COUNT(*)"), "a DOUBLE, b BIGINT", "b BIGINT, c BIGINT"
    ),
    "uncounted": (over(HOP, "COUNT(*), MIN(amount)"), over(HOP, "MIN(amount)"), "a BIGINT, b DOUBLE", "b DOUBLE"),
    "growing": (
        over(CUMULATE, "AVG(id), MAX(n)"), over(CUMULATE, "MAX(n), SUM(id)"), "a BIGINT, b INT", "b BIGINT, c BIGINT"
    ),
    "sessions": (
        over(SESSION, "SUM(amount), COUNT(*)"),
        over(SESSION, "COUNT(*), SUM(amount)"),
        "a DOUBLE, b BIGINT",
        "b BIGINT, a DOUBLE",
    ),
    "filtered": (
        over(TUMBLE, "MIN(id), COUNT(*) FILTER (WHERE amount > 1)"),
        over(TUMBLE, "COUNT(*) FILTER (WHERE amount > 1)"),
        "a BIGINT, b BIGINT",
        "b BIGINT",
    ),
    # What DISTINCT has seen of two columns, which change places.
    "seen": (
        over(TUMBLE, "COUNT(DISTINCT id), SUM(amount), COUNT(DISTINCT amount)"),
        over(TUMBLE, "COUNT(DISTINCT amount), SUM(amount), COUNT(DISTINCT id)"),
        "a BIGINT, b DOUBLE, c BIGINT",
        "c BIGINT, b DOUBLE, a BIGINT",
    ),
    "hopping": (
        over(HOP, "COUNT(DISTINCT id), COUNT(DISTINCT amount)"), over(HOP, "COUNT(DISTINCT amount)"),
        "a BIGINT, b BIGINT", "b BIGINT",
    ),
    "visited": (
        over(SESSION, "COUNT(DISTINCT id), MAX(id), COUNT(DISTINCT amount)"),
        over(SESSION, "COUNT(DISTINCT amount), MAX(id), COUNT(DISTINCT id)"),
        "a BIGINT, b BIGINT, c BIGINT",
        "c BIGINT, b BIGINT, a BIGINT",
    ),
    "texts": (
        over(TUMBLE, "MAX(id), FIRST_VALUE(id), LISTAGG(CAST(id AS STRING))"),
        over(TUMBLE, "LISTAGG(CAST(id AS STRING)), FIRST_VALUE(id)"),
        "a BIGINT, b BIGINT, c STRING",
        "c STRING, b BIGINT",
    ),
    # TopN finds rows by the columns of its order, of which one is wider.
    "first_rows": (FIRST_ROWS, FIRST_ROWS, "n INT, amount DOUBLE", "n BIGINT, amount DOUBLE"),
    "whole": (over(TUMBLE, "SUM(amount)", ""), over(TUMBLE, "SUM(amount)", ""), "a DOUBLE", "a DOUBLE"),
    "keyed": (over(TUMBLE, "COUNT(*)", "n, "), over(TUMBLE, "COUNT(*)", "n, "), "b BIGINT", "b BIGINT"),
    "global": (over(TUMBLE, "MIN(id), MAX(id)", ""), over(TUMBLE, "MAX(id)", ""), "a BIGINT, b BIGINT", "b BIGINT"),
    "tumbled": (
        grouped("TUMBLE:INTERVAL '1' HOUR", "SUM(amount), COUNT(DISTINCT id), COUNT(amount), MAX(n)"),
        grouped("TUMBLE:INTERVAL '1' HOUR", "MAX(n), AVG(amount), COUNT(DISTINCT id)"),
        "a DOUBLE, b BIGINT, c BIGINT, d INT",
        "d BIGINT, f DOUBLE, b BIGINT",
    ),
    "hopped": (
        grouped("HOP:INTERVAL '1' HOUR, INTERVAL '3' HOUR", "MAX(amount), SUM(id), LISTAGG(CAST(id AS STRING))"),
        grouped("HOP:INTERVAL '1' HOUR, INTERVAL '3' HOUR", "LISTAGG(CAST(id AS STRING)), MAX(amount)"),
        "a DOUBLE, b BIGINT, c STRING",
        "c STRING, a DOUBLE",
    ),
    "sat": (
        grouped("SESSION:INTERVAL '1' HOUR", "SUM(amount), COUNT(*), COUNT(DISTINCT id)"),
        grouped("SESSION:INTERVAL '1' HOUR", "COUNT(DISTINCT id), COUNT(*)"),
        "a DOUBLE, b BIGINT, c BIGINT",
        "c BIGINT, b BIGINT",
    ),
    "again": (
        per_window("MAX(total), SUM(m)", HOURS), per_window("SUM(m), MAX(total)", HOURS), "a DOUBLE, b BIGINT",
        "b BIGINT, a DOUBLE",
    ),
}  # fmt: skip
KEYS = {"whole": "", "global": "", "again": "", "keyed": "n BIGINT, "}
"""The columns before the window."""
BEGUN = "begun"
BEGINS = (over(HOP, "COUNT(*)"), over(HOP, "COUNT(*), MIN(id)"), "a BIGINT", "a BIGINT, b BIGINT")
SINCE = {
    f"+I[tea, {window}, 6]"
    for window in (
        "2023-12-31T23:00, 2024-01-01T02:00, 4",
        "2024-01-01T00:00, 2024-01-01T03:00, 4",
        "2024-01-01T01:00, 2024-01-01T04:00, 2",
    )
}
"""Of windows that were open COUNT(*) has all rows, and MIN(id), which is new, those since: 6 is the first."""
Row = tuple[str | None, float | None, int | None, str, int]
FIRST: list[Row] = [
    ("tea", 10.0, 2147483647, "2024-01-01T00:05:00", 1),
    ("tea", None, None, "2024-01-01T00:10:00", 2),
    (None, 0.5, -1, "2024-01-01T00:20:00", 3),
    ("é🍵", 0.25, 0, "2024-01-01T01:00:00", 4),
    ("tea", -0.0, -2147483648, "2024-01-01T01:30:00", 5),
]
SECOND: list[Row] = [
    ("tea", 4.0, 5, "2024-01-01T01:40:00", 6),
    (None, None, 4294967296, "2024-01-01T01:45:00", 7),
    ("é🍵", 2.0, None, "2024-01-01T01:59:59.999", 8),
    ("longer", 1.5, 1, "2024-01-01T02:00:00", 9),
    ("tea", 1.0, 1, "2024-01-01T05:00:00", 10),
    ("last", 1.0, 1, "2024-01-09T00:00:00", 11),
]


def feed(job: EvolvingJob, version: int, *parts: list[Row]) -> None:
    names = [column.split()[0] for column in COLUMNS[version].split(", ")]
    rows = [dict(zip("product amount n ts id".split(), row, strict=True)) for part in parts for row in part]
    job.feed({"orders": [[row.get(name) for name in names] for row in rows]})


def scripts(folder: Path, phases: tuple[str, str]) -> list[str]:
    found = []
    for version, setting in enumerate(phases):
        feeds: dict[str, Feed] = {"orders": (f"{COLUMNS[version]}, {TIMES}", "append")}
        queries = {
            name: (
                f"{KEYS.get(name, 'product STRING, ')}s TIMESTAMP(3), e TIMESTAMP(3), {of[2 + version]}",
                of[version],
            )
            for name, of in {**QUERIES, BEGUN: BEGINS}.items()
        }
        found.append(setting + script(folder, feeds, queries))
    return found


@pytest.fixture(scope="module", params=NEW_PLANNER)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old queries have seen the first rows; `before` and `all` are what the new ones give for these and for all."""
    folder = tmp_path_factory.mktemp("windows")
    made = EvolvingJob(RELEASES[request.param], folder, scripts(folder, PHASES[request.param]))
    made.begin(feed, FIRST, SECOND)
    yield made


def test_open_windows_go_on(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"), new_aggregates="empty")
        plan = str(writer.plan())
        assert "AVG(amount) from COUNT and SUM" in plan and "MIN(id) from now on" in plan, plan

    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES)
    for form in SOURCES:
        assert set(flink.changes(f"new-{form}")[BEGUN]) >= SINCE, form


def test_a_new_call_has_to_be_named(flink: EvolvingJob) -> None:
    with pytest.raises(InvalidOption, match=r"have calls that the old query did not compute: MIN\(id\) of"):
        flink.writer("canonical").evolve(flink.path("old.json"), flink.path("new.json"))
