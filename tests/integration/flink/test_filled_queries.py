"""State of SQL jobs is filled from tables: real Flink goes on as if it had read the first half of the rows.

Statements of SQL, by DuckDB and by Spark, compute what each operator would have kept of the first rows, under the
columns of the plan. What the job prints of the other rows, together with what it prints of the first, is what it prints
of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.query_plans.node_states import ASSOCIATIONS, COUNT, node_states
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, read_plan
from stateproc.query_plans.plan_matching import main_uid
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
}
FIRST: dict[str, list[tuple[Any, ...]]] = {
    "orders": [
        (1, 1, "tea", 10.0), (2, 1, "mate", 4.5), (2, 1, "mate", 4.5), (3, 2, "tea", 20.0), (4, None, None, -1.0),
        (5, 7, "茶\0🍵", 0.0), (9, 2, None, None), (12, 8, "x", None),
    ],
    "payments": [(1, "card"), (3, "cash"), (3, "cash"), (8, "card")],
    "customers": [(1, "Ann", "Rome"), (2, "Bob", "Oslo"), (9, "Zoë", None)],
    "shops": [(1, "Rome", "Uno"), (2, "Rome", "Due"), (3, None, "?")],
    "offers": [("tea", 1, 2.0), ("tea", 2, 3.0), ("tea", 3, 1.0), (None, 4, -1.5)],
    "visits": [(1, 1), (1, 2), (2, 3), (None, 4)],
    "pages": [("/a", 1), ("/b", 2), (None, 3)],
}  # fmt: skip
SECOND: dict[str, list[tuple[Any, ...]]] = {
    "orders": [
        (6, 1, "tea", 15.0), (8, 3, "tea", 1.5), (2, 1, "mate", 4.5), (10, 9, None, 2.0), (11, 7, "茶\0🍵", 8.0),
        (13, 8, "x", 3.0),
    ],
    "payments": [(2, "card"), (6, "cash"), (5, "card"), (3, "card")],
    "customers": [(3, "Cid", "Rome"), (2, "Bea", "Rome"), (7, "Dee", "Oslo")],
    "shops": [(4, "Oslo", "Fire"), (2, "Oslo", "Due")],
    "offers": [("tea", 5, 2.5), ("tea", 6, 9.0), (None, 7, 1.0)],
    "visits": [(2, 8), (3, 10), (None, 11)],
    "pages": [("/a", 9), ("/c", 8), (None, 7)],
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
}  # fmt: skip
ENGINES = {
    "duckdb": "[struct_pack(product := product, id := id, amount := amount)]",
    "spark": "array(named_struct('id', id, 'amount', amount, 'product', product))",
}
"""How an array with one row is written."""


def stateful(plan: CompiledPlan, query: str) -> Iterator[PlanNode]:
    """The nodes of a query whose state is filled, from its sink on, left inputs first."""
    waiting = [one for one in plan.nodes if f"`{query}_out`" in str(one.at("dynamicTableSink", "table", "identifier"))]
    assert waiting
    for node in waiting:
        waiting += node.sources
        try:
            node_states(plan, main_uid(plan, node))
        except Exception as error:
            assert "its states are not filled" in str(error) or "no operator" in str(error), error
            continue
        yield node


def statements(plan: CompiledPlan) -> dict[str, dict[str, str]]:
    """Uid → state → the statement that computes its rows."""
    found: dict[str, dict[str, str]] = {}
    for query, (_, _, texts) in QUERIES.items():
        left = list(texts)
        for node in stateful(plan, query):
            uid = main_uid(plan, node)
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
    found = {}
    for name, (columns, _) in FEEDS.items():
        parts = [one.split() for one in columns.split(", ") if " AS " not in one and not one.startswith("PRIMARY")]
        schema = pa.schema([(column, arrow[type_]) for column, type_, *_ in parts])
        found[name] = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in FIRST[name]], schema)
    return found


JOBS = {"1.20": ("1.20", ""), "2.3": ("2.3", ""), "2.3, a day": ("2.3", "SET 'table.exec.state.ttl' = '1 d';\n")}
"""Releases, and how long state lives."""


@pytest.fixture(scope="module", params=JOBS)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EvolvingJob:
    """The job has read the first rows, and all rows."""
    folder = tmp_path_factory.mktemp("filled")
    release, setting = JOBS[request.param]
    text = setting + script(folder, FEEDS, {name: (columns, query) for name, (columns, query, _) in QUERIES.items()})
    made = EvolvingJob((release, release), folder, [text, text])
    feed(made, FIRST)
    made.do(made.compile("new"), made.run("new", "hashmap", "before"))
    feed(made, FIRST, SECOND)
    made.do(made.run("new", "hashmap", "all"))
    return made


def feed(job: EvolvingJob, *parts: Mapping[str, list[tuple[Any, ...]]]) -> None:
    job.feed({name: [row for part in parts for row in part[name]] for name in FEEDS}, later=["orders", "shops"])


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
    for uid, texts in statements(plan).items():
        frames = {}
        for state, text in texts.items():
            own = text.replace("{rows}", ENGINES["duckdb" if session is None else "spark"])
            frames[state] = base.sql(own).to_arrow_table() if session is None else session.sql(own)
        writer.with_operator(uid, OperatorBootstrap.from_plan(flink.path("new.json"), uid, frames))
    writer.write(flink.path(target))


def test_queries_go_on_from_state_that_sql_computed(flink: EvolvingJob, spark: SparkSession) -> None:
    write(flink, None, "duckdb")
    lives = {state.keyed.ttl for state in stateproc.open(flink.path("duckdb")).states if hasattr(state, "keyed")}
    assert lives == {"ttl" in Path(flink.path("new.sql")).read_text()}
    write(flink, spark, "spark")
    feed(flink, SECOND)
    flink.do(*(
        flink.run("new", backend, f"new-{name}", flink.path(name))
        for name, backend in (("duckdb", "rocksdb"), ("spark", "hashmap"))
    ))  # fmt: skip
    before, whole = flink.changes("before"), flink.changes("all")
    for name in ENGINES:
        new = flink.changes(f"new-{name}")
        found = {query: table(before.get(query, []), new.get(query, [])) for query in QUERIES}
        assert found == {query: table(whole.get(query, [])) for query in QUERIES}, name
    assert all(Counter(whole[query]) != Counter(before.get(query, [])) for query in QUERIES)
    assert len(QUERIES) >= 15
