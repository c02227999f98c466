"""Random queries change at random: real Flink goes on with what `evolve` takes, and results are those of all rows.

Each pair of queries is planned alone first; those that `evolve` takes without a further word run in jobs of a few
queries. ``CHANGES_SEED=7 make test-acceptance`` tries others. Functions whose results depend on the order of changes
(FIRST_VALUE, LAST_VALUE, LISTAGG) are left out: mini-batches do not keep it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from stateproc.errors import SnapshotError
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import state_uid
from stateproc.query_plans.query_evolution import query_evolution
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, SOURCES, VERSIONS, EvolvingJob, Feed, script, table

pytestmark = pytest.mark.flink

SEED = int(os.environ.get("CHANGES_SEED", "1"))
QUERIES, IN_A_JOB = 60, 7
Columns = dict[str, str]
"""Column → its type."""
TABLES: dict[str, Columns] = {
    "orders": {
        "id": "BIGINT", "customer": "BIGINT", "product": "STRING", "qty": "INT", "amount": "DOUBLE",
        "price": "DECIMAL(10, 2)",
    },
    "payments": {"pid": "BIGINT", "order_id": "BIGINT", "payer": "STRING", "paid": "DOUBLE"},
    "visits": {"customer": "BIGINT", "vid": "BIGINT", "page": "STRING"},
    "accounts": {"account": "BIGINT", "branch": "STRING", "balance": "DOUBLE", "points": "BIGINT"},
    "customers": {"cust": "BIGINT", "name": "STRING", "city": "STRING"},
}  # fmt: skip
TIMES = {"orders": "ts", "payments": "pts"}
KEYS = {
    "orders": ("customer", "product", "qty"), "payments": ("order_id", "payer"), "visits": ("customer", "page"),
    "accounts": ("branch", "points"), "customers": ("city", "name"),
}  # fmt: skip
_OTHERS = {
    "orders": ", ts TIMESTAMP(3), WATERMARK FOR ts AS ts", "payments": ", pts TIMESTAMP(3), WATERMARK FOR pts AS pts",
    "visits": ", proc AS PROCTIME()", "accounts": ", PRIMARY KEY (account) NOT ENFORCED",
    "customers": ", PRIMARY KEY (cust) NOT ENFORCED",
}  # fmt: skip
FEEDS: dict[str, Feed] = {
    name: (
        ", ".join(f"{column} {type_}" for column, type_ in columns.items()) + _OTHERS[name],
        "upsert" if "PRIMARY" in _OTHERS[name] else "append",
    )
    for name, columns in TABLES.items()
}
NUMBERS = ("BIGINT", "INT", "DOUBLE", "DECIMAL(10, 2)")
BATCHES = (
    "SET 'table.exec.mini-batch.enabled' = 'true';\nSET 'table.exec.mini-batch.allow-latency' = '1 s';\n"
    "SET 'table.exec.mini-batch.size' = '3';\n"
)
SETTINGS = ("", BATCHES, "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';\n")
Call = tuple[str, str]
"""A call, and the type of its result."""


@dataclass(frozen=True)
class Query:
    """A query and the types of its columns."""

    text: str
    types: tuple[str, ...]


Change = tuple[Query, Query]
Rows = dict[str, list[tuple[object, ...]]]


class Changes:
    """Random queries with the next version of each."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def next(self) -> Change:
        makers = (self.groups, self.groups, self.join, self.join, self.top, self.top, self.one_row, self.windows)
        return self.random.choice((*makers, self.frames, self.near_in_time))()

    def calls(self, columns: Columns, most: int, *, distinct: bool = True) -> list[Call]:
        found = []
        for _ in range(self.random.randint(1, most)):
            number = self.random.choice([name for name, type_ in columns.items() if type_ in NUMBERS])
            any_, type_ = self.random.choice(list(columns)), columns[number]
            wide, mean = ("DECIMAL(38, 2)", "DECIMAL(38, 6)") if type_.startswith("DECIMAL") else (type_, type_)
            some: list[Call] = [
                ("COUNT(*)", "BIGINT"), (f"COUNT({any_})", "BIGINT"), (f"SUM({number})", wide),
                (f"AVG({number})", mean), (f"MIN({number})", type_), (f"MAX({any_})", columns[any_]),
            ]  # fmt: skip
            some += [(f"COUNT(DISTINCT {any_})", "BIGINT"), (f"SUM(DISTINCT {number})", wide)] if distinct else []
            call, result = self.random.choice(some)
            is_filtered = distinct and self.random.random() < 0.25
            found.append((call + f" FILTER (WHERE {number} > {self.random.randint(0, 6)})" * is_filtered, result))
        return found

    def changed(self, calls: Sequence[Call], others: Sequence[Call]) -> list[Call]:
        """Calls of which some are gone, twice, elsewhere, made of others, or new."""
        made = list(calls)
        for _ in range(self.random.randint(0, 2)):
            made = self.random.sample(made, max(1, len(made) - self.random.randint(0, 1)))
            made.insert(self.random.randrange(len(made) + 1), self.random.choice([*calls, ("COUNT(*)", "BIGINT")]))
        for at, (call, type_) in enumerate(made):
            if call.startswith("SUM(") and "DISTINCT" not in call and self.random.random() < 0.2:
                made[at] = "AVG" + call[3:], type_.replace("38, 2", "38, 6")
        return made + [self.random.choice(others)] * (self.random.random() < 0.15)

    def _calls_of(self, columns: Columns, write: Callable[[Sequence[Call]], Query], *, distinct: bool = True) -> Change:
        calls = self.calls(columns, 4, distinct=distinct)
        return write(calls), write(self.changed(calls, self.calls(columns, 2, distinct=distinct)))

    def rows(self) -> tuple[str, Columns, Sequence[str]]:
        """Rows of a table, of groups or of a join, with their columns and those of keys."""
        name = self.random.choice(list(TABLES))
        columns, keys = TABLES[name], KEYS[name]
        number = self.random.choice([column for column, type_ in columns.items() if type_ in NUMBERS])
        kind = self.random.random()
        if kind < 0.6:
            where = f" WHERE {number} > -{self.random.randint(1, 9)}" * (self.random.random() < 0.5)
            return f"(SELECT * FROM {name}{where})", columns, keys
        if kind < 0.8:
            key = self.random.choice(keys)
            groups = f"(SELECT {key}, COUNT(*) AS n, MAX({number}) AS m FROM {name} GROUP BY {key})"
            return groups, {key: columns[key], "n": "BIGINT", "m": columns[number]}, (key, "n")
        side = self.random.choice(["", "LEFT ", "FULL "])
        both = {**TABLES["orders"], **TABLES["customers"]}
        rows = f"(SELECT * FROM orders AS l {side}JOIN customers AS r ON l.customer = r.cust)"
        return rows, {one: both[one] for one in ("id", "qty", "price", "city", "cust")}, ("city", "qty")

    def groups(self) -> Change:
        rows, columns, keys = self.rows()
        by = self.random.sample(keys, self.random.randint(0, len(keys) - 1))

        def query(calls: Sequence[Call]) -> Query:
            text = f"SELECT {', '.join([*by, *(call for call, _ in calls)])} FROM {rows}"
            return Query(
                text + f" GROUP BY {', '.join(by)}" * bool(by),
                (*(columns[key] for key in by), *(type_ for _, type_ in calls)),
            )

        return self._calls_of(columns, query)

    def windows(self) -> Change:
        name, time = self.random.choice(list(TIMES.items()))
        by, columns = self.random.sample(KEYS[name], self.random.randint(0, 2)), TABLES[name]
        sizes = self.random.choice(["'1' HOUR", "'1' HOUR, INTERVAL '3' HOUR", "'1' HOUR, INTERVAL '6' HOUR"])
        kind = "TUMBLE" if "," not in sizes else "HOP" if "'3'" in sizes else "CUMULATE"
        of_rows = self.random.random() < 0.4 and kind != "CUMULATE"

        def query(calls: Sequence[Call]) -> Query:
            own = [*by, *(call for call, _ in calls)]
            types_ = ("TIMESTAMP(3)", *(columns[key] for key in by), *(type_ for _, type_ in calls))
            if of_rows:
                size = f"({time}, INTERVAL {sizes})"
                groups = ", ".join([*by, kind + size])
                return Query(f"SELECT {', '.join([f'{kind}_START{size}', *own])} FROM {name} GROUP BY {groups}", types_)
            window = f"TABLE({kind}(TABLE {name}, DESCRIPTOR({time}), INTERVAL {sizes}))"
            groups = ", ".join([*by, "window_start", "window_end"])
            return Query(f"SELECT {', '.join(['window_start', *own])} FROM {window} GROUP BY {groups}", types_)

        return self._calls_of(columns, query)

    def frames(self) -> Change:
        name, time = self.random.choice([*TIMES.items(), ("visits", "proc")])
        key, columns = self.random.choice(KEYS[name]), TABLES[name]
        frames = ["ROWS BETWEEN UNBOUNDED PRECEDING", f"ROWS BETWEEN {self.random.randint(1, 3)} PRECEDING"]
        frames += ["RANGE BETWEEN UNBOUNDED PRECEDING", "RANGE BETWEEN INTERVAL '2' HOUR PRECEDING"] * (time != "proc")
        frame = f"(PARTITION BY {key} ORDER BY {time} {self.random.choice(frames)} AND CURRENT ROW)"
        first = next(iter(columns)) if name != "visits" else "vid"

        def query(calls: Sequence[Call]) -> Query:
            shown = ", ".join([first, *(f"{call} OVER w" for call, _ in calls)])
            return Query(f"SELECT {shown} FROM {name} WINDOW w AS {frame}", ("BIGINT", *(type_ for _, type_ in calls)))

        return self._calls_of(columns, query, distinct=False)

    def _some(self, columns: Columns, query: Callable[[Sequence[str]], str]) -> Change:
        """Some columns, and then some of these."""
        before = self.random.sample(list(columns), self.random.randint(1, len(columns)))
        after = self.random.sample(before, self.random.randint(1, len(before)))
        old, new = (Query(query(names), tuple(columns[one] for one in names)) for names in (before, after))
        return old, new

    def join(self) -> Change:
        left, right, on = self.random.choice(
            [
                ("orders", "customers", "l.customer = r.cust"),
                ("orders", "payments", "l.id = r.order_id"),
                ("customers", "accounts", "l.cust = r.points"),
                ("payments", "customers", "l.payer = r.name"),
            ]
        )
        kind = self.random.choice(["", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
        sides = (("l", left),) if kind in ("SEMI", "ANTI") else (("l", left), ("r", right))
        columns = {f"{side}.{one}": type_ for side, name in sides for one, type_ in TABLES[name].items()}

        def query(names: Sequence[str]) -> str:
            if kind in ("SEMI", "ANTI"):
                word = "NOT " * (kind == "ANTI")
                exists = f"{word}EXISTS (SELECT 1 FROM {right} AS r WHERE {on})"
                return f"SELECT {', '.join(names)} FROM {left} AS l WHERE {exists}"
            return f"SELECT {', '.join(names)} FROM {left} AS l {kind} JOIN {right} AS r ON {on}"

        return self._some(columns, query)

    def near_in_time(self) -> Change:
        kind = self.random.choice(["", "LEFT", "RIGHT", "FULL"])
        sides = (("l", "orders"), ("r", "payments"))
        columns = {f"{side}.{one}": type_ for side, name in sides for one, type_ in TABLES[name].items()}
        near = "l.id = r.order_id AND r.pts BETWEEN l.ts - INTERVAL '1' HOUR AND l.ts + INTERVAL '2' HOUR"
        return self._some(
            columns, lambda names: f"SELECT {', '.join(names)} FROM orders AS l {kind} JOIN payments AS r ON {near}"
        )

    def top(self) -> Change:
        rows, columns, keys = self.rows()
        by, last = self.random.choice(keys), self.random.randint(1, 3)
        order = ", ".join([f"{self.random.choice(list(columns))} {self.random.choice(['ASC', 'DESC'])}", *columns])
        numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS rn FROM {rows}"
        return self._some(columns, lambda names: f"SELECT {', '.join(names)} FROM ({numbered}) WHERE rn <= {last}")

    def one_row(self) -> Change:
        name, time = self.random.choice([*TIMES.items(), ("visits", "proc")])
        by, which = self.random.choice(KEYS[name]), self.random.choice(["ASC", "DESC"])
        numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {time} {which}) AS rn FROM {name}"
        return self._some(TABLES[name], lambda names: f"SELECT {', '.join(names)} FROM ({numbered}) WHERE rn = 1")


def rows_of(random_: random.Random, part: int) -> Rows:
    """Rows of one half; times of the second begin where those of the first end, within a window."""

    def small(most: int) -> int | None:
        return random_.choice([None, *range(1, most)])

    def money() -> float | None:
        return random_.choice([None, random_.randint(-20, 40) / 4])

    def price() -> str | None:
        return random_.choice([None, f"{random_.randint(-5, 9)}.{random_.randint(10, 99)}"])

    def time(row: int) -> str:
        minutes = 8 * 60 + part * 293 + (row - 1) * 300 // 40
        return f"2024-01-01T{minutes // 60:02d}:{minutes % 60:02d}:00"

    names, products, first = ["Ann", "Bob", "Zoë", None], ["tea", "mate", "紅茶", None], part * 1000
    return {
        "orders": [
            (first + i, small(6), random_.choice(products), small(4), money(), price(), time(i)) for i in range(1, 40)
        ],
        "payments": [
            (first + i, random_.choice([None, random_.randint(1, 40), 1000 + random_.randint(1, 40)]),
             random_.choice(names), money(), time(i)) for i in range(1, 40)
        ],
        "visits": [(small(5), first + i, random_.choice(["/a", "/b", None])) for i in range(1, 30)],
        "accounts": [(random_.randint(1, 9), random_.choice(["A", "B", None]), money(), small(5)) for _ in range(25)],
        "customers": [
            (random_.randint(1, 8), random_.choice(names), random_.choice(["Rome", None])) for _ in range(15)
        ],
    }  # fmt: skip


def taken(folder: Path, releases: tuple[str, str], changes: dict[str, Change], settings: Sequence[str]) -> list[str]:
    """The queries that `evolve` takes as they are, planned one by one."""
    job = EvolvingJob(releases, folder, ["", ""])
    for version, release in enumerate(VERSIONS):
        lines = []
        for name, change in changes.items():
            (folder / f"{name}.{release}.sql").write_text(written(folder, {name: change}, version, settings))
            lines.append(("compile", *(job.path(f"{name}.{release}.{kind}") for kind in ("sql", "json"))))
        job.do(*lines, version=release)
    found = []
    for name in changes:
        old, new = (job.path(f"{name}.{release}.json") for release in VERSIONS)
        plan = read_plan(old)
        try:
            query_evolution(old, new, {}, (), {operator_id(state_uid(plan, node)) for node in plan.nodes})
        except SnapshotError:
            continue
        found.append(name)
    return found


def written(folder: Path, changes: dict[str, Change], version: int, settings: Sequence[str]) -> str:
    queries = {
        name: (", ".join(f"c{at} {type_}" for at, type_ in enumerate(change[version].types)), change[version].text)
        for name, change in changes.items()
    }
    return settings[version] + script(folder, FEEDS, queries)


def goes_on(job: EvolvingJob, first: Rows, second: Rows) -> bool:
    """Run the job and its next version; whether Flink itself can, and no two queries are ambiguous together."""

    def feed(one: EvolvingJob, _: int, *parts: Rows) -> None:
        one.feed({name: [row for part in parts for row in part[name]] for name in TABLES}, later=["orders"])

    job.begin(feed, first, second)
    if any(Path(job.path(f"{run}.error")).exists() for run in ("old", "before", "all")):
        return False
    try:
        job.go_on(feed, second, lambda writer: writer.evolve(job.path("old.json"), job.path("new.json")))
    except SnapshotError:
        return False
    return True


@pytest.mark.parametrize("releases", NEW_PLANNER)
def test_what_goes_on_is_right(releases: str, tmp_path: Path) -> None:
    made = Changes(SEED)
    changes = {f"q{number}": made.next() for number in range(QUERIES)}
    settings = [made.random.choice(SETTINGS) for _ in VERSIONS]
    names = taken(tmp_path, RELEASES[releases], changes, settings)
    assert len(names) > QUERIES // 3
    first, second = (rows_of(made.random, part) for part in (0, 1))
    wrong, compared = [], 0
    for number in range(0, len(names), IN_A_JOB):
        some = {name: changes[name] for name in names[number : number + IN_A_JOB]}
        folder = tmp_path / f"job-{number}"
        folder.mkdir()
        job = EvolvingJob(RELEASES[releases], folder, [written(folder, some, at, settings) for at in (0, 1)])
        if not goes_on(job, first, second):
            continue
        before, whole = job.changes("before"), job.changes("all")
        for form in SOURCES:
            new = job.changes(f"new-{form}")
            for name in some:
                compared += 1
                if table(before.get(name, []), new.get(name, [])) != table(whole.get(name, [])):
                    wrong.append((form, some[name]))
    assert not wrong and compared > len(names) // 2
