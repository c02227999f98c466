"""Aggregates of many calls, of which some stay in another order: real Flink goes on from what `evolve` writes.

Calls are drawn at random: of every function, with DISTINCT and FILTER, over rows that are added and over such that are
taken back. The results before and after the restore together are those of the new query over all rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

FEEDS: dict[str, Feed] = {
    "orders": ("id BIGINT, product STRING, customer BIGINT, amount DOUBLE", "append"),
    "accounts": ("id BIGINT, branch STRING, points BIGINT, balance DOUBLE, PRIMARY KEY (id) NOT ENFORCED", "upsert"),
}
COLUMNS = {"orders": ("product", ("id", "customer", "amount")), "accounts": ("branch", ("id", "points", "balance"))}
MOST = 7
QUERIES = 24
"""Of each kind of rows."""
FUNCTIONS = ("COUNT({})", "SUM({})", "AVG({})", "MIN({})", "MAX({})", "COUNT(DISTINCT {})", "SUM(DISTINCT {})",
             "LISTAGG(CAST({} AS STRING))", "LAST_VALUE({})", "FIRST_VALUE({})", "LISTAGG(DISTINCT CAST({} AS STRING))",
             "COUNT(DISTINCT {})")  # fmt: skip


def drawn_calls(source: str, chance: random.Random) -> tuple[list[str], list[str]]:
    """Return the calls of the old query and of the new one, which has some of them, and means that follow from them."""
    columns = COLUMNS[source][1]
    filters = ("", "", f" FILTER (WHERE {columns[2]} > 3)")
    # Call → what it shares with others: those with DISTINCT of one column stay together.
    calls = {"COUNT(*)": ""}
    for _ in range(chance.randint(2, MOST)):
        function, column = chance.choice(FUNCTIONS), chance.choice(columns)
        shared = function.partition("{")[2] + column if "DISTINCT" in function else ""
        calls[function.format(column) + chance.choice(filters)] = shared
    gone = {shared for shared in calls.values() if shared and chance.random() < 0.4}
    kept = [call for call, shared in calls.items() if shared not in gone and (shared or chance.random() < 0.7)]
    # Each row of the second part has to change something.
    order = _order(kept if "COUNT(*)" in kept else [*kept, "COUNT(*)"], calls, chance)
    order += [f"AVG({one})" for one in columns if f"SUM({one})" in calls and f"COUNT({one})" in calls]
    return _order(list(calls), calls, chance), list(dict.fromkeys(order))


def _order(kept: list[str], calls: dict[str, str], chance: random.Random) -> list[str]:
    """Return calls in another order; those that share what they have seen keep theirs."""
    places = chance.sample(range(len(kept)), len(kept))
    made = [kept[at] for at in places]
    for shared in {calls.get(call, "") for call in kept} - {""}:
        where = [at for at, call in enumerate(made) if calls.get(call) == shared]
        for at, call in zip(where, [call for call in kept if calls.get(call) == shared], strict=True):
            made[at] = call
    return made


def query(source: str, number: int, calls: Sequence[str]) -> str:
    """A query over rows of its own, whose columns are text."""
    key, columns = COLUMNS[source]
    texts = [f"CAST({call} AS STRING)" for call in calls] + ["CAST(NULL AS STRING)"] * (MOST + 4 - len(calls))
    return f"SELECT {key}, {', '.join(texts)} FROM {source} WHERE {columns[0]} > -{number} GROUP BY {key}"


def drawn_rows(chance: random.Random, first: bool) -> dict[str, list[tuple[object, ...]]]:
    def row(number: int) -> tuple[object, ...]:
        whole, half = chance.choice([None, 1, 2, 3]), chance.choice([None, 0.5, 1.0, 4.0, 7.5])
        return number, chance.choice(["a", "b", None]), whole, half

    start = 0 if first else 20
    # Half of the accounts change in the second part.
    return {
        "orders": [row(start + at) for at in range(20)],
        "accounts": [row((0 if first else 6) + at) for at in range(12)],
    }


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("releases", NEW_PLANNER)
def test_drawn_calls_go_on(releases: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    queries = {
        f"{source}{number}": (source, number, drawn_calls(source, chance))
        for source in FEEDS
        for number in range(QUERIES)
    }
    scripts = []
    for version in (0, 1):
        columns = ", ".join(["k STRING", *(f"c{at} STRING" for at in range(MOST + 4))])
        made = {
            name: (columns, query(source, number, calls[version])) for name, (source, number, calls) in queries.items()
        }
        scripts.append(script(tmp_path, FEEDS, made))
    flink = EvolvingJob(RELEASES[releases], tmp_path, scripts)
    first, second = drawn_rows(chance, True), drawn_rows(chance, False)

    def feed(job: EvolvingJob, version: int, *parts: dict[str, list[tuple[object, ...]]]) -> None:
        del version
        job.feed({name: [row for part in parts for row in part[name]] for name in FEEDS}, later=["orders"])

    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"))

    flink.begin(feed, first, second)
    flink.go_on(feed, second, evolve)
    flink.check(sorted(queries))


TIMED: dict[str, Feed] = {
    "orders": (
        "id BIGINT, product STRING, customer BIGINT, amount DOUBLE, ts TIMESTAMP(3), proc AS PROCTIME(), "
        "WATERMARK FOR ts AS ts",
        "append",
    )
}
FRAMES = ("ts RANGE UNBOUNDED PRECEDING", "ts ROWS UNBOUNDED PRECEDING", "proc RANGE UNBOUNDED PRECEDING",
          "ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", "proc ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
          "ts RANGE BETWEEN INTERVAL '4' MINUTE PRECEDING AND CURRENT ROW")  # fmt: skip
OVER_FUNCTIONS = ("COUNT({})", "SUM({})", "AVG({})", "MIN({})", "MAX({})", "LAST_VALUE({})", "FIRST_VALUE({})",
                  "COUNT(DISTINCT {})", "SUM(DISTINCT {})")  # fmt: skip


def drawn_over(chance: random.Random) -> tuple[list[str], list[str]]:
    """Return the calls of the old query, and some in another order, of which those of one DISTINCT are together."""
    calls = {"COUNT(*)": ""}
    for _ in range(chance.randint(2, MOST)):
        function, column = chance.choice(OVER_FUNCTIONS), chance.choice(COLUMNS["orders"][1])
        calls[function.format(column)] = column if "DISTINCT" in function else ""
    gone = {shared for shared in calls.values() if shared and chance.random() < 0.4}
    kept = [call for call, shared in calls.items() if shared not in gone and (shared or chance.random() < 0.7)]
    return _order(list(calls), calls, chance), _order(kept or ["COUNT(*)"], calls, chance)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("releases", NEW_PLANNER)
def test_drawn_calls_of_over_go_on(releases: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    queries = {f"over{number}": (number, FRAMES[number % len(FRAMES)], drawn_over(chance)) for number in range(QUERIES)}
    scripts = []
    for version in (0, 1):
        columns = ", ".join(["id BIGINT", *(f"c{at} STRING" for at in range(MOST + 1))])
        made = {}
        for name, (number, frame, calls) in queries.items():
            texts = [f"CAST({call} OVER w AS STRING)" for call in calls[version]]
            texts += ["CAST(NULL AS STRING)"] * (MOST + 1 - len(texts))
            rows = f"FROM orders WHERE id > -{number} WINDOW w AS (PARTITION BY product ORDER BY {frame})"
            made[name] = columns, f"SELECT id, {', '.join(texts)} {rows}"
        scripts.append(script(tmp_path, TIMED, made))
    flink = EvolvingJob(RELEASES[releases], tmp_path, scripts)

    def rows_of(first: bool) -> dict[str, list[tuple[object, ...]]]:
        drawn = drawn_rows(chance, first)["orders"]
        return {"orders": [(*row, f"2024-01-01T00:{int(str(row[0])):02}:00") for row in drawn]}

    first, second = rows_of(True), rows_of(False)

    def feed(job: EvolvingJob, version: int, *parts: dict[str, list[tuple[object, ...]]]) -> None:
        del version
        job.feed({"orders": [row for part in parts for row in part["orders"]]})

    flink.begin(feed, first, second)
    flink.go_on(feed, second, lambda writer: writer.evolve(flink.path("old.json"), flink.path("new.json")))
    flink.check(sorted(queries))
