"""State of SQL jobs is filled from tables: real Flink goes on as if it had read the first half of the rows.

Statements of SQL, by DuckDB and by Spark, compute what each operator would have kept of the first rows, under the
columns of the plan. What the job prints of the other rows, together with what it prints of the first, is what it prints
of all.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, read_plan
from stateproc.query_plans.plan_matching import state_uid
from stateproc.query_plans.state_parts import ASSOCIATIONS, COUNT, NodeState
from stateproc.writers.bootstrap.plan_frames import frame_of
from tests.helpers.flink.evolving_job import EvolvingJob, Feed, script, table

pytestmark = pytest.mark.flink

FEEDS: dict[str, Feed] = {
    "orders": ("id BIGINT, customer BIGINT, product VARCHAR(9), amount DOUBLE", "append"),
    "payments": ("order_id BIGINT, payer STRING", "append"),
    "customers": ("customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
    "shops": ("shop BIGINT, city STRING, title STRING, PRIMARY KEY (shop) NOT ENFORCED", "upsert"),
    "offers": ("product STRING, id BIGINT, amount DOUBLE", "append"),
    "visits": ("customer BIGINT, id BIGINT, proc AS PROCTIME()", "append"),
    "pages": ("page STRING, customer BIGINT, proc AS PROCTIME()", "append"),
    "kinds": (
        "id BIGINT, tiny_one AS CAST(id AS TINYINT), small_one AS CAST(id AS SMALLINT), whole_one AS CAST(id AS INT), "
        "costs AS CAST(id AS DECIMAL(10,2)), digits AS CAST(id AS DECIMAL(30,2)), share AS CAST(id AS FLOAT), "
        "uneven AS MOD(id,2) = 1, born AS CAST('2024-01-0' || CAST(id AS STRING) AS DATE), "
        "met AS CAST('2024-01-0' || CAST(id AS STRING) AS TIMESTAMP(3)), "
        "known_since AS CAST('2024-01-0' || CAST(id AS STRING) AS TIMESTAMP(6))",
        "append",
    ),
    "clicks": ("product STRING, amount DOUBLE, customer BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", "append"),
    "bids": (
        "id BIGINT, product STRING, amount DOUBLE, customer BIGINT, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '1' HOUR",
        "append",
    ),
    "calls": ("customer BIGINT, id BIGINT, proc AS PROCTIME()", "append"),
    "rates": (
        "product STRING, rate DOUBLE, since TIMESTAMP(3), WATERMARK FOR since AS since - INTERVAL '1' HOUR, "
        "PRIMARY KEY (product) NOT ENFORCED",
        "upsert",
    ),
}
FIRST: dict[str, list[Any]] = {
    "orders": [
        (1, 1, "tea", 10.0), (2, 1, "mate", 4.5), (2, 1, "mate", 4.5), (3, 2, "tea", 20.0), (4, None, None, -1.0),
        (5, 7, "茶\0🍵", 0.0), (9, 2, None, None), (12, 8, "x", None),
    ],
    "payments": [(1, "card"), (3, "cash"), (3, "cash"), (8, "card")],
    "customers": [
        (1, "Ann", "Rome"), (2, "Bob", "Oslo"), (4, "Eve", "Rome"), (5, "Ann", "Rome"), (6, None, "Rome"),
        (9, "Zoë", None),
    ],
    "shops": [(1, "Rome", "Uno"), (2, "Rome", "Due"), (3, None, "?")],
    "offers": [("tea", 1, 2.0), ("tea", 2, 3.0), ("tea", 3, 1.0), (None, 4, -1.5)],
    "visits": [(1, 1), (1, 2), (2, 3), (None, 4)],
    "pages": [("/a", 1), ("/b", 2), (None, 3)],
    "kinds": [(1,), (2,), (2,), (None,)],
    "clicks": [
        ("tea", 10.0, 1, "2024-01-01T00:05:00"), ("tea", None, None, "2024-01-01T00:10:00"),
        (None, 0.5, 3, "2024-01-01T00:20:00"), ("é🍵", 0.25, 0, "2024-01-01T01:00:00"),
        ("tea", 4.0, 1, "2024-01-01T01:30:00"), ("tea", -0.0, 2, "2024-01-01T02:10:00"),
        (None, 7.0, 3, "2024-01-01T02:30:00"),
    ],
    # The watermark is 01:30.
    "bids": [
        (0, "early", 1.0, 2, "2024-01-01T00:00:01"), (1, "tea", 10.0, 1, "2024-01-01T00:05:00"),
        (2, "tea", None, None, "2024-01-01T00:10:00"), (3, "tea", 3.0, 3, "2024-01-01T00:10:00"),
        (4, None, 0.5, 3, "2024-01-01T00:20:00"), (5, "é🍵", 0.25, 0, "2024-01-01T01:00:00"),
        (6, "tea", 4.0, 1, "2024-01-01T01:00:00"), (7, "tea", 2.5, 7, "2024-01-01T01:30:00"),
        (8, "tea", -0.0, 2, "2024-01-01T02:10:00"), (9, None, 7.0, 3, "2024-01-01T02:30:00"),
        (10, "waits", 2.0, 2, "2024-01-01T01:30:00.001"), (11, "tea", 6.0, 4, "2024-01-01T02:10:00"),
    ],
    # By processing time rows are computed a millisecond later, which may be long on a busy machine.
    "calls": [(1, 1), (2, 3), (None, 4), "wait", "wait", "wait"],
    # Its watermark is 01:40; in the order of their times none comes late.
    "rates": [
        ("tea", 1.0, "2024-01-01T00:00:00"), ("early", 1.0, "2024-01-01T00:00:00"), ("é🍵", 3.0, "2024-01-01T00:30:00"),
        "-D\té🍵\t3.0\t2024-01-01T00:45:00", ("tea", 1.5, "2024-01-01T01:00:00"),
        ("waits", None, "2024-01-01T01:00:00"), ("tea", 1.75, "2024-01-01T01:30:00"),
        "-D\tearly\t1.0\t2024-01-01T01:30:00.001", ("tea", 2.0, "2024-01-01T02:00:00"),
        ("new", 9.0, "2024-01-01T02:40:00"),
    ],
}  # fmt: skip
SECOND: dict[str, list[Any]] = {
    "orders": [
        (6, 1, "tea", 15.0), (8, 3, "tea", 1.5), (2, 1, "mate", 4.5), (10, 9, None, 2.0), (11, 7, "茶\0🍵", 8.0),
        (13, 8, "x", 3.0), (14, None, "late", 1.0),
    ],
    "payments": [(2, "card"), (6, "cash"), (5, "card"), (3, "card")],
    "customers": [
        (3, "Cid", "Rome"), (2, "Bea", "Rome"), (7, "Dee", "Oslo"), (4, "Flo", "Oslo"), (5, "Uma", "Rome"),
        (1, "Abe", "Rome"),
    ],
    "shops": [(4, "Oslo", "Fire"), (2, "Oslo", "Due")],
    "offers": [("tea", 5, 2.5), ("tea", 6, 9.0), (None, 7, 1.0)],
    "visits": [(2, 8), (3, 10), (None, 11), (1, 12)],
    "pages": [("/a", 9), ("/c", 8), (None, 7)],
    "kinds": [(2,), (4,), (4,), (None,)],
    "clicks": [
        ("tea", 4.0, 2, "2024-01-01T02:40:00"), (None, None, 5, "2024-01-01T02:45:00"),
        ("é🍵", 2.0, None, "2024-01-01T02:59:59.999"), ("new", 1.5, 1, "2024-01-01T03:00:00"),
        ("tea", 1.0, 1, "2024-01-01T05:00:00"), ("last", 1.0, 1, "2024-01-09T00:00:00"),
    ],
    "bids": [
        (13, "tea", 2.0, 2, "2024-01-01T01:40:00"), (14, None, None, 5, "2024-01-01T02:10:00"),
        (15, "é🍵", 2.0, None, "2024-01-01T01:59:59.999"), (16, "early", 5.0, 3, "2024-01-01T01:30:00.001"),
        (17, "waits", None, 1, "2024-01-01T01:31:00"), (18, "new", 1.5, 1, "2024-01-01T03:00:00"),
        (19, "tea", 1.0, 1, "2024-01-01T02:10:00"), (20, "tea", 1.0, 1, "2024-01-01T05:00:00"),
        (21, "tea", 8.0, 6, "2024-01-01T05:30:00"), (22, "last", 1.0, 1, "2024-01-09T00:00:00"),
    ],
    "calls": [(1, 8), (3, 10), (None, 11), "wait", "wait", "wait"],
    "rates": [
        ("tea", 2.5, "2024-01-01T02:10:00"), ("tea", 3.0, "2024-01-01T05:00:00"),
        ("tea", 4.0, "2024-01-01T05:30:00.001"), ("last", 1.0, "2024-01-09T00:00:00"),
    ],
}  # fmt: skip
LOCAL = "SELECT customer, shop, title FROM customers AS c {} JOIN shops AS s ON c.city = s.city"
NUMBERED = "SELECT {0} FROM (SELECT {0}, ROW_NUMBER() OVER (PARTITION BY {1}) AS r FROM {2}) WHERE r <= {3}"
OF_CUSTOMERS = "(SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer)"


def distinct(name: str, columns: str) -> str:
    """The rows of a table, each once, with the number of their occurrences."""
    return f"SELECT {columns}, CAST(count(*) AS INT) AS {COUNT} FROM {name} GROUP BY {columns}"


def matched(rows: str, other: str, condition: str) -> str:
    """Rows with the number of their partners in another table."""
    number = f"SELECT count(*) FROM {other} AS other WHERE {condition}"
    return f"SELECT own.*, CAST(({number}) AS INT) AS {ASSOCIATIONS} FROM ({rows}) AS own"


OF_SIZES = f"(SELECT *, CAST(n AS STRING) AS word FROM {OF_CUSTOMERS})"
NAMES = "SELECT city, {list name by customer} AS name FROM customers WHERE name IS NOT NULL GROUP BY city"
ONCE = "(SELECT city, name, min(customer) AS customer, count(*) AS number FROM customers GROUP BY city, name)"
NAMES_ONCE = NAMES.replace("customers", ONCE)
KINDS = {
    "tiny_one": "CAST(id AS TINYINT)", "small_one": "CAST(id AS SMALLINT)", "whole_one": "CAST(id AS INT)",
    "costs": "CAST(id AS DECIMAL(10,2))", "digits": "CAST(id AS DECIMAL(30,2))", "share": "CAST(id AS FLOAT)",
    "uneven": "id % 2 = 1", "born": "CAST(concat('2024-01-0', CAST(id AS STRING)) AS DATE)",
    "met": "CAST(CASE WHEN id > 0 THEN concat('2024-01-0', CAST(id AS STRING)) END AS TIMESTAMP)",
    "known_since": "CAST(CASE WHEN id > 0 THEN concat('2024-01-0', CAST(id AS STRING)) END AS TIMESTAMP)",
}  # fmt: skip
"""The columns of kinds, as DuckDB and Spark compute them."""
KINDS["born"] = KINDS["met"].replace("TIMESTAMP", "DATE")


def seen(name: str, columns: str, *, counted: bool = False) -> str:
    """The values of the last column that DISTINCT has seen in each group, and how often each is there."""
    number = f", count(*) AS {COUNT}" if counted else ""
    return f"SELECT {columns}{number} FROM {name} GROUP BY {columns}"


OF_ORDERS = "(SELECT DISTINCT customer, product, CAST(id AS STRING) AS word FROM orders WHERE customer < 7)"
WINDOWS = {
    "TUMBLE": "TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    "HOP": "HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '3' HOUR)",
    "CUMULATE": "CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)",
}


def windowed(kind: str, calls: str, key: str = "product, ") -> str:
    columns = f"{key}window_start, window_end"
    return f"SELECT {columns}, {calls} FROM TABLE({WINDOWS[kind]}) GROUP BY {columns}"


HOUR = "date_trunc('hour', ts) + INTERVAL '1' HOUR"
EMITTED = "CASE WHEN ts < TIMESTAMP '2024-01-01 02:00:00' THEN TIMESTAMP '2024-01-01 01:00:00' ELSE {} END"
HALF_HOUR = "date_trunc('hour', ts) + CASE WHEN minute(ts) < 30 THEN INTERVAL '30' MINUTE ELSE INTERVAL '60' MINUTE END"
ENDS = {"TUMBLE": HOUR, "HOP": HOUR, "CUMULATE": EMITTED.format(HOUR), "HALF_HOUR": HALF_HOUR}
END = {"TUMBLE": "window_end", "HOP": "slice_end", "CUMULATE": "slice_end", "HALF_HOUR": "slice_end"}
WATERMARK = {"watermark": "SELECT max(ts) AS watermark FROM clicks"}


def sliced(kind: str, calls: str, key: str = "product, ") -> str:
    """Aggregates of the slices of windows, those of all windows that there ever were."""
    read = f"SELECT *, {ENDS[kind]} AS {END[kind]} FROM clicks"
    return f"SELECT {key}{END[kind]}{calls and ', '}{calls} FROM ({read}) GROUP BY {key}{END[kind]}"


def seen_in(kind: str, column: str) -> str:
    """The values of a column that DISTINCT has seen in each slice."""
    return sliced(kind, "", f"product, {column}, ")


OF_PRODUCT = "OVER (PARTITION BY product ORDER BY ts)"
OF_SESSION = "OVER (PARTITION BY product, session)"
SESSIONS = (
    f"(SELECT *, min(ts) {OF_SESSION} AS window_start, max(ts) {OF_SESSION} + INTERVAL '1' HOUR AS window_end FROM ("
    f"SELECT *, sum(begins) {OF_PRODUCT} AS session FROM (SELECT *, CASE WHEN ts > lag(ts) {OF_PRODUCT} + "
    "INTERVAL '1' HOUR THEN 1 ELSE 0 END AS begins FROM clicks)))"
)
"""Rows with the sessions that they are in."""
IN_SESSIONS = {
    "window-aggs": "SELECT product, window_start, window_end, sum(amount) AS total, count(DISTINCT customer) AS "
    f"people, count(*) AS n, max(amount) AS most FROM {SESSIONS} GROUP BY product, window_start, window_end",
    "distinctAcc_0": f"SELECT DISTINCT product, window_start, window_end, customer FROM {SESSIONS}",
    **WATERMARK,
}
OF_WINDOW = "product STRING, s TIMESTAMP(3), e TIMESTAMP(3), total DOUBLE, people BIGINT, n BIGINT, most DOUBLE"
CALLS = "SUM(amount) AS total, COUNT(DISTINCT customer) AS people, COUNT(*) AS n, MAX(amount) AS most"


def grouped(kind: str, sizes: str) -> str:
    """A query of windows as Flink had them before table functions."""
    window = f"{kind}(ts, {sizes})"
    shown = f"{window.replace('(', '_START(', 1)} AS s, {window.replace('(', '_END(', 1)} AS e"
    return f"SELECT product, {shown}, {CALLS} FROM clicks GROUP BY product, {window}"


OVER = "SELECT id, {} FROM bids WINDOW w AS (PARTITION BY product ORDER BY ts {})"
AS_THEY_COME = (
    "SELECT customer, SUM(id) OVER w, MAX(id) OVER w FROM {} WINDOW w AS (PARTITION BY customer ORDER BY proc {})"
)
SUMMED = "id BIGINT, n BIGINT, total DOUBLE, least BIGINT, l DOUBLE"
SUMS = "COUNT(*) OVER w, SUM(amount) OVER w, MIN(customer) OVER w, LAST_VALUE(amount) OVER w"
WAITS = "ts > TIMESTAMP '2024-01-01 01:30:00'"
DONE = f"(SELECT * FROM bids WHERE NOT {WAITS})"
LAGS = "LAG(customer, 2)", "LAG(customer, 2, CAST(70 AS BIGINT))", "LAG(product, 2, 'no')"
LAST_ROWS = "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY product ORDER BY ts DESC, id DESC) AS r " \
    f"FROM {DONE}) WHERE r <= {{}})"  # fmt: skip
TWO_ROWS = LAST_ROWS.format(2)
AN_HOUR = "(SELECT * FROM (SELECT *, max(ts) OVER (PARTITION BY product) AS l FROM " \
    f"{DONE}) WHERE ts >= l - INTERVAL '1' HOUR)"  # fmt: skip
LATEST = {"watermark": "SELECT max(ts) - INTERVAL '1' HOUR AS watermark FROM bids"}
MINUTE_AGO = int(time.time() * 1000) - 60_000


def of_bids(rows: str = "bids") -> dict[str, str]:
    """The rows of a frame, and those that wait, with the watermark."""
    own = "" if rows == "bids" else f"SELECT id, product, amount, customer, ts FROM {rows} UNION ALL "
    all_rows = f"({own}SELECT * FROM bids WHERE {WAITS})"
    return {"inputState": f"SELECT product, ts, {{bids}} AS rows FROM {all_rows} GROUP BY product, ts", **LATEST}


def of_calls(rows: str) -> dict[str, str]:
    """The rows of a frame by processing time, which came a minute ago, and its aggregates."""
    return {
        "inputState": f"SELECT customer, {{number {MINUTE_AGO}}} AS proc, {{calls}} AS rows FROM {rows} GROUP BY "
        "customer",
        "accState": "SELECT customer, count(id) AS count_id, CAST(sum(id) AS BIGINT) AS sum_id, max(id) AS max_id, "
        f"count(DISTINCT id) AS max_id_mapSize, count(*) AS row_count FROM {rows} GROUP BY customer",
        "agg2$map": seen(rows, "customer, id", counted=True),
    }


AS_OF = "SELECT b.id, r.product, r.rate FROM bids AS b {} JOIN rates FOR SYSTEM_TIME AS OF b.ts AS r ON {}"
VERSIONS = {
    "left": "SELECT *, row_number() OVER (PARTITION BY product ORDER BY id) - 1 AS index FROM bids",
    "right": "SELECT *, '+I' AS row_kind FROM rates UNION ALL SELECT 'é🍵', 3.0, TIMESTAMP '2024-01-01 00:45:00', '-D' "
    "UNION ALL SELECT 'early', 1.0, TIMESTAMP '2024-01-01 01:30:00.001', '-D'",
    **LATEST,
}
NEAR = "c.customer = b.customer AND b.ts BETWEEN c.ts - INTERVAL '1' HOUR AND c.ts + INTERVAL '30' MINUTE"
CALLED = "v.customer = p.customer AND p.proc BETWEEN v.proc - INTERVAL '1' HOUR AND v.proc + INTERVAL '1' HOUR"


def near(columns: str, by: str, side: str) -> str:
    """Rows of clicks or bids with whether rows of the other are near in time, as an interval join keeps them."""
    fields = ", ".join(f"{{field {name}}}" for name in (*columns.split(", "), "joined"))
    other, one = ("b", "id") if side == "c" else ("c", "ts")
    own = ", ".join(f"{side}.{name}" for name in columns.split(", "))
    ends = ("clicks AS c", "bids AS b")
    tables = " LEFT JOIN ".join(ends if side == "c" else ends[::-1])
    rows = f"SELECT {own}, max({other}.{one}) IS NOT NULL AS joined FROM {tables} ON {NEAR} GROUP BY {own}"
    kept = f"SELECT customer, ts, {by}, {{struct}}({fields}) AS row FROM ({rows}) AS r"
    return f"SELECT customer, ts, {{list row by {by}}} AS rows FROM ({kept}) AS k GROUP BY customer, ts"


def called(name: str, columns: str, by: str) -> str:
    """Rows of a table that came a minute ago, by customer; those of visits with whether pages were called."""
    fields = ", ".join(f"{{field {column}}}" for column in columns.split(", "))
    kept = f"SELECT customer, {by}, {{struct}}({fields}) AS row FROM {name}"
    rows = f"SELECT customer, {{number {MINUTE_AGO}}} AS proc, {{list row by {by}}} AS rows FROM ({kept}) AS k"
    return f"{rows} GROUP BY customer"


def in_frame(rows: str) -> dict[str, str]:
    """What an aggregate over the rows in a frame keeps."""
    last = "{last amount by id}"
    return {
        "accState": "SELECT product, count(*) AS count, count(amount) AS count_amount, sum(amount) AS sum_amount, "
        "min(customer) AS min_customer, count(DISTINCT customer) AS min_customer_mapSize, "
        f"{last} AS last_value_amount FROM {rows} GROUP BY product",
        "agg3$map": seen(rows, "product, customer", counted=True),
        "agg4$valueToOrderMap": seen(rows, "product, amount", counted=True),
        "agg4$orderToValueMap": f"SELECT product, {{list amount by id}} AS amount FROM {rows} WHERE amount IS NOT NULL "
        "GROUP BY product",
        **of_bids(rows),
    }


# Sink → its columns, the query, and what its operators keep: from the sink on, each a statement for every state. What
# normalizes changes keeps the rows of its table.
QUERIES: dict[str, tuple[str, str, list[dict[str, str]]]] = {
    "totals": (
        "product STRING, n BIGINT, total DOUBLE",
        "SELECT product, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY product",
        [{"accState": "SELECT product, count(*) AS n, sum(amount) AS total FROM orders GROUP BY product"}],
    ),
    "extremes": (
        "customer BIGINT, least DOUBLE, last STRING, mean DOUBLE, ids BIGINT",
        "SELECT customer, MIN(amount) AS least, MAX(product) AS last, AVG(amount) AS mean, AVG(id) AS ids "
        "FROM orders GROUP BY customer",
        [{
            "accState": "SELECT customer, min(amount) AS least, max(product) AS last, sum(amount) AS "
            "mean_sum, count(amount) AS mean_count, CAST(sum(id) AS BIGINT) AS ids_sum, count(id) AS ids_count "
            "FROM orders GROUP BY customer"
        }],
    ),
    "whole": (
        "n BIGINT, last BIGINT",
        "SELECT COUNT(*) AS n, MAX(id) AS last FROM orders",
        [{"accState": "SELECT count(*) AS n, max(id) AS last FROM orders"}],
    ),
    "pairs_of": (
        "product STRING, customer BIGINT",
        "SELECT DISTINCT product, customer FROM orders",
        [{"accState": "SELECT DISTINCT product, customer FROM orders"}],
    ),
    "large": (
        "product STRING, n BIGINT, total DOUBLE",
        "SELECT product, COUNT(*) FILTER (WHERE amount > 4) AS n, SUM(amount) FILTER (WHERE amount > 4) AS total "
        "FROM orders GROUP BY product",
        [{
            "accState": "SELECT product, count(CASE WHEN amount > 4 THEN 1 END) AS n, "
            "sum(CASE WHEN amount > 4 THEN amount END) AS total FROM orders GROUP BY product"
        }],
    ),
    "of_counts": (
        "n BIGINT, people BIGINT, total DOUBLE, mean DOUBLE",
        f"SELECT n, COUNT(*) AS people, SUM(total) AS total, AVG(total) AS mean FROM {OF_CUSTOMERS} GROUP BY n",
        [
            {
                "accState": "SELECT n, count(*) AS people, sum(total) AS total, count(total) AS "
                f"total_count, sum(total) AS mean_sum, count(total) AS mean_count FROM {OF_CUSTOMERS} "
                "GROUP BY n"
            },
            {"accState": f"SELECT * FROM {OF_CUSTOMERS}"},
        ],
    ),
    "of_rows": (
        "n BIGINT, total DOUBLE",
        f"SELECT n, SUM(total) AS total FROM {OF_CUSTOMERS} GROUP BY n",
        [
            {
                "accState": "SELECT n, sum(total) AS total, count(total) AS total_count, count(*) AS "
                f"row_count FROM {OF_CUSTOMERS} GROUP BY n"
            },
            {"accState": f"SELECT * FROM {OF_CUSTOMERS}"},
        ],
    ),
    "seen": (
        "product STRING, people BIGINT, total DOUBLE, amounts BIGINT, n BIGINT",
        "SELECT product, COUNT(DISTINCT customer) AS people, SUM(DISTINCT amount) AS total, "
        "COUNT(DISTINCT amount) AS amounts, COUNT(*) AS n FROM orders GROUP BY product",
        [{
            "accState": "SELECT product, count(DISTINCT customer) AS people, sum(DISTINCT amount) AS total, "
            "count(DISTINCT amount) AS amounts, count(*) AS n FROM orders GROUP BY product",
            "distinctAcc_0": seen("orders", "product, customer"),
            "distinctAcc_1": seen("orders", "product, amount"),
        }],
    ),
    "seen_large": (
        "product STRING, people BIGINT, mean DOUBLE",
        "SELECT product, COUNT(DISTINCT customer) FILTER (WHERE amount > 4) AS people, AVG(DISTINCT amount) AS mean "
        "FROM orders GROUP BY product",
        [{
            "accState": "SELECT product, count(DISTINCT CASE WHEN amount > 4 THEN customer END) AS people, "
            "sum(DISTINCT amount) AS mean_sum, count(DISTINCT amount) AS mean_count FROM orders GROUP BY product",
            "distinctAcc_0": seen("(SELECT * FROM orders WHERE amount > 4)", "product, customer"),
            "distinctAcc_1": seen("orders", "product, amount"),
        }],
    ),
    "seen_by_filters": (
        "product STRING, dear BIGINT, people BIGINT, cheap BIGINT, dear_ids BIGINT, cheap_ids BIGINT",
        "SELECT product, COUNT(DISTINCT customer) FILTER (WHERE amount > 4) AS dear, COUNT(DISTINCT customer) AS "
        "people, SUM(DISTINCT customer) FILTER (WHERE amount < 2) AS cheap, COUNT(DISTINCT id) FILTER (WHERE amount "
        "> 4) AS dear_ids, COUNT(DISTINCT id) FILTER (WHERE amount < 2) AS cheap_ids FROM orders GROUP BY product",
        [{
            "accState": "SELECT product, count(DISTINCT CASE WHEN amount > 4 THEN customer END) AS dear, "
            "count(DISTINCT customer) AS people, CAST(sum(DISTINCT CASE WHEN amount < 2 THEN customer END) AS BIGINT) "
            "AS cheap, "
            "count(DISTINCT CASE WHEN amount > 4 THEN id END) AS dear_ids, count(DISTINCT CASE WHEN amount < 2 THEN id "
            "END) AS cheap_ids FROM orders GROUP BY product",
            "distinctAcc_0": "SELECT product, customer, count(CASE WHEN amount > 4 THEN 1 END) AS dear, count(*) AS "
            "people, count(CASE WHEN amount < 2 THEN 1 END) AS cheap FROM orders GROUP BY product, customer",
            "distinctAcc_1": "SELECT product, id, count(CASE WHEN amount > 4 THEN 1 END) AS dear_ids, count(CASE WHEN "
            "amount < 2 THEN 1 END) AS cheap_ids FROM orders GROUP BY product, id",
        }],
    ),
    "seen_in_lists": (
        "customer BIGINT, products ARRAY<STRING>, kinds MULTISET<STRING>, words STRING, f STRING, l DOUBLE",
        "SELECT customer, ARRAY_AGG(DISTINCT product) AS products, COLLECT(DISTINCT product) AS kinds, "
        "LISTAGG(DISTINCT product) AS words, FIRST_VALUE(DISTINCT product) AS f, LAST_VALUE(DISTINCT amount) AS l "
        "FROM orders GROUP BY customer",
        [{
            "accState": "SELECT customer, {list product by id} AS products, CASE WHEN customer = 1 THEN 'tea,mate' "
            "ELSE min(product) END AS words, CAST(NULL AS STRING) AS words_delimiter, {first product by id} AS f, "
            "{last amount by id} AS l FROM (SELECT customer, product, min(id) AS id, min(amount) AS amount FROM orders "
            "GROUP BY customer, product) GROUP BY customer",
            "agg1$map": "SELECT DISTINCT customer, product, 1 AS count FROM orders",
            "distinctAcc_0": seen("orders", "customer, product"),
            "distinctAcc_1": seen("orders", "customer, amount"),
        }],
    ),
    "seen_in_changes": (
        "n BIGINT, totals BIGINT, sums DOUBLE, people BIGINT, ids BIGINT",
        "SELECT n, COUNT(DISTINCT total) FILTER (WHERE customer > 1) AS totals, SUM(DISTINCT total) AS sums, "
        f"COUNT(DISTINCT customer) AS people, SUM(DISTINCT customer) AS ids FROM {OF_CUSTOMERS} GROUP BY n",
        [
            {
                "accState": "SELECT n, count(DISTINCT CASE WHEN customer > 1 THEN total END) AS totals, sum(DISTINCT "
                "total) AS sums, count(DISTINCT total) AS sums_count, count(DISTINCT customer) AS people, "
                "CAST(sum(DISTINCT customer) AS BIGINT) AS ids, count(DISTINCT customer) AS ids_count, count(*) AS "
                f"row_count FROM {OF_CUSTOMERS} GROUP BY n",
                "distinctAcc_0": "SELECT n, total, count(CASE WHEN customer > 1 THEN 1 END) AS totals, count(*) AS "
                f"sums FROM {OF_CUSTOMERS} GROUP BY n, total",
                "distinctAcc_1": seen(OF_CUSTOMERS, "n, customer", counted=True),
            },
            {"accState": f"SELECT * FROM {OF_CUSTOMERS}"},
        ],
    ),
    "people_seen": (
        "city STRING, words STRING, every_one ARRAY<STRING>, kinds MULTISET<STRING>, f STRING, l STRING, least STRING, "
        "n BIGINT",
        "SELECT city, LISTAGG(DISTINCT name) AS words, ARRAY_AGG(DISTINCT name) AS every_one, COLLECT(DISTINCT name) "
        "AS kinds, FIRST_VALUE(DISTINCT name) AS f, LAST_VALUE(DISTINCT name) AS l, MIN(DISTINCT name) AS least, "
        "COUNT(*) AS n FROM customers GROUP BY city",
        [{
            "accState": "SELECT city, {list name by customer} AS every_one, {first name by customer} AS f, "
            "{last name by customer} AS l, min(name) AS least, count(name) AS least_mapSize, CAST(sum(number) AS "
            f"BIGINT) AS n FROM {ONCE} GROUP BY city",
            "agg0$list": NAMES_ONCE,
            "agg2$map": "SELECT DISTINCT city, name, 1 AS count FROM customers",
            "agg3$valueToOrderMap": "SELECT DISTINCT city, name, 1 AS count FROM customers",
            "agg3$orderToValueMap": NAMES_ONCE,
            "agg4$valueToOrderMap": "SELECT DISTINCT city, name, 1 AS count FROM customers",
            "agg4$orderToValueMap": NAMES_ONCE,
            "agg5$map": seen("customers", "city, name", counted=True),
            "distinctAcc_0": seen("customers", "city, name", counted=True),
        }],
    ),
    "seen_of_counts": (
        "n BIGINT, totals BIGINT, people BIGINT",
        f"SELECT n, COUNT(DISTINCT total) AS totals, SUM(DISTINCT customer) AS people FROM {OF_CUSTOMERS} GROUP BY n",
        [
            {
                "accState": "SELECT n, count(DISTINCT total) AS totals, CAST(sum(DISTINCT customer) AS BIGINT) AS "
                f"people, count(DISTINCT customer) AS people_count, count(*) AS row_count FROM {OF_CUSTOMERS} "
                "GROUP BY n",
                "distinctAcc_0": seen(OF_CUSTOMERS, "n, total", counted=True),
                "distinctAcc_1": seen(OF_CUSTOMERS, "n, customer", counted=True),
            },
            {"accState": f"SELECT * FROM {OF_CUSTOMERS}"},
        ],
    ),
    "seen_kinds": (
        ", ".join(f"{name} BIGINT" for name in KINDS),
        f"SELECT {', '.join(f'COUNT(DISTINCT {name}) AS {name}' for name in KINDS)} FROM kinds",
        [{
            "accState": f"SELECT {', '.join(f'count(DISTINCT {text}) AS {name}' for name, text in KINDS.items())} "
            "FROM kinds",
            **{
                f"distinctAcc_{at}": f"SELECT DISTINCT {text} AS {name} FROM kinds"
                for at, (name, text) in enumerate(KINDS.items())
            },
        }],
    ),
    "ends": (
        "customer BIGINT, f STRING, l DOUBLE, words STRING, ids STRING",
        "SELECT customer, FIRST_VALUE(product) AS f, LAST_VALUE(amount) AS l, LISTAGG(product) AS words, "
        "LISTAGG(CAST(customer AS STRING), '; ') AS ids FROM orders GROUP BY customer",
        [{
            "accState": "SELECT CAST(c AS BIGINT) AS customer, f, CAST(l AS DOUBLE) AS l, ',' AS words_delimiter, "
            "words, delimiter AS ids_delimiter, ids FROM (VALUES (1, 'tea', 4.5, 'tea,mate,mate', '; ', '1; 1; 1'), "
            "(2, 'tea', 20, 'tea', '; ', '2; 2'), (NULL, NULL, -1, NULL, NULL, NULL), (8, 'x', NULL, 'x', '; ', '8')) "
            "AS t (c, f, l, words, delimiter, ids) UNION ALL SELECT customer, min(product), min(amount), NULL, "
            "min(product), '; ', '7' FROM orders WHERE customer = 7 GROUP BY customer"
        }],
    ),
    "extremes_of_counts": (
        "n BIGINT, least DOUBLE, most DOUBLE, last BIGINT, sizes STRING, sizes_of STRING, "
        "all_sizes ARRAY<STRING>, kinds MULTISET<STRING>",
        "SELECT n, MIN(total) AS least, MAX(total) AS most, MAX(customer) AS last, LISTAGG(word) AS sizes, "
        "LISTAGG(word, '; ') AS sizes_of, ARRAY_AGG(word) AS all_sizes, COLLECT(word) AS kinds "
        f"FROM {OF_SIZES} GROUP BY n",
        [
            {
                "accState": "SELECT n, min(total) AS least, count(DISTINCT total) AS least_mapSize, max(total) AS "
                "most, count(DISTINCT total) AS most_mapSize, max(customer) AS last, count(DISTINCT customer) AS "
                "last_mapSize, '; ' AS sizes_of_delimiter, {list word by customer} AS all_sizes, count(*) AS row_count "
                f"FROM {OF_SIZES} GROUP BY n",
                "agg0$map": seen(OF_CUSTOMERS, "n, total", counted=True),
                "agg1$map": seen(OF_CUSTOMERS, "n, total", counted=True),
                "agg2$map": seen(OF_CUSTOMERS, "n, customer", counted=True),
                "agg3$list": f"SELECT n, {{list word by customer}} AS word FROM {OF_SIZES} GROUP BY n",
                "agg4$list": f"SELECT n, {{list word by customer}} AS word FROM {OF_SIZES} GROUP BY n",
                "agg6$map": seen(OF_SIZES, "n, word", counted=True),
            },
            {"accState": f"SELECT * FROM {OF_CUSTOMERS}"},
        ],
    ),
    "cities": (
        "city STRING, least STRING, most STRING, n BIGINT",
        "SELECT city, MIN(name) AS least, MAX(name) AS most, COUNT(*) AS n FROM customers GROUP BY city",
        [{
            "accState": "SELECT city, min(name) AS least, count(DISTINCT name) AS least_mapSize, max(name) AS most, "
            "count(DISTINCT name) AS most_mapSize, count(*) AS n FROM customers GROUP BY city",
            "agg0$map": seen("customers", "city, name", counted=True),
            "agg1$map": seen("customers", "city, name", counted=True),
        }],
    ),
    "people": (
        "city STRING, f STRING, l STRING, words STRING, names STRING, every_one ARRAY<STRING>",
        "SELECT city, FIRST_VALUE(name) AS f, LAST_VALUE(name) AS l, LISTAGG(name) AS words, LISTAGG(name, '; ') AS "
        "names, ARRAY_AGG(name) AS every_one FROM customers GROUP BY city",
        [{
            "accState": "SELECT city, {first name by customer} AS f, {last name by customer} AS l, '; ' AS "
            "names_delimiter, {list name by customer} AS every_one, count(*) AS row_count FROM customers GROUP BY city",
            "agg0$valueToOrderMap": seen("customers", "city, name", counted=True),
            "agg0$orderToValueMap": NAMES,
            "agg1$valueToOrderMap": seen("customers", "city, name", counted=True),
            "agg1$orderToValueMap": NAMES,
            "agg2$list": NAMES,
            "agg3$list": NAMES,
        }],
    ),
    "gathered": (
        "customer BIGINT, amounts ARRAY<DOUBLE>, kinds MULTISET<STRING>, same MULTISET<BIGINT>",
        "SELECT customer, ARRAY_AGG(amount) AS amounts, COLLECT(product) AS kinds, "
        "COLLECT(customer) AS same FROM orders GROUP BY customer",
        [{
            "accState": "SELECT customer, {list amount by id} AS amounts FROM orders GROUP BY customer",
            "agg1$map": seen("orders", "customer, product", counted=True),
            "agg2$map": "SELECT customer, count(*) AS count FROM orders GROUP BY customer",
        }],
    ),
    "json": (
        "customer BIGINT, ids STRING, others STRING, kinds STRING, known STRING",
        "SELECT customer, JSON_ARRAYAGG(product NULL ON NULL) AS ids, JSON_ARRAYAGG(product) AS others, "
        "JSON_OBJECTAGG(KEY word VALUE product) AS kinds, JSON_OBJECTAGG(KEY word VALUE product ABSENT ON NULL) AS "
        f"known FROM {OF_ORDERS} GROUP BY customer",
        [
            {
                "accState": f"SELECT customer, count(*) AS row_count FROM {OF_ORDERS} GROUP BY customer",
                "agg0$list": "SELECT customer, {list json by word} AS ids FROM (SELECT customer, word, COALESCE('\"' "
                f"|| product || '\"', 'null') AS json FROM {OF_ORDERS}) GROUP BY customer",
                "agg1$list": "SELECT customer, {list json by word} AS others FROM (SELECT customer, word, '\"' || "
                f"product || '\"' AS json FROM {OF_ORDERS} WHERE product IS NOT NULL) GROUP BY customer",
                "agg2$map": f"SELECT customer, word, '\"' || product || '\"' AS kinds FROM {OF_ORDERS}",
                "agg3$map": f"SELECT customer, word, '\"' || product || '\"' AS known FROM {OF_ORDERS}",
            },
            {"accState": f"SELECT * FROM {OF_ORDERS}"},
        ],
    ),
    "hours": (
        "product STRING, s TIMESTAMP(3), e TIMESTAMP(3), total DOUBLE, people BIGINT, n BIGINT, most DOUBLE",
        windowed(
            "TUMBLE", "SUM(amount) AS total, COUNT(DISTINCT customer) AS people, COUNT(*) AS n, MAX(amount) AS most"
        ),
        [{
            "window-aggs": sliced(
                "TUMBLE",
                "sum(amount) AS total, count(DISTINCT customer) AS people, count(*) AS n, max(amount) AS most",
            ),
            "distinctAcc_0": seen_in("TUMBLE", "customer"),
            **WATERMARK,
        }],
    ),
    "hops": (
        "product STRING, s TIMESTAMP(3), e TIMESTAMP(3), total DOUBLE, people BIGINT",
        windowed("HOP", "SUM(amount) AS total, COUNT(DISTINCT customer) AS people"),
        [{
            "window-aggs": sliced(
                "HOP", "sum(amount) AS total, count(DISTINCT customer) AS people, count(*) AS row_count"
            ),
            "distinctAcc_0": seen_in("HOP", "customer"),
            **WATERMARK,
        }],
    ),
    "days": (
        "product STRING, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, least DOUBLE, people BIGINT",
        windowed("CUMULATE", "COUNT(*) AS n, MIN(amount) AS least, COUNT(DISTINCT customer) AS people"),
        [{
            "window-aggs": sliced(
                "CUMULATE", "count(*) AS n, min(amount) AS least, count(DISTINCT customer) AS people"
            ),
            "distinctAcc_0": seen_in("CUMULATE", "customer"),
            **WATERMARK,
        }],
    ),
    "hours_of_all": (
        "s TIMESTAMP(3), e TIMESTAMP(3), mean DOUBLE, n BIGINT",
        windowed("TUMBLE", "AVG(amount) AS mean, COUNT(amount) AS n", ""),
        [{
            "window-aggs": sliced(
                "TUMBLE", "sum(amount) AS mean_sum, count(amount) AS mean_count, count(amount) AS n", ""
            ),
            **WATERMARK,
        }],
    ),
    "hops_of_all": (
        "s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT",
        windowed("HOP", "COUNT(*) AS n", ""),
        [{"window-aggs": sliced("HOP", "count(*) AS n", ""), **WATERMARK}],
    ),
    "sessions": (
        OF_WINDOW,
        f"SELECT product, window_start, window_end, {CALLS} FROM TABLE(SESSION(TABLE clicks PARTITION BY product, "
        "DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY product, window_start, window_end",
        [IN_SESSIONS],
    ),
    "grouped_sessions": (OF_WINDOW, grouped("SESSION", "INTERVAL '1' HOUR"), [IN_SESSIONS]),
    "grouped_hours": (
        OF_WINDOW,
        grouped("TUMBLE", "INTERVAL '1' HOUR"),
        [{
            "window-aggs": sliced("TUMBLE", CALLS),
            "distinctAcc_0": seen_in("TUMBLE", "customer"),
            **WATERMARK,
        }],
    ),
    "grouped_hops": (
        OF_WINDOW,
        grouped("HOP", "INTERVAL '1' HOUR, INTERVAL '90' MINUTE"),
        [{
            "window-aggs": sliced("HALF_HOUR", CALLS),
            "distinctAcc_0": seen_in("HALF_HOUR", "customer"),
            **WATERMARK,
        }],
    ),
    "running": (
        f"{SUMMED}, words STRING",
        OVER.format(f"{SUMS}, LISTAGG(product) OVER w", "RANGE UNBOUNDED PRECEDING"),
        [{
            "accState": "SELECT product, NULL AS listagg_product_delimiter, substr(repeat(',' || product, "
            "CAST(count(product) AS INT)), 2) AS listagg_product, count(*) AS count, count(amount) AS count_amount, "
            "sum(amount) AS sum_amount, min(customer) AS min_customer, {last amount by id} AS last_value_amount "
            f"FROM {DONE} GROUP BY product",
            **of_bids(),
        }],
    ),
    "numbered": (
        "id BIGINT, n BIGINT",
        OVER.format("ROW_NUMBER() OVER w", ""),
        [{"accState": f"SELECT product, count(*) AS row_number FROM {DONE} GROUP BY product", **of_bids()}],
    ),
    "earlier": (
        "id BIGINT, a BIGINT, b BIGINT, p STRING",
        OVER.format(f"{LAGS[0]} OVER w, {LAGS[1]} OVER w, {LAGS[2]} OVER w", ""),
        [{
            "accState": "SELECT product, {list customer by id} AS lag_customer_constant_0, {list customer by id} AS "
            "lag_customer_constant_0_constant_1, {list product by id} AS lag_product_constant_0_constant_2 FROM "
            f"{LAST_ROWS.format(3)} GROUP BY product",
            **of_bids(),
        }],
    ),
    "different": (
        "id BIGINT, people BIGINT, total DOUBLE",
        OVER.format("COUNT(DISTINCT customer) OVER w, SUM(DISTINCT amount) OVER w", "ROWS UNBOUNDED PRECEDING"),
        [{
            "accState": "SELECT product, count(DISTINCT customer) AS count_customer, count(DISTINCT amount) AS "
            f"count_amount, sum(DISTINCT amount) AS sum_amount FROM {DONE} GROUP BY product",
            "distinctAcc_0": seen(DONE, "product, customer"),
            "distinctAcc_1": seen(DONE, "product, amount"),
            **of_bids(),
        }],
    ),
    "rows": (SUMMED, OVER.format(SUMS, "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"), [in_frame(TWO_ROWS)]),
    "hour": (
        SUMMED, OVER.format(SUMS, "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"), [in_frame(AN_HOUR)],
    ),
    "different_rows": (
        "id BIGINT, people BIGINT, words STRING",
        OVER.format(
            "COUNT(DISTINCT customer) OVER w, LISTAGG(product) OVER w", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
        ),
        [{
            "accState": "SELECT product, count(DISTINCT customer) AS count_customer, count(*) AS row_count FROM "
            f"{TWO_ROWS} GROUP BY product",
            "distinctAcc_0": seen(TWO_ROWS, "product, customer", counted=True),
            "agg1$list": f"SELECT product, {{list product by id}} AS product_1 FROM {TWO_ROWS} WHERE product IS NOT "
            "NULL GROUP BY product",
            **of_bids(TWO_ROWS),
        }],
    ),
    "of_all": (
        "id BIGINT, n BIGINT",
        "SELECT id, COUNT(amount) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM bids",
        [{
            "accState": "SELECT 2 AS count_amount, 2 AS row_count",
            "inputState": f"SELECT ts, {{bids}} AS rows FROM bids WHERE id IN (6, 7) OR {WAITS} "
            "GROUP BY ts",
            **LATEST,
        }],
    ),
    "ever": (
        "customer BIGINT, total BIGINT, most BIGINT",
        AS_THEY_COME.format("visits", "RANGE UNBOUNDED PRECEDING"),
        [{
            "accState": "SELECT customer, count(id) AS count_id, CAST(sum(id) AS BIGINT) AS sum_id, max(id) AS max_id "
            "FROM visits GROUP BY customer"
        }],
    ),
    "two_visits": (
        "customer BIGINT, total BIGINT, most BIGINT",
        AS_THEY_COME.format("visits", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
        [of_calls("visits")],
    ),
    "recent": (
        "customer BIGINT, total BIGINT, most BIGINT",
        AS_THEY_COME.format("calls", "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"),
        [of_calls("calls")],
    ),
    "means": (
        "costs DECIMAL(38, 6), digits DECIMAL(38, 6), share FLOAT, whole INT",
        "SELECT AVG(costs) AS costs, AVG(DISTINCT digits) AS digits, AVG(share) AS share, AVG(whole_one) AS whole "
        "FROM kinds",
        [{
            "accState": f"SELECT sum({KINDS['costs']}) AS costs_sum, count(id) AS costs_count, sum(DISTINCT "
            f"{KINDS['digits']}) AS digits_sum, count(DISTINCT id) AS digits_count, sum(id) AS share_sum, count(id) AS "
            "share_count, CAST(sum(id) AS BIGINT) AS whole_sum, count(id) AS whole_count FROM kinds",
            "distinctAcc_0": f"SELECT DISTINCT {KINDS['digits']} AS digits FROM kinds",
        }],
    ),
    # The planner makes $SUM0 of a sum without null where it drops calls over the keys.
    "ids_of_cities": (
        "city STRING, same STRING, ids BIGINT, all_ids BIGINT, n BIGINT",
        "SELECT city, MIN(city) AS same, SUM(customer) AS ids, SUM(DISTINCT customer) AS all_ids, COUNT(*) AS n FROM "
        "customers GROUP BY city",
        [{
            "accState": "SELECT city, CAST(sum(customer) AS BIGINT) AS ids, CAST(sum(customer) AS BIGINT) AS all_ids, "
            "count(*) AS n FROM customers GROUP BY city",
            "distinctAcc_0": seen("customers", "city, customer", counted=True),
        }],
    ),
    "near": (
        "product STRING, id BIGINT",
        f"SELECT c.product, b.id FROM clicks AS c FULL JOIN bids AS b ON {NEAR}",
        [{
            "IntervalJoinLeftCache": near("product, customer, ts", "ts", "c"),
            "IntervalJoinRightCache": near("id, customer, ts", "id", "b"),
            **LATEST,
        }],
    ),
    "called": (
        "page STRING, id BIGINT",
        f"SELECT p.page, v.id FROM visits AS v LEFT JOIN pages AS p ON {CALLED}",
        [{
            "IntervalJoinLeftCache": called("(SELECT *, customer < 3 AND customer IS NOT NULL AS joined FROM visits)",
                                            "customer, id, joined", "id"),
            "IntervalJoinRightCache": called("pages", "page, customer", "page"),
        }],
    ),
    "priced": (
        "id BIGINT, product STRING, rate DOUBLE",
        AS_OF.format("LEFT", "b.product = r.product"),
        [VERSIONS],
    ),
    "dear": (
        "id BIGINT, product STRING, rate DOUBLE",
        AS_OF.format("", "b.product = r.product AND b.amount > r.rate"),
        [VERSIONS],
    ),
    "buyers": (
        "name STRING, id BIGINT",
        "SELECT c.name, o.id FROM customers AS c RIGHT JOIN orders AS o ON c.customer = o.customer",
        [{
            "left-records": "SELECT customer, name FROM customers",
            "right-records": matched(distinct("orders", "id, customer"), "customers", "own.customer = other.customer"),
        }],
    ),
    "paid": (
        "id BIGINT, payer STRING",
        "SELECT id, payer FROM orders AS o JOIN payments AS p ON o.id = p.order_id",
        [{"left-records": distinct("orders", "id"), "right-records": distinct("payments", "order_id, payer")}],
    ),
    "pairs": (
        "id BIGINT, payer STRING",
        "SELECT id, payer FROM orders AS o FULL JOIN payments AS p ON o.id = p.order_id",
        [{
            "left-records": matched(distinct("orders", "id"), "payments", "id = order_id"),
            "right-records": matched(distinct("payments", "order_id, payer"), "orders", "id = order_id"),
        }],
    ),
    "in": (
        "id BIGINT",
        "SELECT id FROM orders AS o WHERE id IN (SELECT order_id FROM payments)",
        [{
            "left-records": matched(distinct("orders", "id"), "payments", "id = order_id"),
            "right-records": distinct("payments", "order_id"),
        }],
    ),
    "without": (
        "id BIGINT, amount DOUBLE",
        "SELECT id, amount FROM orders AS o WHERE NOT EXISTS (SELECT 1 FROM payments AS p WHERE p.order_id = o.id)",
        [{
            "left-records": matched(distinct("orders", "id, amount"), "payments", "id = order_id"),
            "right-records": distinct("payments", "order_id"),
        }],
    ),
    "named": (
        "id BIGINT, name STRING",
        "SELECT id, name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.customer",
        [{
            "left-records": matched(distinct("orders", "id, customer"), "customers", "own.customer = other.customer"),
            "right-records": "SELECT * FROM customers",
        }],
    ),
    "local": (
        "customer BIGINT, shop BIGINT, title STRING",
        LOCAL.format(""),
        [{"left-records": "SELECT * FROM customers", "right-records": "SELECT * FROM shops"}],
    ),
    "outer": (
        "customer BIGINT, shop BIGINT, title STRING",
        LOCAL.format("LEFT"),
        [{
            "left-records": matched("SELECT * FROM customers", "shops", "own.city = other.city"),
            "right-records": "SELECT * FROM shops",
        }],
    ),
    "top": (
        "product STRING, id BIGINT, amount DOUBLE",
        NUMBERED.format("product, id, amount", "product ORDER BY amount DESC", "offers", 3),
        [{"data-state-with-append": "SELECT product, amount, {rows} AS rows FROM offers"}],
    ),
    "best": (
        "product STRING, id BIGINT, amount DOUBLE",
        NUMBERED.format("product, id, amount", "product ORDER BY amount DESC", "offers", 1),
        [{
            "Top1-Rank-State": "SELECT product, id, amount FROM (SELECT *, row_number() OVER (PARTITION BY product "
            "ORDER BY amount DESC) AS r FROM offers) WHERE r = 1"
        }],
    ),
    "lowest": (
        "product STRING, amount DOUBLE",
        "SELECT product, amount FROM offers ORDER BY amount LIMIT 3",
        [{
            "data-state-with-append": "SELECT amount, {rows} AS rows FROM offers ORDER BY amount LIMIT 3",
        }],
    ),
    "last": (
        "customer BIGINT, id BIGINT",
        NUMBERED.format("customer, id", "customer ORDER BY proc DESC", "visits", 1),
        [{"deduplicate-state": "SELECT customer, max(id) AS id FROM visits GROUP BY customer"}],
    ),
    "first": (
        "page STRING, customer BIGINT",
        NUMBERED.format("page, customer", "page ORDER BY proc ASC", "pages", 1),
        [{"deduplicate-state": "SELECT DISTINCT page FROM pages"}],
    ),
    "by_name": (
        "name STRING NOT NULL, customer BIGINT, city STRING, PRIMARY KEY (name) NOT ENFORCED",
        "SELECT COALESCE(name, '-') AS name, customer, city FROM customers",
        [{
            "values": "SELECT name, {list row by customer} AS rows FROM (SELECT *, {struct}({field name}, "
            "{field customer}, {field city}) AS row FROM (SELECT COALESCE(name, '-') AS name, customer, city "
            "FROM customers)) GROUP BY name"
        }],
    ),
    "by_id": (
        "id BIGINT NOT NULL, payer STRING, PRIMARY KEY (id) NOT ENFORCED",
        "SELECT id, payer FROM orders AS o LEFT JOIN payments AS p ON o.id = p.order_id AND p.order_id <> 3",
        [
            {
                "values": "SELECT id, {list row by id} AS rows FROM (SELECT id, {struct}({field id}, {field payer}) AS "
                "row FROM orders AS o LEFT JOIN payments AS p ON o.id = p.order_id AND p.order_id <> 3) GROUP BY id"
            },
            {
                "left-records": matched(distinct("orders", "id"), "payments", "id = order_id AND id <> 3"),
                "right-records": distinct("(SELECT * FROM payments WHERE order_id <> 3)", "order_id, payer"),
            },
        ],
    ),
}  # fmt: skip
UNORDERED = ("json",)
"""Queries with objects of JSON, whose names come in the order of a map."""
BY_KEY = ("by_name", "by_id")
"""Queries whose sinks have a primary key that is no key of the rows: each row replaces the one before."""
ENGINES = {
    "duckdb": {
        r"\{rows\}": "[struct_pack(product := product, id := id, amount := amount)]",
        r"\{bids\}": "list(struct_pack(ts := ts, id := id, product := product, amount := amount, customer := customer) "
        "ORDER BY id)",
        r"\{calls\}": "list(struct_pack(customer := customer, id := id) ORDER BY id)",
        r"\{number (\d+)\}": r"\1",
        r"\{list (\w+) by (\w+)\}": r"list(\1 ORDER BY \2)",
        r"\{struct\}": "struct_pack",
        r"\{field (\w+)\}": r"\1 := \1",
        r"\{first (\w+) by (\w+)\}": r"arg_min(\1, \2)",
        r"\{last (\w+) by (\w+)\}": r"arg_max(\1, \2)",
    },
    "spark": {
        r"\{rows\}": "array(named_struct('id', id, 'amount', amount, 'product', product))",
        r"\{bids\}": "array_sort(collect_list(named_struct('id', id, 'product', product, 'amount', amount, 'customer', "
        "customer, 'ts', ts)))",
        r"\{calls\}": "array_sort(collect_list(named_struct('id', id, 'customer', customer)))",
        r"\{number (\d+)\}": r"\1L",
        r"\{list (\w+) by (\w+)\}": r"transform(array_sort(collect_list(named_struct('k', \2, 'v', \1))), x -> x.v)",
        r"\{struct\}": "named_struct",
        r"\{field (\w+)\}": r"'\1', \1",
        r"\{first (\w+) by (\w+)\}": r"min_by(\1, CASE WHEN \1 IS NOT NULL THEN \2 END)",
        r"\{last (\w+) by (\w+)\}": r"max_by(\1, CASE WHEN \1 IS NOT NULL THEN \2 END)",
    },
}
"""How an array with one row is written, one of the values of a column in an order, a row with fields of these columns,
the first and the last value of a column."""


BY_CLOCK = {
    "recent": ["+I[1, 1, 1]", "+I[2, 3, 3]", "+I[null, 4, 4]", "+I[1, 9, 8]", "+I[3, 10, 10]", "+I[null, 15, 11]"]
}
"""What queries return whose results are of all rows that come in one millisecond, if those of a key do not."""
IN_ORDER = ("people", "people_seen", "json")
"""Queries whose results depend on the order of changes, which bundles of mini-batches do not keep."""


def asked(setting: str) -> dict[str, tuple[str, str, list[dict[str, str]]]]:
    """The queries of a job, by its settings or its script."""
    return {name: query for name, query in QUERIES.items() if name not in IN_ORDER or "mini-batch" not in setting}


def stateful(plan: CompiledPlan, query: str) -> Iterator[PlanNode]:
    """The nodes of a query whose state is filled, from its sink on, left inputs first."""
    waiting = [one for one in plan.nodes if f"`{query}_out`" in str(one.at("dynamicTableSink", "table", "identifier"))]
    assert waiting
    for node in waiting:
        waiting += node.sources
        try:
            node_states(plan, state_uid(plan, node))
        except Exception as error:
            assert "its states are not filled" in str(error) or "no operator" in str(error), error
            continue
        yield node


def statements(plan: CompiledPlan, setting: str) -> dict[str, dict[str, str]]:
    """Uid → state → the statement that computes its rows."""
    found: dict[str, dict[str, str]] = {}
    for query, (_, _, texts) in asked(setting).items():
        left = list(texts)
        for node in stateful(plan, query):
            uid = state_uid(plan, node)
            if node.kind.endswith("changelog-normalize"):
                found[uid] = {"deduplicate-state": f"SELECT * FROM {_scanned(node)}"}
            elif left:
                found.setdefault(uid, left[0])
                left = left[1:]
        assert not left, (query, [node.label for node in stateful(plan, query)])
    return found


def _scanned(node: PlanNode) -> str:
    while node.sources:
        (node,) = node.sources
    return str(node.at("scanTableSource", "table", "identifier")).rsplit(".", 1)[-1].strip("`")


def tables() -> dict[str, pa.Table]:
    """The first rows."""
    arrow = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "VARCHAR(9)": pa.string()}
    arrow["TIMESTAMP(3)"] = pa.timestamp("ms")
    found = {}
    for name, (columns, _) in FEEDS.items():
        parts = [one.split() for one in columns.split(", ") if " AS " not in one and not one.startswith("PRIMARY")]
        schema = pa.schema([(column, arrow[type_]) for column, type_, *_ in parts])
        columns_of = zip(*(row for row in FIRST[name] if not isinstance(row, str)), strict=True)
        found[name] = pa.table(
            [pa.array(one).cast(type_) for one, type_ in zip(columns_of, schema.types, strict=True)], schema
        )
    return found


TWO_PHASES = """SET 'table.exec.state.ttl' = '1 d';
SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '100';
"""
JOBS: dict[str, tuple[str, str, dict[str, str]]] = {
    "1.20": ("1.20", "", {"duckdb": "hashmap"}),
    "2.3": ("2.3", "", {"duckdb": "hashmap", "spark": "rocksdb"}),
    "2.3, a day": ("2.3", TWO_PHASES, {"duckdb": "rocksdb"}),
}
"""Releases, how long state lives (with it groups are aggregated in two phases), and what computes state, for which
backend: Spark computes each once, in a minute."""


@pytest.fixture(scope="module", params=JOBS)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EvolvingJob:
    """The job has read the first rows, and all rows."""
    folder = tmp_path_factory.mktemp("filled")
    release, setting, _ = JOBS[request.param]
    # Flink 1.20 does unasked what ON CONFLICT says.
    conflict = " ON CONFLICT DO DEDUPLICATE" if release == "2.3" else ""
    queries = {
        name: (columns, query + conflict * (name in BY_KEY)) for name, (columns, query, _) in asked(setting).items()
    }
    text = f"SET 'table.exec.sink.upsert-materialize' = 'FORCE';\n{setting}{script(folder, FEEDS, queries)}"
    made = EvolvingJob((release, release), folder, [text, text])
    feed(made, FIRST)
    made.do(made.compile("new"), made.run("new", "hashmap", "before", taken=made.path("taken")))
    feed(made, FIRST, SECOND)
    made.do(made.run("new", "hashmap", "all"))
    return made


def feed(job: EvolvingJob, *parts: Mapping[str, list[Any]]) -> None:
    job.feed({name: [row for part in parts for row in part[name]] for name in FEEDS}, later=["orders", "shops"])


def script_of(flink: EvolvingJob) -> str:
    return Path(flink.path("new.sql")).read_text()


def write(flink: EvolvingJob, session: SparkSession | None, target: str) -> None:
    """Write a savepoint of all operators, whose rows DuckDB or Spark computes."""
    plan = read_plan(flink.path("new.json"))
    writer = SavepointWriter.new_savepoint(session).with_flink_version(flink.releases[1])
    base = duckdb.connect()
    for name, rows in tables().items():
        if session is None:
            base.register(name, rows)
        else:
            session.createDataFrame(rows).createOrReplaceTempView(name)
    for uid, texts in statements(plan, script_of(flink)).items():
        frames = {}
        for state, text in texts.items():
            own = text
            for pattern, words in ENGINES["duckdb" if session is None else "spark"].items():
                own = re.sub(pattern, words, own)
            frames[state] = base.sql(own).to_arrow_table() if session is None else session.sql(own)
        # Of OVER a plan does not say it, and frames without rows have one.
        lives = True if "ttl" in script_of(flink) and uid.endswith("over-aggregate") else None
        writer.with_operator(uid, OperatorBootstrap.from_plan(flink.path("new.json"), uid, frames, ttl=lives))
    writer.write(flink.path(target))


def shown(query: str, *changes: Sequence[str]) -> Counter[str]:
    """The rows that a sink has after changes."""
    if query in UNORDERED:
        return table([f"{change[:2]}{sorted(change)}" for part in changes for change in part])
    if query not in BY_KEY:
        return table(*changes)
    found = {}
    for change in (change for part in changes for change in part):
        key = change[3:].split(", ")[0]
        found.pop(key, None)
        if change[:2] != "-D":
            found[key] = change[3:-1]
    return Counter(found.values())


def test_queries_go_on_from_state_that_sql_computed(flink: EvolvingJob, request: pytest.FixtureRequest) -> None:
    backends = JOBS[request.node.callspec.params["flink"]][2]
    for engine in backends:
        write(flink, None if engine == "duckdb" else request.getfixturevalue("spark"), engine)
    states = [state for state in stateproc.open(flink.path("duckdb")).states if hasattr(state, "keyed")]
    # What windows keep has no time to live, nor have frames with rows.
    lives = {
        state.keyed.ttl
        for state in states
        if not re.search("window-aggregate|over-aggregate|interval|temporal", repr(state))
    }
    assert lives == {"ttl" in script_of(flink)}
    for name in backends:
        check_frames(flink, name)
        check_versions(flink, name)
    feed(flink, SECOND)
    flink.do(*(flink.run("new", backend, f"new-{name}", flink.path(name)) for name, backend in backends.items()))
    before, whole = flink.changes("before"), flink.changes("all") | BY_CLOCK
    queries = asked(script_of(flink))
    for name in backends:
        new = flink.changes(f"new-{name}")
        found = {query: shown(query, before.get(query, []), new.get(query, [])) for query in queries}
        assert found == {query: shown(query, whole.get(query, [])) for query in queries}, name
    assert all(Counter(whole[query]) != Counter(before.get(query, [])) for query in queries)
    assert len(queries) >= 52


def check_frames(flink: EvolvingJob, name: str) -> None:
    """Fail unless what an operator of OVER kept of the first rows is what it is filled with, but processing times."""
    plan = flink.path("new.json")
    job, filled = (stateproc.open(path, plan=plan) for path in (flink.snapshot_of("before"), flink.path(name)))
    uids = [uid for uid in statements(read_plan(plan), script_of(flink)) if uid.endswith("over-aggregate")]
    assert len(uids) == 11
    compared = Counter[str]()
    for uid in uids:
        states = node_states(read_plan(plan), uid)
        frame = frame_of(states)
        for state in states:
            if state.name != "cleanupTsState" and (frame is None or frame.by_row_time or state.map_key is None):
                wanted, found = (kept(one, uid, state) for one in (job, filled))
                assert found == wanted, (uid, state.name)
                compared[state.name] += bool(found)
        if frame is not None and frame.by_row_time and frame.millis is None:
            wanted, found = (
                {(repr(row["key"]), row["timestamp"]) for row in one.state(uid, "event timers").to_arrow().to_pylist()}
                for one in (job, filled)
            )
            assert found == wanted and found, uid
    assert compared["accState"] == 11 and compared["inputState"] == 8
    assert compared["lastTriggeringTsState"] == 4 and compared["agg4$orderToValueMap"] == 2


def check_versions(flink: EvolvingJob, name: str) -> None:
    """Fail unless what a temporal join kept of the first rows is what it is filled with."""
    plan, reached = flink.path("new.json"), datetime(2024, 1, 1, 1, 30)
    paths = flink.snapshot_of("before"), flink.path(name)
    job, filled = (stateproc.open(path, plan=plan, row_kind=True) for path in paths)
    uids = [uid for uid in statements(read_plan(plan), script_of(flink)) if uid.endswith("temporal-join")]
    assert len(uids) == 2
    for uid in uids:
        waits: list[dict[str, datetime]] = []
        for side, time_of, number in (("left", "ts", 4), ("right", "since", 7)):
            wanted, found = (one.state(uid, side).to_arrow(flatten=True).to_pylist() for one in (job, filled))
            if (
                side == "left"
            ):  # With a time to live numbers begin anew whenever a key has no rows; their order matters.
                wanted, found = (sorted(rows, key=lambda row: row.pop("map_key")) for rows in (wanted, found))
                wanted, found = (sorted(rows, key=lambda row: repr(row["key"])) for rows in (wanted, found))
            # A version is -D or valid, whether it is called +I or +U.
            texts = [[repr(row).replace("+U", "+I") for row in rows] for rows in (wanted, found)]
            wanted, found = texts if side == "left" else map(sorted, texts)
            assert found == wanted and len(found) == number, (uid, side)
            waits.append({})
            for row in filled.state(uid, side).to_arrow(flatten=True).to_pylist():
                key, due = repr(row["key"]), row["map_value"][time_of]
                if due > reached:
                    waits[-1][key] = min(due, waits[-1].get(key, due))
        (left, right), numbers = waits, [by_key(one.state(uid, "next-index"), "value") for one in (job, filled)]
        due = [by_key(one.state(uid, "timer"), "value") for one in (job, filled)]
        timers = [by_key(one.state(uid, "event timers"), "timestamp") for one in (job, filled)]
        assert len(numbers[1]) == len(left) == 3 and numbers[1].keys() <= numbers[0].keys()
        if "ttl" not in script_of(flink):
            assert numbers[1].items() <= numbers[0].items()
        millis = [
            {key: int(one.replace(tzinfo=timezone.utc).timestamp() * 1000) for key, one in times.items()}
            for times in (left, {key: min(times[key] for times in waits if key in times) for key in left | right})
        ]
        assert timers == due and due[1] == millis[1]
        # A version that waits has part in a timer of the job unless it came before another one was due.
        assert due[0].items() <= {*millis[0].items(), *millis[1].items()} and due[0].keys() >= left.keys()


def by_key(state: Any, column: str) -> dict[str, int]:
    return {repr(row["key"]): row[column] for row in state.to_arrow().to_pylist()}


def kept(snapshot: Any, uid: str, state: NodeState) -> list[str]:
    """The rows of a state without the times at which values of FIRST_VALUE and LAST_VALUE came."""
    if state.name == "smallestTSState":
        return []
    rows = snapshot.state(uid, state.name).to_arrow(flatten=state.map_key is not None).to_pylist()
    if state.name.endswith("valueToOrderMap"):
        rows = [row | {"map_value": len(row["map_value"])} for row in rows]
    elif state.name.endswith("orderToValueMap"):
        values: dict[str, list[Any]] = {}
        for row in sorted(rows, key=lambda row: row["map_key"]):
            values.setdefault(repr(row["key"]), []).extend(row["map_value"])
        return sorted(map(repr, values.items()))
    return sorted(repr(timeless(row)) for row in rows)


def timeless(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: timeless(part) for name, part in value.items() if name not in ("firstOrder", "lastOrder", "last_access")
    }
