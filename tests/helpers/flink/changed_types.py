"""Changes of the types, or of the form, of a SQL query whose operators keep their uids, for nodes of every kind.

    python -m tests.helpers.flink.changed_types 1.20 2.3

records what real Flink does with the old savepoint, as `changed_plans` does, in `tests/vectors/changed-types.tar.xz`.
With names after `--only`, it runs these alone, prints what came of them, and records nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.helpers.flink.changed_plans import Recorded, outcome_of, recorded_in, renumber, unpacked, write
from tests.helpers.flink.evolving_job import VERSIONS, EvolvingJob, Feed, script
from tests.helpers.paths import VECTORS

ARCHIVE = VECTORS / "changed-types.tar.xz"
_DAY = "2024-01-01T00:"
_TIME = "WATERMARK FOR {0} AS {0} - INTERVAL '1' SECOND"
_TABLES: Mapping[str, Feed] = {
    "clicks": (
        "id BIGINT, customer BIGINT, product STRING, note VARCHAR(10), amount DECIMAL(10, 2), quantity INT, "
        f"ts TIMESTAMP(3), proc AS PROCTIME(), {_TIME.format('ts')}",
        "append",
    ),
    "payments": (f"id BIGINT, paid INT, due TIMESTAMP(3), {_TIME.format('due')}", "append"),
    "rates": (
        f"product STRING, rate INT, since TIMESTAMP(3), {_TIME.format('since')}, PRIMARY KEY (product) NOT ENFORCED",
        "upsert",
    ),
    "people": ("customer BIGINT, name VARCHAR(10), points INT, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
}
_ROWS: Mapping[str, tuple[list[tuple[object, ...]], list[tuple[object, ...]]]] = {
    "clicks": (
        [
            (1, 1, "tea", "b", "10.00", 3, f"{_DAY}00:10"),
            (2, 1, "mate", "a", "4.50", 1, f"{_DAY}00:20"),
            (3, 2, "tea", "b", "20.00", 7, f"{_DAY}00:30"),
        ],
        [
            (4, 1, "tea", "c", "15.00", 4, f"{_DAY}00:40"),
            (5, 2, "tea", "b", "6.00", 2, f"{_DAY}00:50"),
            (6, 9, "gin", "z", "1.00", 1, f"{_DAY}20:00"),
        ],
    ),
    "payments": (
        [(1, 5, f"{_DAY}00:12"), (3, 6, f"{_DAY}00:31")],
        [(4, 7, f"{_DAY}00:41"), (2, 9, f"{_DAY}00:45"), (6, 1, f"{_DAY}20:00")],
    ),
    "rates": ([("tea", 2, f"{_DAY}00:05"), ("mate", 3, f"{_DAY}00:05")], [("gin", 4, f"{_DAY}20:00")]),
    "people": ([(1, "Ann", 5), (2, "Bob", 7), (3, "Cid", 6)], [(2, "Bea", 1), (4, "Dan", 9)]),
}
"""Table → its rows before the savepoint and after it."""


@dataclass(frozen=True)
class Change:
    """A change: the query, of which `{}` is another text in each version; and texts of tables that are others.

    The first column of its results says which group a row is of.
    """

    name: str
    columns: str
    query: str
    texts: tuple[str, str] = ("", "")
    tables: tuple[str, str] = ("", "")
    sink: tuple[str, str] = ("", "")
    settings: tuple[str, str] = ("", "")
    releases: tuple[str, ...] = ("1.20", "2.3")


_BIGGER = ("quantity INT", "quantity BIGINT")
_LONGER = ("note VARCHAR(10)", "note VARCHAR(20)")
_FINER = ("amount DECIMAL(10, 2)", "amount DECIMAL(12, 2)")
_NEVER_NULL = ("quantity INT", "quantity INT NOT NULL")
_RATE, _PAID, _POINTS = ("rate INT", "rate BIGINT"), ("paid INT", "paid BIGINT"), ("points INT", "points BIGINT")
_TTL = "SET 'table.exec.state.ttl' = '1 d';\n"
_TO_LIVE = ("", _TTL)
_SAME = ("", "")
_OTHER_COLUMN = ("quantity", "CHAR_LENGTH(product)")
_TVF = "TABLE({}(TABLE clicks, DESCRIPTOR(ts), {}))"
_TUMBLE = _TVF.format("TUMBLE", "INTERVAL '1' MINUTE")
_HOP = _TVF.format("HOP", "INTERVAL '1' MINUTE, INTERVAL '2' MINUTE")
_CUMULATE = _TVF.format("CUMULATE", "INTERVAL '1' MINUTE, INTERVAL '2' MINUTE")
_SESSION = "TABLE(SESSION(TABLE clicks PARTITION BY {0}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
_IN = "SELECT {0}, {1} FROM {2} GROUP BY {0}, window_start, window_end"
_GROUPED = "SELECT {0}, {1} FROM clicks GROUP BY {0}"
_N, _NN = "g BIGINT, n BIGINT", "g BIGINT, n BIGINT, m BIGINT"
_OVER = "SELECT id, {} OVER (PARTITION BY customer ORDER BY {} {} BETWEEN {} AND CURRENT ROW), quantity FROM clicks"
_UNBOUNDED, _HOUR = "UNBOUNDED PRECEDING", "INTERVAL '1' HOUR PRECEDING"
_RANKED = "SELECT {0} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {1} ORDER BY {2}) AS r FROM {3}) WHERE r <= {4}"
_BOTH = "CONCAT(product, CAST(customer AS STRING)), customer, total"
_TOTALS = "(SELECT product, customer, SUM(quantity) AS total FROM clicks GROUP BY product, customer)"
_COUNTS = "(SELECT product, customer, quantity, COUNT(*) AS c FROM clicks GROUP BY product, customer, quantity)"
_INTERVAL = (
    "SELECT c.id, c.quantity, p.paid FROM clicks AS c {} JOIN payments AS p ON c.id = p.id "
    "AND p.due BETWEEN c.ts - INTERVAL '1' MINUTE AND c.ts + INTERVAL '1' MINUTE"
)
_TEMPORAL = (
    "SELECT c.id, c.quantity, r.rate FROM clicks AS c {} JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r "
    "ON c.product = r.product"
)
_OF_WINDOWS = (
    "SELECT c.id, c.quantity, p.paid FROM (SELECT * FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' "
    "MINUTE))) c {} JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(due), INTERVAL '1' MINUTE))) p "
    "ON c.id = p.id AND c.window_start = p.window_start AND c.window_end = p.window_end"
)
_MATCH = (
    "SELECT customer, a, b FROM clicks MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES FIRST(A.quantity) "
    "AS a, B.id AS b AFTER MATCH SKIP PAST LAST ROW PATTERN (A B C) DEFINE A AS A.id > 0, B AS B.id > 1, C AS C.id > 3)"
)
_MINI_BATCH = (
    "SET 'table.exec.mini-batch.enabled' = 'true';\nSET 'table.exec.mini-batch.allow-latency' = '50 ms';\n"
    "SET 'table.exec.mini-batch.size' = '10';\nSET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';\n"
    "SET 'table.optimizer.distinct-agg.split.enabled' = 'true';\n"
)
_ONE_PHASE = "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';\n"
_MULTI = "SET 'table.optimizer.multi-join.enabled' = 'true';\n"


def _c(name: str, columns: str, query: str, tables: tuple[str, str] = _SAME, **more: Any) -> Change:
    return Change(name, columns, query, tables=tables, **more)


CHANGES = (
    # Aggregates over windows.
    _c("tumble same", _N, _IN.format("customer", "SUM(quantity)", _TUMBLE)),
    _c("tumble sum", _N, _IN.format("customer", "SUM(quantity)", _TUMBLE), _BIGGER),
    _c("tumble count", _N, _IN.format("customer", "COUNT(quantity)", _TUMBLE), _BIGGER),
    _c("tumble key", "g STRING, n BIGINT", _IN.format("note", "SUM(quantity)", _TUMBLE), _LONGER),
    _c("tumble distinct text", _N, _IN.format("customer", "COUNT(DISTINCT note)", _TUMBLE), _LONGER),
    _c("tumble distinct number", _N, _IN.format("customer", "COUNT(DISTINCT quantity)", _TUMBLE), _BIGGER),
    _c("tumble time to live", _N, _IN.format("customer", "SUM(quantity)", _TUMBLE), settings=_TO_LIVE),
    _c("tumble longer", _N, _IN.format("customer", "SUM(quantity)", _TVF.format("TUMBLE", "INTERVAL '{}' MINUTE")),
        texts=("1", "2")),
    _c("hop most", _N, _IN.format("customer", "MAX(quantity)", _HOP), _BIGGER),
    _c("hop same", _N, _IN.format("customer", "MAX(quantity)", _HOP)),
    _c("cumulate sum", _N, _IN.format("customer", "SUM(quantity)", _CUMULATE), _BIGGER),
    _c("session sum", _N, _IN.format("customer", "SUM(quantity)", _SESSION.format("customer")), _BIGGER),
    _c("session same", _N, _IN.format("customer", "SUM(quantity)", _SESSION.format("customer"))),
    _c("session key", "g STRING, n BIGINT", _IN.format("note", "SUM(quantity)", _SESSION.format("note")), _LONGER),
    _c("tumble to session", _N, _IN.format("customer", "SUM(quantity)", "TABLE({}, INTERVAL '1' MINUTE))"),
        texts=("TUMBLE(TABLE clicks, DESCRIPTOR(ts)", "SESSION(TABLE clicks PARTITION BY customer, DESCRIPTOR(ts)"),
        settings=(_ONE_PHASE, _ONE_PHASE)),
    _c("group tumble sum", _N, _GROUPED.format("customer", "SUM(quantity)") + ", TUMBLE(ts, INTERVAL '1' MINUTE)",
        _BIGGER),
    _c("group tumble same", _N, _GROUPED.format("customer", "SUM(quantity)") + ", TUMBLE(ts, INTERVAL '1' MINUTE)"),
    _c("group session distinct", _N, _GROUPED.format("customer", "COUNT(DISTINCT note)")
        + ", SESSION(ts, INTERVAL '1' MINUTE)", _LONGER),
    _c("group hop to session", _N, _GROUPED.format("customer", "SUM(quantity)") + ", {})",
        texts=("HOP(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE", "SESSION(ts, INTERVAL '1' MINUTE")),
    _c("session rows", _NN, "SELECT id, quantity, customer FROM " + _SESSION.format("customer"), _BIGGER),
    _c("session rows same", _NN, "SELECT id, quantity, customer FROM " + _SESSION.format("customer")),
    _c("window top", _NN, _RANKED.format("customer, id, quantity", "window_start, window_end, customer",
        "amount DESC", _TUMBLE, 2), _BIGGER),
    _c("window top same", _NN, _RANKED.format("customer, id, quantity", "window_start, window_end, customer",
        "amount DESC", _TUMBLE, 2)),
    _c("window top sort key", _NN, _RANKED.format("customer, id, quantity", "window_start, window_end, customer",
        "amount DESC", _TUMBLE, 2), _FINER),
    _c("window last row", _NN, _RANKED.format("customer, id, quantity", "window_start, window_end, customer",
        "ts DESC", _TUMBLE, 1), _BIGGER),
    # OVER.
    *(
        _c(f"over {name}", _NN, _OVER.format("SUM(quantity)", *frame), _BIGGER)
        for name, frame in {
            "rows": ("ts", "ROWS", _UNBOUNDED),
            "range": ("ts", "RANGE", _UNBOUNDED),
            "last rows": ("ts", "ROWS", "1 PRECEDING"),
            "last hour": ("ts", "RANGE", _HOUR),
            "processed": ("proc", "ROWS", _UNBOUNDED),
            "last processed": ("proc", "ROWS", "1 PRECEDING"),
            "hour processed": ("proc", "RANGE", _HOUR),
        }.items()
    ),
    _c("over kept text", "g BIGINT, n BIGINT, t STRING, m BIGINT",
        "SELECT id, COUNT(id) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), "
        "note, quantity FROM clicks", _LONGER),
    _c("over distinct", _NN, _OVER.format("COUNT(DISTINCT note)", "ts", "RANGE", _UNBOUNDED), _LONGER),
    _c("over number", _NN, _OVER.format("ROW_NUMBER()", "proc", "ROWS", _UNBOUNDED).replace(
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", ""), _BIGGER),
    _c("over number of other columns", _NN, _OVER.format("ROW_NUMBER()", "proc", "ROWS", _UNBOUNDED).replace(
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "").replace("quantity", "{}"), texts=_OTHER_COLUMN),
    _c("over least", _NN, _OVER.format("MIN(quantity)", "ts", "ROWS", "1 PRECEDING"), _BIGGER),
    _c("over time to live", _NN, _OVER.format("SUM(quantity)", "ts", "ROWS", "1 PRECEDING"), settings=_TO_LIVE),
    _c("over processed time to live", _NN, _OVER.format("SUM(quantity)", "proc", "ROWS", _UNBOUNDED),
        settings=_TO_LIVE),
    _c("over by amount", _NN, _OVER.format("SUM(quantity)", "amount", "RANGE", _UNBOUNDED), _BIGGER,
        releases=("2.3",)),
    _c("over by amount finer", _NN, _OVER.format("SUM(quantity)", "amount", "ROWS", _UNBOUNDED), _FINER,
        releases=("2.3",)),
    # Joins.
    _c("interval left", _NN, _INTERVAL.format(""), _BIGGER),
    _c("interval right", _NN, _INTERVAL.format(""), _PAID),
    _c("interval same", _NN, _INTERVAL.format("")),
    _c("interval kind", _NN, _INTERVAL, texts=("", "LEFT")),
    _c("interval key", _NN, _INTERVAL.format("").replace("c.id = p.id", "{} = p.id"), texts=("c.id", "c.customer")),
    _c("temporal left", _NN, _TEMPORAL.format("LEFT"), _BIGGER),
    _c("temporal right", _NN, _TEMPORAL.format("LEFT"), _RATE),
    _c("temporal same", _NN, _TEMPORAL.format("LEFT")),
    _c("window join", _NN, _OF_WINDOWS.format(""), _BIGGER),
    _c("window join same", _NN, _OF_WINDOWS.format("LEFT")),
    _c("join text", "g BIGINT, t STRING", "SELECT c.id, p.name FROM clicks AS c JOIN people AS p ON c.customer = "
        "p.customer", ("name VARCHAR(10)", "name VARCHAR(20)")),
    _c("join time to live", "g BIGINT, n BIGINT", "SELECT c.id, p.points FROM clicks AS c JOIN people AS p "
        "ON c.customer = p.customer", settings=_TO_LIVE),
    _c("multi join", _NN, "SELECT c.id, p.points, d.paid FROM clicks AS c JOIN people AS p ON c.id = p.customer "
        "JOIN payments AS d ON c.id = d.id", _POINTS, settings=(_MULTI, _MULTI), releases=("2.3",)),
    _c("multi join of rows", _NN, "SELECT c.id, p.points, d.paid FROM clicks AS c JOIN people AS p ON c.id = "
        "p.customer JOIN payments AS d ON c.id = d.id", _PAID, settings=(_MULTI, _MULTI), releases=("2.3",)),
    # Rows that are kept.
    _c("last processed row", _NN, _RANKED.format("customer, id, quantity", "customer", "proc DESC", "clicks", 1),
        _BIGGER),
    _c("last row", _NN, _RANKED.format("customer, id, quantity", "customer", "ts DESC", "clicks", 1), _BIGGER),
    _c("first row", _NN, _RANKED.format("customer, id, quantity", "customer", "ts ASC", "clicks", 1), _BIGGER),
    _c("first row same", _NN, _RANKED.format("customer, id, quantity", "customer", "ts ASC", "clicks", 1)),
    _c("first processed row of other columns", _NN, _RANKED.format("customer, id, {}", "customer", "proc ASC", "clicks",
        1), texts=_OTHER_COLUMN),
    _c("last row time to live", _NN, _RANKED.format("customer, id, quantity", "customer", "ts DESC", "clicks", 1),
        settings=_TO_LIVE),
    _c("normalize", _NN, "SELECT customer, points, customer FROM people WHERE customer > 0", _POINTS),
    _c("top appended", _NN, _RANKED.format("customer, id, quantity", "customer", "amount DESC", "clicks", 2), _BIGGER),
    _c("top one", _NN, _RANKED.format("customer, id, quantity", "customer", "amount DESC", "clicks", 1), _BIGGER),
    _c("top time to live", _NN, _RANKED.format("id, customer, quantity", "customer", "amount DESC", "clicks", 2),
        settings=_TO_LIVE),
    _c("top changing", "g STRING, n BIGINT, m BIGINT", _RANKED.format(_BOTH, "product", "total",
        _TOTALS, 2), _BIGGER),
    _c("top changing same", "g STRING, n BIGINT, m BIGINT", _RANKED.format(_BOTH, "product",
        "total", _TOTALS, 2)),
    _c("top changing direction", "g STRING, n BIGINT, m BIGINT", _RANKED.format(_BOTH, "product",
        "total {}", _TOTALS, 2), texts=("ASC", "DESC")),
    _c("top changing nulls", "g STRING, n BIGINT, m BIGINT", _RANKED.format(_BOTH, "product",
        "total {}", _TOTALS, 2), texts=("ASC NULLS FIRST", "ASC NULLS LAST")),
    _c("top counted", "g STRING, n BIGINT, m BIGINT", _RANKED.format("product, quantity, c", "product", "c DESC",
        _COUNTS, 2), _BIGGER),
    _c("sorted", _NN, "SELECT id, quantity, customer FROM clicks ORDER BY ts", _BIGGER),
    _c("sorted same", _NN, "SELECT id, quantity, customer FROM clicks ORDER BY ts, quantity"),
    _c("pattern", _NN, _MATCH, _BIGGER),
    _c("pattern same", _NN, _MATCH),
    _c("sink", "name STRING, n BIGINT, {} PRIMARY KEY (name) NOT ENFORCED",
        "SELECT name, customer, points FROM people", sink=("m INT,", "m BIGINT,")),
    _c("sink time to live", "name STRING, n BIGINT, {} PRIMARY KEY (name) NOT ENFORCED",
        "SELECT name, customer, points FROM people", sink=("m INT,", "m INT,"), settings=_TO_LIVE),
    # Aggregates over groups.
    _c("group sum of decimals", "g BIGINT, n DECIMAL(38, 2)", _GROUPED.format("customer", "SUM(amount)"), _FINER),
    _c("group mean of decimals", "g BIGINT, n DECIMAL(38, 6)", _GROUPED.format("customer", "AVG(amount)"), _FINER),
    _c("group mean of decimals same", "g BIGINT, n DECIMAL(38, 6)", _GROUPED.format("customer", "AVG(amount)")),
    _c("group least decimal", "g BIGINT, n DECIMAL(38, 2)", _GROUPED.format("customer", "MIN(amount)"), _FINER),
    _c("group distinct text", _N, _GROUPED.format("customer", "COUNT(DISTINCT note)"), _LONGER),
    _c("group distinct number", _N, _GROUPED.format("customer", "COUNT(DISTINCT quantity)"), _BIGGER),
    _c("group distinct decimal", _N, _GROUPED.format("customer", "COUNT(DISTINCT amount)"), _FINER),
    _c("group distinct never null", _N, _GROUPED.format("customer", "COUNT(DISTINCT quantity)"), _NEVER_NULL),
    _c("group distinct pair", "g BIGINT, n STRING", _GROUPED.format("customer", "LISTAGG(DISTINCT note, '-')"),
        _LONGER),
    _c("group distinct pair same", "g BIGINT, n STRING", _GROUPED.format("customer", "LISTAGG(DISTINCT note, '-')")),
    _c("group distinct filters", _NN, _GROUPED.format("customer", "COUNT(DISTINCT note) FILTER (WHERE id > 1), "
        "COUNT(DISTINCT note) FILTER (WHERE id > 2)"), _LONGER),
    _c("group first", _N, _GROUPED.format("customer", "FIRST_VALUE(quantity)"), _BIGGER),
    _c("group texts", "g BIGINT, n STRING", _GROUPED.format("customer", "LISTAGG(note)"), _LONGER),
    _c("group array", "g BIGINT, n STRING", _GROUPED.format("customer", "CAST(ARRAY_AGG(quantity) AS STRING)"),
        _BIGGER),
    _c("group json", "g BIGINT, n STRING", _GROUPED.format("customer", "JSON_ARRAYAGG(quantity)"), _BIGGER),
    _c("group json same", "g BIGINT, n STRING", _GROUPED.format("customer", "JSON_ARRAYAGG(quantity)")),
    _c("group most text", "g BIGINT, n STRING", _GROUPED.format("customer", "MAX(note)"), _LONGER),
    _c("group never null", _N, _GROUPED.format("customer", "MAX(quantity)"), _NEVER_NULL),
    _c("group of changes", "g BIGINT, n BIGINT", "SELECT customer, MIN(points) FROM people GROUP BY customer",
        _POINTS),
    _c("group of changes same", "g BIGINT, n BIGINT", "SELECT points, MIN(customer) FROM people GROUP BY points"),
    _c("group of changing texts", "g BIGINT, n STRING", "SELECT points, LISTAGG(name) FROM people GROUP BY points",
        ("name VARCHAR(10)", "name VARCHAR(20)")),
    _c("group of changing distinct", _N, "SELECT points, COUNT(DISTINCT name) FROM people GROUP BY points",
        ("name VARCHAR(10)", "name VARCHAR(20)")),
    _c("group of changing last", "g BIGINT, n STRING", "SELECT points, LAST_VALUE(name) FROM people GROUP BY points",
        ("name VARCHAR(10)", "name VARCHAR(20)")),
    _c("single value", _NN, "SELECT id, quantity, (SELECT MAX(points) FROM people) FROM clicks", _POINTS),
    _c("split distinct", "g STRING, n BIGINT, m BIGINT", _GROUPED.format("product", "COUNT(DISTINCT quantity), "
        "SUM(id)"), _BIGGER, settings=(_MINI_BATCH, _MINI_BATCH)),
    _c("split distinct text", "g STRING, n BIGINT, m BIGINT", _GROUPED.format("product", "COUNT(DISTINCT note), "
        "SUM(id)"), _LONGER, settings=(_MINI_BATCH, _MINI_BATCH)),
)  # fmt: skip


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return unpacked(ARCHIVE)


def recorded() -> Iterator[Recorded]:
    """Yield what was recorded."""
    yield from recorded_in(Path(_folder().name))


def run(release: str, changes: Sequence[Change], folder: Path) -> dict[str, str]:
    """Let Flink run changes, below a folder; return what came of each."""
    made = {change.name: partial(scripts, change, release=release) for change in changes}
    jobs = run_changes(release, made, folder, _ROWS, {"all": slice(0, 2)})
    return {f"{release}/{name}": outcome_of(job) for name, job in jobs.items()}


def run_changes(
    release: str,
    made: Mapping[str, Callable[[Path], list[str]]],
    folder: Path,
    rows: Mapping[str, Sequence[Sequence[tuple[object, ...]]]],
    again: Mapping[str, slice],
) -> dict[str, EvolvingJob]:
    """Let Flink run old queries over the first rows, and restore the new ones from their savepoints over the others.

    Args:
        release: The release of Flink.
        made: Name of a change → makes the statements of both versions for a folder.
        folder: Where each change gets a folder.
        rows: Table → its rows before the savepoint, and after it.
        again: Name of results → the parts of the rows over which new queries that were restored run anew.
    """
    jobs = {}
    for change, scripts_of in made.items():
        own = folder / release / change
        own.mkdir(parents=True)
        jobs[change] = EvolvingJob((release, release), own, scripts_of(own))
    first, *_ = jobs.values()
    first.do(*(job.compile(version) for job in jobs.values() for version in VERSIONS))
    for job in jobs.values():
        align(job)

    def run_all(parts: slice, chosen: Mapping[str, EvolvingJob], *given: Any) -> None:
        for job in chosen.values():
            given_rows = {name: [row for part in found[parts] for row in part] for name, found in rows.items()}
            job.feed(given_rows, later=["clicks"])
        first.do(*(job.run(*(one(job) if callable(one) else one for one in given)) for job in chosen.values()))

    run_all(slice(0, 1), jobs, "old", "rocksdb", "old", "-", lambda job: job.path("taken"))
    run_all(slice(1, 2), jobs, "new", "rocksdb", "new", lambda job: job.snapshot("canonical"))
    restored = {name: job for name, job in jobs.items() if not Path(job.path("new.error")).exists()}
    for out, parts in again.items() if restored else ():
        run_all(parts, restored, "new", "rocksdb", out)
    return jobs


def align(job: EvolvingJob) -> None:
    """Give nodes of the new plan the numbers of the old one's, of each type in their order, or new ones."""
    old, new = (Path(job.path(f"{version}.json")) for version in VERSIONS)
    renumber(old)
    renumber(new)
    known: dict[str, list[int]] = {}
    for node in json.loads(old.read_text())["nodes"]:
        known.setdefault(node["type"], []).append(node["id"])
    plan = json.loads(new.read_text())
    numbers = {}
    for node in plan["nodes"]:
        of_type = known.get(node["type"], [])
        numbers[node["id"]] = of_type.pop(0) if of_type else 100 + node["id"]
        node["id"] = numbers[node["id"]]
    for edge in plan["edges"]:
        edge["source"], edge["target"] = numbers[edge["source"]], numbers[edge["target"]]
    new.write_text(json.dumps(plan, indent=1))


def scripts(change: Change, folder: Path, release: str) -> list[str]:
    """Return the statements of both versions."""
    made = []
    conflict = " ON CONFLICT DO DEDUPLICATE" if change.sink[0] and release != "1.20" else ""
    for at, setting in enumerate(change.settings):
        query = change.query.replace("{}", change.texts[at])
        tables = {
            name: (columns.replace(change.tables[0], change.tables[1]) if at and change.tables[0] else columns, mode)
            for name, (columns, mode) in _TABLES.items()
            if name in query
        }
        columns = change.columns.replace("{}", change.sink[at])
        made.append(setting + script(folder, tables, {"out": (columns, query + conflict)}))
    return made


def main() -> None:
    releases, _, names = " ".join(sys.argv[1:]).partition("--only")
    only = [name.strip() for name in names.split(",") if name.strip()]
    folder = Path(tempfile.mkdtemp(prefix="changed-types-"))
    outcomes: dict[str, str] = {}
    for release in releases.split():
        chosen = [one for one in CHANGES if release in one.releases and (not only or one.name in only)]
        outcomes |= run(release, chosen, folder)
    for key, outcome in outcomes.items():
        print(f"{key:<40} {outcome.splitlines()[-1][:150]}")
    if not only:
        write(outcomes, folder, ARCHIVE)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
