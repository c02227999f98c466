"""Changes of a SQL query that `evolve` refuses, and what real Flink does with the old savepoint as it is.

    python -m tests.helpers.flink.refused_changes 1.20 2.3

runs each old query over the first rows, and restores the new one from its savepoint over the second; and the new one
over the first alone, and over all. It records plans, savepoints and what came of it in
`tests/vectors/refused-changes.tar.xz`, as `changed_types` does: ``wrong`` if what the new query prints after what it
prints of the first rows is not what it prints of all, ``stale`` if that is so only after what the old query printed,
``right`` if neither is, else what Flink threw. With names after `--only` it runs these, and prints rows.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.helpers.flink.changed_plans import RIGHT, WRONG, Recorded, recorded_in, unpacked, write
from tests.helpers.flink.changed_types import run_changes
from tests.helpers.flink.evolving_job import EvolvingJob, Feed, script
from tests.helpers.paths import VECTORS

ARCHIVE = VECTORS / "refused-changes.tar.xz"
STALE, FAILS = "stale", "fails"
_DAY = "2024-01-01T00:"
_TIME = "WATERMARK FOR {0} AS {0} - INTERVAL '1' SECOND"
_TABLES: Mapping[str, Feed] = {
    "clicks": (
        "id BIGINT, customer BIGINT, product STRING, note VARCHAR(10), amount DECIMAL(10, 2), quantity INT, "
        f"weight FLOAT, mass DOUBLE, must INT NOT NULL, ts TIMESTAMP(3), proc AS PROCTIME(), {_TIME.format('ts')}",
        "append",
    ),
    "payments": (f"id BIGINT, paid INT, due TIMESTAMP(3), {_TIME.format('due')}", "append"),
    "rates": (
        f"product STRING, rate INT, since TIMESTAMP(3), {_TIME.format('since')}, PRIMARY KEY (product) NOT ENFORCED",
        "upsert",
    ),
    "people": (
        "customer BIGINT, name VARCHAR(10), points INT, city STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"
    ),
    "teams": ("team INT, title STRING, PRIMARY KEY (team) NOT ENFORCED", "upsert"),
}  # fmt: skip
_ROWS: Mapping[str, tuple[list[tuple[object, ...]], list[tuple[object, ...]]]] = {
    "clicks": (
        [
            (1, 1, "tea", "b", "10.00", 3, 0.1, 0.1, 1, f"{_DAY}00:10"),
            (2, 1, "mate", "a", "4.50", 1, 0.5, 0.5, 2, f"{_DAY}00:20"),
            (3, 2, "tea", "b", "20.00", 7, 0.1, 2.5, 3, f"{_DAY}00:30"),
            (4, 1, "tea", "c", "30.00", 5, 1.5, 1.5, 4, f"{_DAY}00:40"),
            (5, 1, "gin", "d", "40.00", 3, 0.7, 0.7, 5, f"{_DAY}00:45"),
            (6, 2, "gin", "e", "1.00", 2, 0.1, 7.5, 6, f"{_DAY}00:48"),
        ],
        [
            (7, 1, "tea", "c", "15.00", 4, 0.1, 0.25, 7, f"{_DAY}00:52"),
            (8, 2, "tea", "b", "6.00", 7, 0.1, 1.25, 8, f"{_DAY}00:54"),
            (9, 1, "mate", "f", "50.00", 9, 2.5, 2.75, 9, f"{_DAY}00:56"),
            (10, 9, "gin", "z", "1.00", 1, 0.5, 0.5, 9, f"{_DAY}20:00"),
        ],
    ),
    "payments": (
        [
            (1, 5, f"{_DAY}00:12"), (3, 6, f"{_DAY}00:31"), (2, 4, f"{_DAY}00:33"), (6, 3, f"{_DAY}00:46"),
            (77, 1, f"{_DAY}00:48"),
        ],
        [(7, 7, f"{_DAY}00:53"), (3, 9, f"{_DAY}00:55"), (10, 1, f"{_DAY}20:00")],
    ),
    "rates": (
        [("tea", 2, f"{_DAY}00:05"), ("mate", 3, f"{_DAY}00:05"), ("rum", 1, f"{_DAY}00:48")],
        [("gin", 4, f"{_DAY}20:00")],
    ),
    "people": (
        [(1, "Ann", 5, "Bonn"), (2, "Bob", 7, "Kiel"), (3, "Cid", 5, "Ulm"), (4, "Bob", 7, "Hof")],
        [(2, "Bea", 9, "Kiel"), (5, "Dan", 7, "Ulm"), (3, "Bob", 7, "Hof"), (4, "Bob", 7, "Ulm")],
    ),
    "teams": ([(5, "red"), (7, "blue")], [(7, "green"), (9, "pink")]),
}  # fmt: skip
"""Table → its rows before the savepoint and after it."""


@dataclass(frozen=True)
class Change:
    """A kind of change that is refused.

    Attributes:
        name: What it is.
        outcome: What comes of it in Flink: WRONG, STALE, RIGHT or FAILS.
        words: What of evolve's error says why it is refused.
        columns: The columns of the sink, of each version.
        old: The old query.
        new: The new one.
        settings: Statements before each version.
        tables: A text of the tables' columns that is another in the new version.
        options: Arguments of evolve.
        releases: The releases that run it.
    """

    name: str
    outcome: str
    words: str
    columns: tuple[str, str]
    old: str
    new: str
    settings: tuple[str, str] = ("", "")
    tables: tuple[str, str] = ("", "")
    options: Mapping[str, Any] = field(default_factory=lambda: {"new_aggregates": "empty", "emitted": "keep"})
    releases: tuple[str, ...] = ("1.20", "2.3")


_N, _NN, _NNN = "g BIGINT, n BIGINT", "g BIGINT, n BIGINT, m BIGINT", "g BIGINT, n BIGINT, m BIGINT, o BIGINT"
_T, _TN = "g STRING, n BIGINT", "g STRING, n BIGINT, m BIGINT"
_BEGINS = "would begin without state"
_FOUND, _LOSES, _OTHERS = "finds its state by", "does not have all of its values", "would have emitted other results"
_BIGGER = ("quantity INT", "quantity BIGINT")
_SPLIT = "SET 'table.optimizer.distinct-agg.split.enabled' = 'true';\n"
_BATCHES = (
    "SET 'table.exec.mini-batch.enabled' = 'true';\nSET 'table.exec.mini-batch.allow-latency' = '50 ms';\n"
    "SET 'table.exec.mini-batch.size' = '10';\nSET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';\n"
)
_MULTI = "SET 'table.optimizer.multi-join.enabled' = 'true';\n"
_TTL = "SET 'table.exec.state.ttl' = '1 d';\n"
_EARLY = "SET 'table.exec.emit.early-fire.enabled' = 'true';\nSET 'table.exec.emit.early-fire.delay' = '0 ms';\n"
_BY = "SELECT {0}, {1} FROM {2} GROUP BY {0}"
_WINDOW = "TABLE({}(TABLE {}, DESCRIPTOR({}), {}))"
_MINUTE = _WINDOW.format("TUMBLE", "clicks", "ts", "INTERVAL '1' MINUTE")
_IN = "SELECT {0}, {1} FROM {2} GROUP BY {0}, window_start, window_end"
_FIVE, _THIRTY = (f"RANGE BETWEEN INTERVAL '{n}' SECOND PRECEDING AND CURRENT ROW" for n in (5, 30))
_ROWS_OF_OVER = "ROWS BETWEEN {} PRECEDING AND CURRENT ROW"
_ONE, _TWO, _THREE, _ALL = (_ROWS_OF_OVER.format(n) for n in (1, 2, 3, "UNBOUNDED"))
_RANKED = "SELECT {0} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {1} ORDER BY {2}) AS r FROM {3}) WHERE r <= {4}"
_TOP = ("id, customer, quantity", "customer")
_IN_SHORT_WINDOW = _RANKED.format(
    "id, customer, quantity",
    "window_start, window_end",
    "amount DESC",
    _MINUTE.replace("'1' MINUTE", "'20' SECOND"),
    "{}",
)
_IN_WINDOW = ("id, customer, quantity", "window_start, window_end, customer")
_INTERVAL = (
    "SELECT c.id, c.quantity, p.paid FROM clicks AS c {0} JOIN payments AS p ON {1} = p.id "
    "AND p.due BETWEEN c.ts - INTERVAL '{2}' SECOND AND c.ts + INTERVAL '{2}' SECOND"
)
_JOINED = "SELECT c.id, c.quantity, p.{} FROM clicks AS c {} JOIN people AS p ON {}"
_SAME_CUSTOMER = "c.customer = p.customer"
_TEMPORAL = (
    "SELECT c.id, c.quantity, r.rate FROM clicks AS c {} JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r ON {} = r.product"
)
_OF_WINDOWS = (
    "SELECT c.id, c.quantity, p.paid FROM (SELECT * FROM "
    + _WINDOW.format("TUMBLE", "clicks", "ts", "INTERVAL '10' SECOND") + ") c {} JOIN (SELECT * FROM "
    + _WINDOW.format("TUMBLE", "payments", "due", "INTERVAL '10' SECOND")
    + ") p ON {} = p.id AND c.window_start = p.window_start AND c.window_end = p.window_end"
)  # fmt: skip
_TOTALS = "(SELECT product, customer, SUM(quantity) AS total{} FROM clicks GROUP BY product, customer)"
_MATCH = (
    "SELECT customer, a, b FROM clicks MATCH_RECOGNIZE (PARTITION BY customer ORDER BY ts MEASURES FIRST(A.quantity) "
    "AS a, B.id AS b AFTER MATCH SKIP PAST LAST ROW PATTERN ({}) DEFINE A AS A.id > 0, B AS B.id > 1, C AS C.id > 8)"
)
_MANY = (
    "SELECT c.id, p.points, t.team FROM clicks AS c JOIN people AS p ON c.customer = p.customer "
    "JOIN teams AS t ON p.points = t.team"
)
_NEW = ("2.3",)


def _c(name: str, outcome: str, words: str, columns: str, old: str, new: str, **more: Any) -> Change:
    return Change(name, outcome, words, (columns, more.pop("to", columns)), old, new, **more)


def _same(name: str, outcome: str, words: str, columns: str, query: str, **more: Any) -> Change:
    return _c(name, outcome, words, columns, query, query, **more)


def _over(time: str, frame: str, *calls: str) -> str:
    made = ", ".join(f"{call} OVER w" for call in calls)
    return f"SELECT id, {made} FROM clicks WINDOW w AS (PARTITION BY customer ORDER BY {time} {frame})"


_AGGREGATES = (
    _c("new call", FAILS, "calls that the old query did not compute", _N, _BY.format("customer", "COUNT(*)", "clicks"),
        _BY.format("customer", "COUNT(*), SUM(quantity)", "clicks"), to=_NN, options={}),
    _c("new call over changes", FAILS, "rows from before may be taken back", _T,
        _BY.format("name", "COUNT(*)", "people"), _BY.format("name", "COUNT(*), SUM(points)", "people"), to=_TN),
    _c("another call instead", WRONG, _BEGINS, _N, _BY.format("customer", "SUM(id)", "clicks"),
        _BY.format("customer", "SUM(customer)", "clicks")),
    _c("new call of another kind", FAILS, _BEGINS, _N, _BY.format("customer", "COUNT(*)", "clicks"),
        _BY.format("customer", "COUNT(*), LISTAGG(note)", "clicks"), to="g BIGINT, n BIGINT, t STRING"),
    _c("result of old and new calls", FAILS, "is made of calls that go on and of new ones", "g BIGINT, x DOUBLE",
        _BY.format("customer", "SUM(mass)", "clicks"),
        _BY.format("customer", "SUM(mass), SUM(mass) / COUNT(note)", "clicks"), to="g BIGINT, x DOUBLE, y DOUBLE"),
    _c("one aggregate becomes two", FAILS, "is not divided between two", _NN,
        _BY.format("customer", "COUNT(*), SUM(id)", "clicks"),
        _BY.format("customer", "COUNT(*), CAST(0 AS BIGINT)", "clicks") + " UNION ALL "
        + _BY.format("customer", "CAST(0 AS BIGINT), SUM(id)", "clicks")),
    _c("two aggregates become one", FAILS, "do not become one", _NN,
        _BY.format("customer", "COUNT(*), CAST(0 AS BIGINT)", "clicks") + " UNION ALL "
        + _BY.format("customer", "CAST(0 AS BIGINT), SUM(id)", "clicks"),
        _BY.format("customer", "COUNT(*), SUM(id)", "clicks")),
    _c("calls with DISTINCT of one column", FAILS, "with DISTINCT of one column are others", _NN,
        _BY.format("customer", "COUNT(DISTINCT quantity), SUM(DISTINCT quantity)", "clicks"),
        _BY.format("customer", "COUNT(DISTINCT quantity)", "clicks"), to=_N),
    _same("DISTINCT of FLOAT as DOUBLE", FAILS, "with DISTINCT have columns of other types", _N,
        _BY.format("customer", "COUNT(DISTINCT weight)", "clicks"), tables=("weight FLOAT", "weight DOUBLE")),
    # Flink 1.20 writes 0.1 and 1E+1 for these, whatever their types are.
    _same("JSON of FLOAT as DOUBLE", WRONG, _BEGINS, "g BIGINT, t STRING",
        _BY.format("customer", "JSON_ARRAYAGG(weight)", "clicks"), tables=("weight FLOAT", "weight DOUBLE"),
        releases=_NEW),
    _same("JSON of more digits", WRONG, _BEGINS, "g BIGINT, t STRING",
        _BY.format("customer", "JSON_ARRAYAGG(amount)", "clicks"),
        tables=("amount DECIMAL(10, 2)", "amount DECIMAL(12, 4)"), releases=_NEW),
    _same("narrower column of a call", FAILS, _LOSES, "g BIGINT, n INT",
        _BY.format("customer", "MAX(quantity)", "clicks"), tables=("quantity INT", "quantity SMALLINT")),
    _same("FLOAT key as DOUBLE", FAILS, _FOUND, "g DOUBLE, n BIGINT", _BY.format("weight", "COUNT(*)", "clicks"),
        tables=("weight FLOAT", "weight DOUBLE")),
    _same("narrower key", FAILS, _FOUND, _N, _BY.format("quantity", "COUNT(*)", "clicks"),
        tables=("quantity INT", "quantity SMALLINT")),
    _c("other groups", WRONG, _BEGINS, _N, _BY.format("id", "COUNT(*)", "clicks"),
        _BY.format("customer", "COUNT(*)", "clicks")),
    _c("other rows", WRONG, _BEGINS, _N, _BY.format("customer", "COUNT(*)", "clicks WHERE quantity > 4"),
        _BY.format("customer", "COUNT(*)", "clicks WHERE quantity > 1")),
    _c("another FILTER", WRONG, _BEGINS, _N,
        _BY.format("customer", "COUNT(*) FILTER (WHERE quantity > 4)", "clicks"),
        _BY.format("customer", "COUNT(*) FILTER (WHERE quantity > 1)", "clicks")),
    _c("aggregate after one that goes on", WRONG, "takes back rows that", _N,
        _BY.format("customer", "COUNT(*)", "clicks"),
        f"SELECT n, COUNT(*) FROM ({_BY.format('customer', 'COUNT(*)', 'clicks')}) AS t (g, n) GROUP BY n",
        options={"empty": ["108_group-aggregate"]}),
    _c("longer windows", WRONG, _BEGINS, _N, _IN.format("customer", "SUM(quantity)", _MINUTE),
        _IN.format("customer", "SUM(quantity)", _MINUTE.replace("'1'", "'2'"))),
    _c("windows of another kind", FAILS, _BEGINS, _N, _IN.format("customer", "SUM(quantity)", _MINUTE),
        _IN.format("customer", "SUM(quantity)", _WINDOW.format("HOP", "clicks", "ts",
            "INTERVAL '30' SECOND, INTERVAL '1' MINUTE"))),
    _c("windows with results before their end", FAILS, "emits results of windows before their end", _N,
        _BY.format("customer", "COUNT(*)", "clicks") + ", TUMBLE(ts, INTERVAL '1' MINUTE)",
        _BY.format("customer", "COUNT(*), SUM(quantity)", "clicks") + ", TUMBLE(ts, INTERVAL '1' MINUTE)", to=_NN,
        settings=(_EARLY, _EARLY)),
)  # fmt: skip
_SPLIT_AGGREGATES = (
    _same("split over changes", FAILS, "not in mini-batches of two phases", _N,
        _BY.format("points", "COUNT(DISTINCT name)", "people"), settings=("", _SPLIT)),
    _same("split AVG over changes", FAILS, "keeps otherwise what both calls", _NN,
        _BY.format("city", "COUNT(DISTINCT points), AVG(DISTINCT points)", "people").replace("SELECT city",
            "SELECT CHARACTER_LENGTH(city)"), settings=(_BATCHES, _BATCHES + _SPLIT)),
    _c("split and other calls", FAILS, "is another aggregate, too", _N,
        _BY.format("customer", "COUNT(DISTINCT product)", "clicks"),
        _BY.format("customer", "COUNT(DISTINCT product), SUM(quantity)", "clicks"), to=_NN, settings=("", _SPLIT)),
    _same("split and a time to live", FAILS, "is another aggregate, too", _N,
        _BY.format("customer", "COUNT(DISTINCT product)", "clicks"), settings=("", _SPLIT + _TTL)),
    _same("split of a column of the key", WRONG, _BEGINS, _TN,
        _BY.format("product", "COUNT(DISTINCT product), COUNT(*)", "clicks"), settings=("", _SPLIT)),
    _same("split by a time of day", FAILS, "by hash codes of values whose type is", _N,
        _BY.format("customer", "COUNT(DISTINCT CAST(ts AS TIME))", "clicks"), settings=("", _SPLIT)),
    _same("split of FIRST_VALUE", FAILS, _BEGINS, "g BIGINT, n BIGINT, t STRING",
        _BY.format("customer", "COUNT(DISTINCT product), FIRST_VALUE(note)", "clicks"), settings=("", _SPLIT)),
    _same("split of a mean of FLOAT", FAILS, _BEGINS, "g BIGINT, n BIGINT, x FLOAT",
        _BY.format("customer", "COUNT(DISTINCT product), AVG(weight)", "clicks"), settings=("", _SPLIT)),
    _same("split in windows", FAILS, _BEGINS, _N, _IN.format("customer", "COUNT(DISTINCT product)", _MINUTE),
        settings=("", _SPLIT)),
)  # fmt: skip
_OF_OVER = (
    _c("one row more of OVER", STALE, _OTHERS, _N, _over("ts", _ONE, "SUM(quantity)"),
        _over("ts", _TWO, "SUM(quantity)"), options={}),
    _c("fewer rows of OVER", WRONG, "loses one row for each that comes", _N, _over("ts", _TWO, "SUM(quantity)"),
        _over("ts", _ONE, "SUM(quantity)")),
    _c("more rows of OVER", WRONG, "rows that are in this frame have left its state", _N,
        _over("ts", _ONE, "SUM(quantity)"), _over("ts", _THREE, "SUM(quantity)")),
    _c("fewer rows of OVER by PROCTIME()", WRONG, "loses one row for each that comes", _N,
        _over("proc", _TWO, "SUM(quantity)"), _over("proc", _ONE, "SUM(quantity)")),
    _c("longer time of OVER", WRONG, "have left its state", _N, _over("ts", _FIVE, "SUM(quantity)"),
        _over("ts", _THIRTY, "SUM(quantity)")),
    _c("shorter time of OVER", STALE, _OTHERS, _N, _over("ts", _THIRTY, "SUM(quantity)"),
        _over("ts", _FIVE, "SUM(quantity)"), options={}),
    _c("time of OVER instead of rows", WRONG, _BEGINS, _N, _over("ts", _ONE, "SUM(quantity)"),
        _over("ts", _THIRTY.replace("30", "50"), "SUM(quantity)")),
    _c("all rows of OVER", FAILS, _BEGINS, _N, _over("ts", _ONE, "SUM(quantity)"), _over("ts", _ALL, "SUM(quantity)")),
    _c("another order of OVER", FAILS, _BEGINS, _N, _over("ts", _ONE, "SUM(quantity)"),
        _over("proc", _ONE, "SUM(quantity)")),
    _c("least value of OVER", FAILS, _BEGINS, _N, _over("ts", _TWO, "COUNT(quantity)"),
        _over("ts", _TWO, "COUNT(quantity)", "MIN(quantity)"), to=_NN),
    _c("new call of OVER in a time of processing", FAILS, "rows from before leave the frame later", _N,
        _over("proc", _THIRTY, "COUNT(quantity)"), _over("proc", _THIRTY, "COUNT(quantity)", "SUM(id)"), to=_NN),
    _c("result of old and new calls of OVER", FAILS, "is made of calls that go on and of new ones", _N,
        _over("ts", _ALL, "COUNT(quantity)"), _over("ts", _ALL, "COUNT(quantity)", "SUM(quantity)"), to=_NN),
    _c("call of OVER over a column that is filled", FAILS, "which is filled in rows from before", _N,
        _over("ts", _TWO, "COUNT(quantity)"), _over("ts", _TWO, "COUNT(quantity)", "SUM(must)"), to=_NN,
        options={"new_aggregates": "empty", "fill": {"4_over-aggregate.must": "7"}}),
    _c("new call of OVER by a column", FAILS, "are computed again", _N, _over("mass", _ALL, "SUM(quantity)"),
        _over("mass", _ALL, "SUM(quantity)", "SUM(id)"), to=_NN, releases=_NEW),
)  # fmt: skip
_JOINS = (
    _c("join by another column", WRONG, _BEGINS, _NNN, _JOINED.format("points, c.customer", "", "c.id = p.customer"),
        _JOINED.format("points, c.customer", "", _SAME_CUSTOMER)),
    _c("join of another type", FAILS, _OTHERS, _NN, _JOINED.format("points", "LEFT", _SAME_CUSTOMER),
        _JOINED.format("points", "", _SAME_CUSTOMER), options={}),
    _c("join with another condition", STALE, _OTHERS, _NN, _JOINED.format("points", "", _SAME_CUSTOMER),
        _JOINED.format("points", "", _SAME_CUSTOMER + " AND c.quantity < p.points"), options={}),
    _c("outer join with another condition", WRONG, "had a partner by the condition that it was", _NN,
        _JOINED.format("points", "LEFT", _SAME_CUSTOMER),
        _JOINED.format("points", "LEFT", _SAME_CUSTOMER + " AND c.quantity < p.points")),
    _c("join with a condition over a new column", FAILS, "which its condition is over", _NN,
        _JOINED.format("points", "", _SAME_CUSTOMER),
        _JOINED.format("points", "", _SAME_CUSTOMER + " AND c.must < p.points")),
    _c("outer join with a condition that only Flink computes", FAILS, "only Flink knows", _NN,
        _JOINED.format("points", "", _SAME_CUSTOMER + " AND UPPER(c.note) < p.name"),
        _JOINED.format("points", "LEFT", _SAME_CUSTOMER + " AND UPPER(c.note) < p.name")),
    _c("fewer columns of rows without a key", FAILS, "several would become one", _NNN,
        "SELECT c.id, c.quantity, c.customer, p.paid FROM clicks AS c JOIN payments AS p ON c.id = p.id",
        "SELECT c.id, c.quantity, p.paid FROM clicks AS c JOIN payments AS p ON c.id = p.id", to=_NN),
    _c("more columns of rows without a key", FAILS, "takes back rows with their true", "g BIGINT, t STRING",
        "SELECT c.id, p.name FROM clicks AS c JOIN people AS p ON c.quantity = p.points",
        "SELECT c.id, p.name, p.city FROM clicks AS c JOIN people AS p ON c.quantity = p.points",
        to="g BIGINT, t STRING, u STRING"),
    _same("narrower column of a join", FAILS, _LOSES, _NN, _JOINED.format("points", "", _SAME_CUSTOMER),
        tables=("quantity INT", "quantity SMALLINT")),
    _c("column of a join that is never null", FAILS, "have no value of it", _NN,
        _JOINED.format("points", "", _SAME_CUSTOMER),
        _JOINED.format("points, c.must", "", _SAME_CUSTOMER), to=_NNN),
    _same("one join of many inputs", FAILS, _BEGINS, _NN, _MANY, settings=("", _MULTI), releases=_NEW),
    _same("wider key of a join of many inputs", FAILS, _FOUND, _NN, _MANY, tables=(" INT,", " BIGINT,"),
        settings=(_MULTI, _MULTI), releases=_NEW),
    _c("more time of an interval join", WRONG, "have left its state", _NN, _INTERVAL.format("", "c.id", 5),
        _INTERVAL.format("", "c.id", 30)),
    _c("less time of an interval join", STALE, _OTHERS, _NN, _INTERVAL.format("", "c.id", 30),
        _INTERVAL.format("", "c.id", 5), options={}),
    _c("outer interval join", WRONG, "does not say which rows of the right input had a partner", _NN,
        _INTERVAL.format("", "c.id", 5),
        _INTERVAL.format("RIGHT", "c.id", 5).replace("SELECT c.id", "SELECT p.id")),
    _c("inner interval join", STALE, _OTHERS, _NN, _INTERVAL.format("LEFT", "c.id", 5),
        _INTERVAL.format("", "c.id", 5), options={}),
    _c("interval join by another column", FAILS, _BEGINS, _NN, _INTERVAL.format("", "c.id", 30),
        _INTERVAL.format("", "c.customer", 30)),
    _c("temporal join of another type", STALE, _OTHERS, _NN, _TEMPORAL.format("", "c.product"),
        _TEMPORAL.format("LEFT", "c.product"), options={}),
    _c("temporal join by another column", FAILS, _BEGINS, _NN, _TEMPORAL.format("LEFT", "c.product"),
        _TEMPORAL.format("LEFT", "c.note")),
    _c("join of windows of another type", STALE, _OTHERS, _NN, _OF_WINDOWS.format("", "c.id"),
        _OF_WINDOWS.format("LEFT", "c.id"), options={}),
    _c("join of windows by another column", FAILS, _BEGINS, _NN, _OF_WINDOWS.format("", "c.id"),
        _OF_WINDOWS.format("", "c.customer")),
)  # fmt: skip
_RANKS = (
    _c("last row instead of the first", FAILS, "only the keys of first rows are kept", _NN,
        _RANKED.format(*_TOP, "proc ASC", "clicks", 1), _RANKED.format(*_TOP, "proc DESC", "clicks", 1)),
    _c("first row instead of the last", FAILS, _OTHERS, _NN, _RANKED.format(*_TOP, "proc DESC", "clicks", 1),
        _RANKED.format(*_TOP, "proc ASC", "clicks", 1), options={}),
    _c("last row by time instead of the first", WRONG, "only the keys of first rows", _NN,
        _RANKED.format(*_TOP, "ts ASC", "clicks", 1), _RANKED.format(*_TOP, "ts DESC", "clicks", 1), releases=_NEW),
    _c("row of another key", FAILS, _BEGINS, _NN, _RANKED.format(*_TOP, "proc DESC", "clicks", 1),
        _RANKED.format(_TOP[0], "quantity", "proc DESC", "clicks", 1)),
    _c("more rows of TopN", WRONG, "its state has no rows of rank 3", _NN,
        _RANKED.format(*_TOP, "amount DESC", "clicks", 2), _RANKED.format(*_TOP, "amount DESC", "clicks", 3)),
    _c("more rows than the first", WRONG, "its state has no rows of the ranks 2 to 3", _NN,
        _RANKED.format(*_TOP, "amount DESC", "clicks", 1), _RANKED.format(*_TOP, "amount DESC", "clicks", 3)),
    _c("more first rows", WRONG, "its state has no rows of rank 3", _NN,
        _RANKED.format(*_TOP, "proc ASC", "clicks", 2), _RANKED.format(*_TOP, "proc ASC", "clicks", 3)),
    _c("more of all rows", WRONG, "its state has no rows of rank 3", _NN,
        "SELECT id, customer, quantity FROM clicks ORDER BY amount LIMIT 2",
        "SELECT id, customer, quantity FROM clicks ORDER BY amount LIMIT 3"),
    _c("fewer rows of TopN", WRONG, _OTHERS, _NN, _RANKED.format(*_TOP, "amount DESC", "clicks", 3),
        _RANKED.format(*_TOP, "amount DESC", "clicks", 2), options={}),
    _c("fewer rows with a time to live", WRONG, "which of them have a rank depends on which have expired", _NN,
        _RANKED.format(*_TOP, "amount DESC", "clicks", 3), _RANKED.format(*_TOP, "amount DESC", "clicks", 2),
        settings=(_TTL, _TTL)),
    _c("other order of TopN", WRONG, _BEGINS, _NN, _RANKED.format(*_TOP, "amount DESC", "clicks", 2),
        _RANKED.format(*_TOP, "amount ASC", "clicks", 2)),
    _c("TopN of another key", FAILS, _BEGINS, _NN, _RANKED.format(*_TOP, "amount DESC", "clicks", 2),
        _RANKED.format(_TOP[0], "product", "amount DESC", "clicks", 2)),
    _same("wider order of TopN over changes", FAILS, _FOUND, _TN,
        _RANKED.format("product, customer, total", "product", "total ASC", _TOTALS.format(""), 2), tables=_BIGGER),
    _c("more columns of TopN over changes", FAILS, "takes back rows with their true", _TN,
        _RANKED.format("product, customer, total", "product", "total ASC", _TOTALS.format(""), 2),
        _RANKED.format("product, customer, total, n", "product", "total ASC", _TOTALS.format(", SUM(id) AS n"), 2),
        to="g STRING, n BIGINT, m BIGINT, o BIGINT"),
    _c("fewer rows of windows", STALE, _OTHERS, _NN, _IN_SHORT_WINDOW.format(2), _IN_SHORT_WINDOW.format(1),
        options={}),
    _c("more rows of windows", WRONG, "need not have rows of the ranks 3 to 4", _NN,
        _RANKED.format(*_IN_WINDOW, "amount ASC", _MINUTE, 2), _RANKED.format(*_IN_WINDOW, "amount ASC", _MINUTE, 4)),
    _c("first row of windows", WRONG, _BEGINS, _NN, _RANKED.format(*_IN_WINDOW, "ts DESC", _MINUTE, 1),
        _RANKED.format(*_IN_WINDOW, "ts ASC", _MINUTE, 1)),
)  # fmt: skip
_REST = (
    _same("another key of a sink", FAILS, _BEGINS, "name STRING, n BIGINT, m INT, PRIMARY KEY (name) NOT ENFORCED",
        "SELECT name, customer, points FROM people",
        to="name STRING, n BIGINT, m INT, PRIMARY KEY (m) NOT ENFORCED"),
    _c("filter of changes that only Flink computes", WRONG, "keeps fewer rows than before", "g BIGINT, t STRING",
        "SELECT customer, city FROM people", "SELECT customer, city FROM people WHERE UPPER(city) > 'K'",
        releases=_NEW),
    _c("another filter of changes", WRONG, _BEGINS, _N,
        "SELECT customer, points FROM people WHERE points > 6", "SELECT customer, points FROM people WHERE points > 4",
        releases=_NEW),
    _c("another pattern", FAILS, _BEGINS, _NN, _MATCH.format("A B+ C"), _MATCH.format("A B C")),
    _same("wider column of a pattern", FAILS, _BEGINS, _NN, _MATCH.format("A B+ C"), tables=_BIGGER),
)  # fmt: skip
PARTS: Mapping[str, tuple[Change, ...]] = {
    "Aggregates": _AGGREGATES,
    "DISTINCT that the planner splits": _SPLIT_AGGREGATES,
    "OVER": _OF_OVER,
    "Joins": _JOINS,
    "TopN, and the first or last row": _RANKS,
    "Other nodes": _REST,
}
CHANGES = tuple(change for part in PARTS.values() for change in part)


_WHY = {
    _BEGINS: "computes something else, or of other rows",
    _FOUND: "state is found by the bytes of this column",
    _LOSES: "not all values fit into the new type",
    _OTHERS: "emitted other results before: `--emitted keep` lets these be",
    "calls that the old query did not compute": "has not seen the rows before: `--new-aggregates empty` lets it begin",
    "rows from before may be taken back": "rows that it has never seen may be taken back",
    "is made of calls that go on and of new ones": "one part of the result would be of all rows, the other of some",
    "is not divided between two": "the state of an operator goes on in one",
    "do not become one": "the state of an operator comes from one",
    "with DISTINCT of one column are others": "what they have seen is kept for all of them together, by their numbers",
    "with DISTINCT have columns of other types": "0.1 as FLOAT is another number as DOUBLE",
    "takes back rows that": "results that it has never seen are taken back: both begin",
    "emits results of windows before their end": "what was emitted is kept with the columns of the old calls",
    "not in mini-batches of two phases": "of which bucket's rows sums are is not known",
    "keeps otherwise what both calls": "AVG becomes two calls, and what these have seen is kept otherwise",
    "is another aggregate, too": "two changes at once: write them one after another",
    "by hash codes of values whose type is": "hash codes of this type, by which Flink divides values, are not known",
    "loses one row for each that comes": "Flink would keep too many rows: each that comes replaces one",
    "have left its state": "rows of the longer time are gone",
    "rows that are in this frame have left its state": "rows of the longer frame are gone",
    "rows from before leave the frame later": "rows that it has never seen leave the frame",
    "which is filled in rows from before": "Flink would take back values that it has never added",
    "are computed again": "results of rows from before are computed again",
    "had a partner by the condition that it was": "numbers of partners are those of the old condition",
    "does not say which rows of the right input had a partner": "which rows had a partner is kept for outer sides only",
    "which its condition is over": "rows from before do not have the column",
    "only Flink knows": "which rows are partners, or stay, only Flink computes",
    "keeps fewer rows than before": "which rows stay only Flink computes",
    "several would become one": "rows are found by all of their columns, and several would become one",
    "takes back rows with their true": "rows are found by all of their columns, and those from before lack one",
    "have no value of it": "rows from before have no value: `--fill` gives one",
    "only the keys of first rows are kept": "only keys of first rows are kept, and no rows",
    "only the keys of first rows": "only keys of first rows that were emitted are kept, and no rows",
    "its state has no rows of rank 3": "rows beyond the last rank are gone",
    "its state has no rows of the ranks 2 to 3": "rows beyond the last rank are gone",
    "need not have rows of the ranks 3 to 4": "rows beyond the last rank may be gone",
    "which of them have a rank depends on which have expired": "which rows have expired is not known",
}
"""Words of an error → why a change is refused, for users."""
_IN_FLINK = {WRONG: "is wrong", STALE: "is right from then on", FAILS: "fails"}


def documented() -> str:
    """The kinds of changes as a table of docs/howto/change-a-query.md."""
    lines = ["| change | why it is refused | Flink without `evolve` |", "|---|---|---|"]
    for part, changes in PARTS.items():
        lines.append(f"| **{part}** | | |")
        lines += [f"| {one.name} | {_WHY[one.words]} | {_IN_FLINK[one.outcome]} |" for one in changes]
    return "\n".join(lines) + "\n"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return unpacked(ARCHIVE)


def recorded() -> Iterator[Recorded]:
    """Yield what was recorded."""
    yield from recorded_in(Path(_folder().name))


def run(release: str, changes: Sequence[Change], folder: Path) -> dict[str, str]:
    """Let Flink run changes, below a folder; return what came of each."""
    made = {change.name: partial(_scripts, change, release=release) for change in changes}
    jobs = run_changes(release, made, folder, _ROWS, {"before": slice(0, 1), "all": slice(0, 2)})
    return {f"{release}/{name}": outcome_of(job) for name, job in jobs.items()}


def outcome_of(job: EvolvingJob) -> str:
    """Return what came of a change whose job ran."""
    error = Path(job.path("new.error"))
    if error.exists():
        return error.read_text()
    old, before, new, whole = (job.changes(out).get("out", []) for out in ("old", "before", "new", "all"))
    if _rows(before, new) != _rows(whole):
        return WRONG
    return RIGHT if _rows(old, new) == _rows(whole) else STALE


def _rows(*changes: Sequence[str]) -> dict[str, int]:
    """The rows that are there after changes, and those that were taken back without ever being there, below zero."""
    found: Counter[str] = Counter()
    for change in (change for part in changes for change in part):
        found[change[2:]] += 1 if change[0] == "+" else -1
    return {row: number for row, number in found.items() if number}


def _scripts(change: Change, folder: Path, release: str) -> list[str]:
    made = []
    for at, query in enumerate((change.old, change.new)):
        tables = {
            name: (columns.replace(change.tables[0], change.tables[1]) if at and change.tables[0] else columns, mode)
            for name, (columns, mode) in _TABLES.items()
            if name in query
        }
        conflict = " ON CONFLICT DO DEDUPLICATE" if "KEY" in change.columns[at] and release != "1.20" else ""
        sinks = {"out": (change.columns[at], query + conflict)}
        made.append(change.settings[at] + script(folder, tables, sinks))
    return made


def main() -> None:
    releases, _, names = " ".join(sys.argv[1:]).partition("--only")
    only = [name.strip() for name in names.split(",") if name.strip()]
    folder = Path(tempfile.mkdtemp(prefix="refused-changes-"))
    outcomes: dict[str, str] = {}
    for release in releases.split():
        chosen = [one for one in CHANGES if release in one.releases and (not only or one.name in only)]
        outcomes |= run(release, chosen, folder)
    for key, outcome in outcomes.items():
        print(f"{key:<60} {outcome.splitlines()[-1][:150]}")
    if only:
        for key in outcomes:
            job = folder / key
            print(
                key,
                *(
                    f"{one}: {(job / one).read_text()}"
                    for one in ("old", "before", "new", "all")
                    if (job / one).exists()
                ),
                sep="\n",
            )
    else:
        write(outcomes, folder, ARCHIVE)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
