"""Queries that Flink 1.15 to 1.19 planned and ran go on in a newer release, and in their own: real Flink runs both.

The next version of the job has one query more, so that operators have other numbers, and calls in another order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import InvalidOption
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import main_uid
from tests.helpers.flink.evolving_job import SOURCES, VERSIONS, EvolvingJob, Feed, script, table

pytestmark = pytest.mark.flink

PAIRS = {
    "1.15 to 2.3": ("1.15", "2.3"),
    "1.17 to 1.20": ("1.17", "1.20"),
    "1.19 to 2.3": ("1.19", "2.3"),
}
FORMS = {"1.15": "canonical", "1.17": "native", "1.19": "canonical"}
"""The savepoints of the old release from which the new query goes on."""
FEEDS: dict[str, Feed] = {
    "orders": (
        "id BIGINT, customer BIGINT, product STRING, amount DOUBLE, ts TIMESTAMP(3), proc AS PROCTIME(), "
        "WATERMARK FOR ts AS ts",
        "append",
    ),
    "payments": ("order_id BIGINT, payer STRING, pts TIMESTAMP(3), WATERMARK FOR pts AS pts", "append"),
    "rates": (
        "product STRING, rate DOUBLE, rts TIMESTAMP(3), PRIMARY KEY (product) NOT ENFORCED, WATERMARK FOR rts AS rts",
        "upsert",
    ),
    "customers": ("customer BIGINT, city STRING, name STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
    "accounts": ("account BIGINT, branch STRING, balance DOUBLE, points BIGINT", "all"),
}
NUMBERED = "SELECT {}{} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS r FROM {}) WHERE r <= {}"
TUMBLED = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '1' HOUR))"
HOPPED = "TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR))"
CUMULATED = "TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '2' HOUR))"
OF_WINDOW = "SELECT product, window_end, {} FROM {} GROUP BY product, window_start, window_end"
WINDOWS = f"(SELECT * FROM {TUMBLED})"
OVER = "SELECT id, {} OVER (PARTITION BY product ORDER BY {}) FROM orders"
JOINED = "SELECT o.id, o.amount, c.name FROM orders AS o {} JOIN customers AS c ON o.customer = c.customer"
TOTALS = "SELECT customer, {} FROM orders GROUP BY customer"
BALANCES = "SELECT branch, {} FROM accounts GROUP BY branch"
# Sink → its columns, the old query and, where it is another, the new one.
QUERIES: dict[str, tuple[str, ...]] = {
    "totals": (
        "customer BIGINT, a DOUBLE, b BIGINT, c DOUBLE, d BIGINT, e DOUBLE",
        TOTALS.format("SUM(amount), COUNT(*), MAX(amount), COUNT(DISTINCT product), AVG(amount)"),
        TOTALS.format("MAX(amount), COUNT(DISTINCT product), SUM(amount), COUNT(*), AVG(amount)"),
    ),
    "balances": (
        "branch STRING, a DOUBLE, b BIGINT, c BIGINT",
        BALANCES.format("SUM(balance), MAX(points), COUNT(DISTINCT account)"),
    ),
    # Literals, of which some releases write numbers as text.
    "filtered": (
        "product STRING, n BIGINT, s DOUBLE",
        "SELECT product, COUNT(*), SUM(amount * 2) FROM orders WHERE amount > 2.5 AND id < 100 AND product <> 'x' "
        "GROUP BY product",
    ),
    "joined": ("id BIGINT, amount DOUBLE, name STRING", JOINED.format("")),
    "joined_or_not": ("id BIGINT, amount DOUBLE, name STRING", JOINED.format("LEFT")),
    "first": ("product STRING, id BIGINT", NUMBERED.format("product, id", "", "product", "proc", "orders", 1)),
    "newest": ("customer BIGINT, id BIGINT", NUMBERED.format("customer, id", "", "customer", "proc DESC", "orders", 1)),
    "earliest": ("product STRING, id BIGINT", NUMBERED.format("product, id", "", "product", "ts", "orders", 1)),
    "latest": ("customer BIGINT, id BIGINT", NUMBERED.format("customer, id", "", "customer", "ts DESC", "orders", 1)),
    "top": (
        "product STRING, id BIGINT, amount DOUBLE",
        NUMBERED.format("product, id, amount", "", "product", "amount DESC", "orders", 2),
    ),
    "best": (
        "product STRING, id BIGINT, amount DOUBLE",
        NUMBERED.format("product, id, amount", "", "product", "amount DESC", "orders", 1),
    ),
    "richest": (
        "branch STRING, account BIGINT, r BIGINT",
        NUMBERED.format("branch, account", ", r", "branch", "points DESC", "accounts", 2),
    ),
    "tumbled": (
        "product STRING, e TIMESTAMP(3), a DOUBLE, b BIGINT, c BIGINT",
        OF_WINDOW.format("SUM(amount), COUNT(*), COUNT(DISTINCT customer)", TUMBLED.format("orders", "ts")),
        OF_WINDOW.format("SUM(amount), COUNT(*), COUNT(DISTINCT customer)", TUMBLED.format("orders", "ts")),
    ),
    "hopped": ("product STRING, e TIMESTAMP(3), a DOUBLE, b DOUBLE", OF_WINDOW.format("SUM(amount), AVG(id)", HOPPED)),
    "cumulated": ("product STRING, e TIMESTAMP(3), a DOUBLE", OF_WINDOW.format("MAX(amount)", CUMULATED)),
    "ranked": (
        "product STRING, id BIGINT, e TIMESTAMP(3)",
        NUMBERED.format(
            "product, id, window_end", "", "window_start, window_end, product", "amount DESC",
            WINDOWS.format("orders", "ts"), 2,
        ),
    ),
    "last": (
        "product STRING, id BIGINT, e TIMESTAMP(3)",
        NUMBERED.format(
            "product, id, window_end", "", "window_start, window_end, product", "ts DESC",
            WINDOWS.format("orders", "ts"), 1,
        ),
    ),
    "same": (
        "id BIGINT, payer STRING, s TIMESTAMP(3)",
        f"SELECT id, payer, o.window_start FROM {WINDOWS.format('orders', 'ts')} AS o JOIN "
        f"{WINDOWS.format('payments', 'pts')} AS p ON id = order_id AND o.window_start = p.window_start AND "
        "o.window_end = p.window_end",
    ),
    "near": (
        "id BIGINT, payer STRING",
        "SELECT id, payer FROM orders LEFT JOIN payments ON id = order_id AND pts BETWEEN ts - INTERVAL '1' HOUR AND "
        "ts + INTERVAL '2' HOUR",
    ),
    "valid": (
        "id BIGINT, rate DOUBLE",
        "SELECT id, rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.product = r.product",
    ),
    "running": ("id BIGINT, a DOUBLE", OVER.format("SUM(amount)", "ts RANGE UNBOUNDED PRECEDING")),
    "numbered": ("id BIGINT, n BIGINT", OVER.format("COUNT(id)", "ts ROWS UNBOUNDED PRECEDING")),
    "pairs": ("id BIGINT, a BIGINT", OVER.format("SUM(id)", "ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW")),
    "recent": (
        "id BIGINT, a BIGINT", OVER.format("SUM(id)", "ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW")
    ),
    "seen": ("id BIGINT, a BIGINT", OVER.format("SUM(id)", "proc ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")),
    "ever": ("id BIGINT, a DOUBLE", OVER.format("MIN(amount)", "proc RANGE UNBOUNDED PRECEDING")),
    "sorted": ("id BIGINT, ts TIMESTAMP(3)", "SELECT id, ts FROM orders ORDER BY ts, id DESC"),
    "cities": (
        "city STRING, customer BIGINT, name STRING, PRIMARY KEY (city) NOT ENFORCED",
        "SELECT city, customer, name FROM customers",
    ),
}  # fmt: skip
ADDED = ("product STRING, n BIGINT", "SELECT product, COUNT(*) FROM orders GROUP BY product")
Rows = dict[str, list[tuple[object, ...]]]


def on(time: str, day: int = 1) -> str:
    return f"2024-01-0{day}T{time}"


FIRST: Rows = {
    "orders": [
        (1, 1, "tea", 10.0, on("00:05:00")), (2, 1, "mate", 4.5, on("00:10:00")), (3, 2, "tea", 20.0, on("00:20:00")),
        (4, None, None, -1.0, on("01:00:00")), (5, 2, "tea", 7.0, on("01:20:00")),
        (6, 3, "mate", None, on("01:31:00")),
    ],
    "payments": [
        (1, "card", on("00:06:00")), (3, "cash", on("00:59:59.999")), (9, "early", on("01:20:00")),
        (5, None, on("01:31:00")),
    ],
    "rates": [("tea", 1.0, on("00:00:00")), ("mate", 2.0, on("00:00:00")), ("tea", 1.5, on("01:20:00"))],
    "customers": [(1, "Rome", "Ann"), (2, "Oslo", "Bob"), (3, "Rome", "Cid"), (9, "Bonn", "Zoë")],
    "accounts": [(1, "A", 10.0, 5), (2, "A", None, None), (3, "B", 4.5, 7), (4, None, -1.0, None), (5, "B", 2.5, 7)],
}  # fmt: skip
SECOND: Rows = {
    "orders": [
        (7, 1, "tea", 15.0, on("01:40:00")), (8, 3, "紅茶", 1.5, on("01:45:00")), (9, 2, "mate", 4.5, on("01:50:00")),
        (10, None, "tea", 30.0, on("01:59:59.999")), (11, 3, "mate", 99.0, on("02:00:00")),
        (12, 9, "last", 1.0, on("00:00:00", 9)),
    ],
    "payments": [
        (5, "card", on("01:50:00")), (7, "cash", on("01:41:00")), (6, "cash", on("01:59:00")),
        (12, "last", on("00:00:00", 9)),
    ],
    "rates": [("tea", 1.6, on("01:35:00")), ("mate", 3.0, on("01:50:00")), ("last", 9.0, on("00:00:00", 9))],
    "customers": [(1, "Oslo", "Ann"), (4, "Rome", "Dee"), (3, "Rome", "Cyd"), (2, "Bonn", "Bea")],
    "accounts": [(1, "B", 12.0, 5), (2, "A", 3.0, 2), (6, None, None, None), (7, "A", 4.0, 9)],
}  # fmt: skip
DELETED: Rows = {"accounts": [(1, "A", 10.0, 5), (5, "B", 2.5, 7)]}


def scripts(folder: Path) -> list[str]:
    """The statements of the job in its first and its next version, which has a query more before the others."""
    made = []
    for version in VERSIONS:
        queries = {"added": ADDED} if version == "new" else {}
        for name, (columns, *both) in QUERIES.items():
            queries[name] = (columns, both[-1 if version == "new" else 0])
        # Rows before a sink with a primary key are kept.
        made.append("SET 'table.exec.sink.upsert-materialize' = 'FORCE';\n" + script(folder, FEEDS, queries))
    return made


def feed(flink: EvolvingJob, *parts: Rows) -> None:
    """Write what the sources will emit; rows of accounts are deleted after the second ones."""
    rows = {name: [row for part in parts for row in part[name]] for name in FEEDS}
    # Orders come after the rows that they are joined with.
    flink.feed(rows, later=["orders"], deleted=DELETED if SECOND in parts else {})


@pytest.fixture(scope="module", params=PAIRS)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `all` are the results of the new one over all rows."""
    folder = tmp_path_factory.mktemp("evolved")
    made = EvolvingJob(PAIRS[request.param], folder, scripts(folder))
    feed(made, FIRST)
    made.do(made.compile("old"), made.run("old", "rocksdb", "old", taken=made.path("taken")), version="old")
    feed(made, FIRST, SECOND)
    made.do(made.compile("new"), made.run("new", "hashmap", "all"))
    yield made


def sources(flink: EvolvingJob, version: str) -> dict[str, list[str]]:
    """The uids of the sources of each table."""
    plan, found = read_plan(flink.path(f"{version}.json")), dict[str, list[str]]()
    for node in plan.nodes:
        if node.kind == "stream-exec-table-source-scan":
            found.setdefault(str(node.at("scanTableSource", "table", "identifier")), []).append(main_uid(plan, node))
    return found


def test_the_new_query_goes_on(flink: EvolvingJob) -> None:
    old, new = flink.releases
    # Flink 1.15 and 1.17 have a source for each query; these sources keep no positions.
    before, after = sources(flink, "old"), sources(flink, "new")
    mapped = {uids[0]: after[table_][0] for table_, uids in before.items() if len(uids) > len(after[table_]) == 1}
    if old == "1.15":
        # It normalizes changes before a temporal join, which then has the same rows.
        mapped[flink.uid_of("old", "valid", "temporal-join")] = flink.uid_of("new", "valid", "temporal-join")
    empty = [flink.uid_of("new", "added", "group-aggregate")]
    if new == "2.3":
        earliest = flink.uid_of("new", "earliest", "deduplicate")
        words = rf"\({earliest}\) was the first row at once and is the first row when its time has come"
        with pytest.raises(InvalidOption, match=words):
            flink.writer("canonical").evolve(flink.path("old.json"), flink.path("new.json"), empty=empty, mapped=mapped)
        empty.append(earliest)
    form = FORMS[old]
    writer = flink.writer(form)
    writer.evolve(flink.path("old.json"), flink.path("new.json"), empty=empty, mapped=mapped)
    writer.write(flink.path("evolved"))
    feed(flink, SECOND)
    flink.do(flink.run("new", SOURCES[form], "second", flink.path("evolved")))
    first, second, whole = flink.changes("old"), flink.changes("second"), flink.changes("all")
    names = [name for name in QUERIES if name != "totals" and (name != "earliest" or new != "2.3")]
    found = {name: table(first.get(name, []), second.get(name, [])) for name in names}
    assert found == {name: table(whole[name]) for name in names}
    # All groups of the second rows, whose columns the old query printed in another order.
    totals, wanted = newest(second["totals"]), newest(whole["totals"])
    assert len(totals) == 5 and totals == wanted
    assert table(second["added"]) == ADDED_ROWS


def newest(changes: list[str]) -> dict[str, str]:
    """The last row of each group, which is the first column."""
    return {change[3:].partition(",")[0]: change[2:] for change in changes if change[0] == "+"}


ADDED_ROWS = Counter({"[tea, 2]": 1, "[紅茶, 1]": 1, "[mate, 2]": 1, "[last, 1]": 1})


def test_states_have_the_names_of_the_plan(flink: EvolvingJob) -> None:
    snapshot = stateproc.open(flink.snapshot("canonical"), plan=flink.path("old.json"))
    totals = flink.uid_of("old", "totals", "group-aggregate")
    rows = snapshot.state(totals, "accState").to_arrow().to_pylist()
    (found,) = [row["value"] for row in rows if row["key"] == {"customer": 2}]
    assert {name: value for name, value in found.items() if name != "distinct_product"} == {
        "sum_amount": 27.0, "count": 2, "max_amount": 20.0, "count_product": 1, "avg_amount_sum": 27.0,
        "avg_amount_count": 2,
    }  # fmt: skip
    top = snapshot.state(flink.uid_of("old", "top", "rank"), "data-state-with-append").to_arrow().to_pylist()
    assert {
        (row["key"]["product"], sort_key["amount"], one["id"])
        for row in top
        for sort_key, many in row["value"]
        for one in many
    } >= {("tea", 10.0, 1), ("tea", 20.0, 3)}
    # No state of the queries has fields without names.
    for operator in snapshot.operators:
        for state in operator.states:
            assert not UNNAMED.search(str(state.schema())), (operator.uid, state.name)


UNNAMED = re.compile(r"\bf\d+: ")
