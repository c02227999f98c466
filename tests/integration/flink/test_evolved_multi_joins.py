"""Joins of many inputs in one operator of Flink 2 (MultiJoin) get other columns, and a time to live or none.

Rows of before have NULL in the new columns, also in the run of the new query over all rows, with which results are
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from stateproc import SavepointWriter
from tests.helpers.flink.evolving_job import VERSIONS, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

TABLES: dict[str, Feed] = {
    "orders": ("id BIGINT, customer BIGINT, product STRING, amount DOUBLE, note STRING, n INT", "append"),
    "payments": ("order_id BIGINT, payer STRING, paid DOUBLE", "append"),
    "customers": (
        "customer BIGINT, name STRING, city STRING, phone STRING, PRIMARY KEY (customer) NOT ENFORCED",
        "upsert",
    ),
    "shops": ("shop BIGINT, city STRING, title STRING, since BIGINT, PRIMARY KEY (shop) NOT ENFORCED", "upsert"),
}
# {0}: the type of the first join, {1}: a number, so that no query keeps rows that another one keeps, too.
SOME = "(SELECT * FROM customers WHERE customer > -{1})"
PAID = f"orders AS o {{0}} JOIN payments AS p ON o.id = p.order_id {{0}} JOIN {SOME} AS c ON o.id = c.customer"
LOCAL = (
    f"{SOME} AS c {{0}} JOIN (SELECT * FROM shops WHERE shop > -{{1}}) AS s ON c.city = s.city "
    f"JOIN (SELECT product, COUNT(*) AS k FROM orders WHERE id > -{{1}} GROUP BY product) AS n ON c.city = n.product"
)
RENAMED = (
    "SELECT {0}, name, payer FROM (SELECT id AS {0}, customer AS {1}, amount FROM orders) JOIN "
    "(SELECT order_id AS {2}, payer FROM payments) ON {0} = {2} LEFT JOIN (SELECT customer AS {3}, name FROM customers "
    "WHERE customer > -15) ON {0} = {3}"
)
WIDE = (
    "(SELECT id, customer, CAST(n AS {0}) AS n FROM orders) AS o LEFT JOIN payments AS p ON o.id = p.order_id "
    "JOIN (SELECT shop, CAST(CHAR_LENGTH(title) AS {0}) AS m FROM shops WHERE shop > -16) AS s ON o.id = s.shop"
)
# Sink → its columns in both versions, and both queries.
QUERIES: dict[str, tuple[str, str, str, str]] = {
    # Rows are found by all of their columns, or by a key which is that of the join.
    "paid": (
        "id BIGINT, payer STRING, name STRING",
        "phone STRING, id BIGINT, note STRING, payer STRING, paid DOUBLE",
        f"SELECT o.id, p.payer, c.name FROM {PAID.format('LEFT', 11)}",
        f"SELECT c.phone, o.id, o.note, p.payer, p.paid FROM {PAID.format('LEFT', 11)}",
    ),
    "all_paid": (
        "id BIGINT, payer STRING, name STRING",
        "note STRING, id BIGINT, payer STRING",
        f"SELECT o.id, p.payer, c.name FROM {PAID.format('', 12)}",
        f"SELECT o.note, o.id, p.payer FROM {PAID.format('', 12)}",
    ),
    # By a key of their own.
    "local": (
        "customer BIGINT, shop BIGINT, title STRING, k BIGINT",
        "phone STRING, k BIGINT, customer BIGINT, since BIGINT, shop BIGINT",
        f"SELECT c.customer, s.shop, s.title, n.k FROM {LOCAL.format('', 13)}",
        f"SELECT c.phone, n.k, c.customer, s.since, s.shop FROM {LOCAL.format('', 13)}",
    ),
    "outer": (
        "customer BIGINT, shop BIGINT, title STRING, k BIGINT",
        "customer BIGINT, shop BIGINT, title STRING, k BIGINT, since BIGINT",
        f"SELECT c.customer, s.shop, s.title, n.k FROM {LOCAL.format('LEFT', 14)}",
        f"SELECT c.customer, s.shop, s.title, n.k, s.since FROM {LOCAL.format('LEFT', 14)}",
    ),
    # Names of columns in keys are part of their type.
    "renamed": (
        "id BIGINT, name STRING, payer STRING",
        "number BIGINT, name STRING, payer STRING",
        RENAMED.format("id", "b", "order_id", "d"),
        RENAMED.format("number", "x", "y", "z"),
    ),
    "wider": (
        "id BIGINT, n INT, payer STRING, m INT",
        "id BIGINT, n BIGINT, payer STRING, m BIGINT",
        f"SELECT o.id, n, payer, m FROM {WIDE.format('INT')}",
        f"SELECT o.id, n, payer, m FROM {WIDE.format('BIGINT')}",
    ),
}
Rows = dict[str, list[Sequence[object]]]
FIRST: Rows = {
    "orders": [
        (1, 1, "Rome", 10.0, None, 1),
        (2, 1, "Oslo", 4.5, None, -5),
        (2, 1, "Oslo", 4.5, None, -5),
        (3, 2, None, 20.0, None, None),
        (4, None, "d", None, None, 2147483647),
        (None, 1, "d", None, None, 0),
    ],
    "payments": [(1, "card", None), (3, "cash", None), (3, "cash", None), (8, "茶\0🍵", None), (None, "card", None)],
    "customers": [(1, "Ann", "Rome", None), (2, "Bob", "Oslo", None), (9, "Zoë", None, None), (3, "Eve", "Rome", None)],
    "shops": [(1, "Rome", "Uno", None), (2, "Rome", "Due", None), (3, None, "?", None), (4, "Bari", "", None)],
}
SECOND: Rows = {
    "orders": [(6, 1, "Rome", 15.0, "n6", 7), (8, 3, "Rome", 1.5, "n8", None), (2, 1, "Oslo", 4.5, "n2", 2)],
    "payments": [(2, "card", 4.5), (6, "cash", 15.0), (3, "card", 0.0), (5, None, None)],
    "customers": [(4, "Cid", "Rome", "444"), (2, "Bea", "Rome", "222"), (6, "Dee", "Oslo", "777")],
    "shops": [(6, "Oslo", "Fire", 20240229), (2, "Oslo", "Due", 0), (8, "Rome", "Otto", 8)],
}
DELETED: Rows = {"customers": [(1, "Ann", "Rome", None)], "shops": [(1, "Rome", "Uno", None)]}
MULTI_JOIN = "SET 'table.optimizer.multi-join.enabled' = 'true';\nSET 'table.exec.state.ttl' = '{}';\n"
TIMES = {"with a time to live": ("0 ms", "1 d"), "without one": ("36 h", "0 ms"), "as they are": ("0 ms", "0 ms")}


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    rows = {name: [row for part in parts for row in part[name]] for name in TABLES}
    job.feed(rows, later=["orders", "shops"], deleted=DELETED if parts[-1] is SECOND else {})


@pytest.fixture(scope="module", params=TIMES)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `before` and `all` are what the new one gives for these and for all."""
    folder = tmp_path_factory.mktemp("multi-joins")
    scripts = [
        MULTI_JOIN.format(TIMES[request.param][at])
        + script(folder, TABLES, {name: (one[at], one[2 + at]) for name, one in QUERIES.items()})
        for at in range(len(VERSIONS))
    ]
    made = EvolvingJob(("2.3", "2.3"), folder, scripts)
    made.begin(feed, FIRST, SECOND)
    yield made


def test_rows_of_each_input_get_other_columns(flink: EvolvingJob, request: pytest.FixtureRequest) -> None:
    lives = request.node.callspec.params["flink"] != "as they are"
    for name in QUERIES:
        assert flink.uid_of("new", name, "multi-join").endswith("multi-join")

    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"))
        plan = str(writer.plan())
        assert "input-0: note = NULL in rows from before, input-1: paid = NULL in rows from before" in plan, plan
        assert "input-0: n: INT → BIGINT" in plan, plan
        assert (plan.count("time to live") >= len(QUERIES)) is lives, plan

    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES)


def test_flink_itself_does_not_read_the_state(flink: EvolvingJob) -> None:
    """The operators have other numbers, and their serializers other types."""
    error = flink.error_without_evolve(feed, SECOND)
    assert "Cannot map checkpoint/savepoint state" in error or "must not be incompatible" in error, error
