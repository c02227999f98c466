"""Queries of every kind with state, and the states that real Flink wrote when it ran them from compiled plans."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import stateproc
from stateproc.model.operator import Operator
from stateproc.query_plans import CompiledPlan, PlanNode, read_plan
from stateproc.query_plans.node_rules import NODE_RULES
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixture_archives import SUFFIX, pack
from tests.helpers.flink.compilation import JAVA, JOBS, compiled, core_folders
from tests.helpers.flink.jars import RELEASES, line_number
from tests.helpers.paths import FIXTURE_ARCHIVES, FIXTURES

# Queries of every kind with state, which real Flink compiles to a plan, runs and takes a savepoint of.
#
# `python -m tests.helpers.planned_states [--release 1.20]` writes `tests/fixtures/<release>/plan-<case>.tar.xz`:
# a canonical and a native savepoint, `plan.json`, and a manifest. What the states must contain follows from `ROWS`; the
# tests compute it.


RUN_ROOT = Path("/tmp/stateproc-plans")
PLANNED = "plan"
"""The job of these fixtures' manifests."""
_DAY = "2024-01-01T00:"

ROWS: dict[str, str] = {
    "orders": f"""
+I 1 10 tea 2.5 1 {_DAY}00:10
+I 2 10 mate 4.0 2 {_DAY}00:20
+I 3 11 tea 3.0 1 {_DAY}00:30
+I 4 10 tea 1.5 3 {_DAY}01:05
wait
+I 5 11 mate 8.0 1 {_DAY}02:15
+I 6 12 tea 2.0 2 {_DAY}02:25
+I 7 10 mate 6.0 1 {_DAY}02:40
wait
""",
    "payments": f"""
+I 1 card 2.5 {_DAY}00:15
+I 2 cash 4.0 {_DAY}00:50
wait
+I 5 card 8.0 {_DAY}02:20
+I 7 cash 6.0 {_DAY}02:45
wait
""",
    "rates": f"""
+I tea 1.0 {_DAY}00:05
+I mate 2.0 {_DAY}00:05
+U tea 1.5 {_DAY}01:00
wait
+U mate 2.5 {_DAY}02:30
wait
""",
    "customers": """
+I 10 Ada Rome
+I 11 Bob Oslo
+I 12 Eve Rome
-U 11 Bob Oslo
+U 11 Bob Bern
""",
    "shops": """
+I 1 Rome Uno
+I 2 Oslo To
+I 3 Rome Due
""",
}
"""Table → its changes; `wait` lets watermarks pass."""

TABLES = """
CREATE TABLE orders (id BIGINT NOT NULL, customer BIGINT, product STRING, amount DOUBLE, quantity INT, ts TIMESTAMP(3),
  proc AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'rows', 'path' = '{home}/orders.tsv');
CREATE TABLE payments (order_id BIGINT, payer STRING, paid DOUBLE, ts TIMESTAMP(3), proc AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'rows', 'path' = '{home}/payments.tsv');
CREATE TABLE rates (product STRING NOT NULL, rate DOUBLE, since TIMESTAMP(3),
  WATERMARK FOR since AS since - INTERVAL '1' SECOND, PRIMARY KEY (product) NOT ENFORCED)
  WITH ('connector' = 'rows', 'path' = '{home}/rates.tsv', 'changelog' = 'upsert');
CREATE TABLE customers (customer BIGINT NOT NULL, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED)
  WITH ('connector' = 'rows', 'path' = '{home}/customers.tsv', 'changelog' = 'all');
CREATE TABLE shops (shop BIGINT NOT NULL, city STRING, title STRING, PRIMARY KEY (shop) NOT ENFORCED)
  WITH ('connector' = 'rows', 'path' = '{home}/shops.tsv', 'changelog' = 'all');
"""

_RANKED = "SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS r FROM {table})"
_PER_PRODUCT = "(SELECT product, customer, SUM(amount) AS spent FROM orders GROUP BY product, customer)"
_COUNT_PER_PRODUCT = "(SELECT product, customer, COUNT(*) AS n FROM orders GROUP BY product, customer)"
_CITY_CHANGES = "customers"
_TUMBLE = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"


def _ranked(columns: str, by: str, order: str, table: str = "orders") -> str:
    return _RANKED.format(columns=columns, by=by, order=order, table=table)


QUERIES: dict[str, dict[str, tuple[str, str]]] = {
    "plain": {
        "group": (
            "customer BIGINT, product STRING, n BIGINT, total DOUBLE, largest DOUBLE, mean INT, ids BIGINT",
            "SELECT customer, product, COUNT(*) AS n, SUM(amount) AS total, MAX(amount) AS largest, "
            "AVG(quantity) AS mean, COUNT(DISTINCT id) AS ids FROM orders GROUP BY customer, product",
        ),
        "group_of_changes": (
            "city STRING, n BIGINT, lowest STRING, highest BIGINT, everyone STRING",
            "SELECT city, COUNT(*) AS n, MIN(name) AS lowest, MAX(customer) AS highest, LISTAGG(name) AS everyone "
            "FROM customers GROUP BY city",
        ),
        "group_all": ("n BIGINT, total DOUBLE", "SELECT COUNT(*) AS n, SUM(amount) AS total FROM orders"),
        "distinct_rows": ("product STRING, quantity INT", "SELECT DISTINCT product, quantity FROM orders"),
        "group_filtered": (
            "product STRING, big BIGINT, people BIGINT, first_id BIGINT, last_id BIGINT",
            "SELECT product, COUNT(*) FILTER (WHERE amount > 2) AS big, "
            "COUNT(DISTINCT customer) FILTER (WHERE quantity > 1) AS people, FIRST_VALUE(id) AS first_id, "
            "LAST_VALUE(id) AS last_id FROM orders GROUP BY product",
        ),
        "group_functions": (
            "product STRING, names STRING, all_ids MULTISET<BIGINT NOT NULL>, "
            "ids_json STRING, smallest DOUBLE, mean DOUBLE",
            "SELECT product, LISTAGG(product) AS names, COLLECT(id) AS all_ids, JSON_ARRAYAGG(id) AS ids_json, "
            "MIN(amount) AS smallest, AVG(amount) AS mean FROM orders GROUP BY product",
        ),
        "group_of_groups": (
            "n BIGINT, spent DOUBLE, mean DOUBLE, most DOUBLE, people BIGINT",
            "SELECT n, SUM(spent) AS spent, AVG(spent) AS mean, MAX(spent) AS most, COUNT(DISTINCT customer) AS people "
            "FROM (SELECT customer, COUNT(*) AS n, SUM(amount) AS spent FROM orders GROUP BY customer) GROUP BY n",
        ),
        "join_shops": (
            "customer BIGINT, name STRING, shop BIGINT",
            "SELECT c.customer, c.name, s.shop FROM customers c JOIN shops s ON c.city = s.city",
        ),
        "join_shops_outer": (
            "customer BIGINT, name STRING, shop BIGINT",
            "SELECT c.customer, c.name, s.shop FROM customers c LEFT JOIN shops s ON c.city = s.city",
        ),
        "join_append": (
            "id BIGINT, payer STRING, paid DOUBLE",
            "SELECT o.id, p.payer, p.paid FROM orders o JOIN payments p ON o.id = p.order_id",
        ),
        "join_unique": (
            "id BIGINT, name STRING",
            "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.customer",
        ),
        "join_cities": (
            "name STRING, title STRING",
            "SELECT c.name, s.title FROM customers c FULL JOIN shops s ON c.city = s.city",
        ),
        "semi_join": (
            "id BIGINT, product STRING",
            "SELECT id, product FROM orders WHERE id IN (SELECT order_id FROM payments)",
        ),
        "interval_join": (
            "id BIGINT, payer STRING",
            "SELECT o.id, p.payer FROM orders o JOIN payments p ON o.id = p.order_id "
            "AND p.ts BETWEEN o.ts - INTERVAL '10' SECOND AND o.ts + INTERVAL '1' MINUTE",
        ),
        "interval_join_proctime": (
            "id BIGINT, payer STRING",
            "SELECT o.id, p.payer FROM orders o JOIN payments p ON o.id = p.order_id "
            "AND p.proc BETWEEN o.proc - INTERVAL '1' HOUR AND o.proc + INTERVAL '1' HOUR",
        ),
        "temporal_join": (
            "id BIGINT, rate DOUBLE",
            "SELECT o.id, r.rate FROM orders o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r "
            "ON o.product = r.product",
        ),
        "deduplicate_first_rowtime": (
            "product STRING, id BIGINT",
            _ranked("product, id", "product", "ts ASC") + " WHERE r = 1",
        ),
        "deduplicate_last_rowtime": (
            "customer BIGINT, id BIGINT",
            _ranked("customer, id", "customer", "ts DESC") + " WHERE r = 1",
        ),
        "deduplicate_first_proctime": (
            "quantity INT, id BIGINT",
            _ranked("quantity, id", "quantity", "proc ASC") + " WHERE r = 1",
        ),
        "deduplicate_last_proctime": (
            "customer BIGINT, product STRING, id BIGINT",
            _ranked("customer, product, id", "customer, product", "proc DESC") + " WHERE r = 1",
        ),
        "top_append": (
            "product STRING, id BIGINT, amount DOUBLE, r BIGINT",
            _ranked("product, id, amount, r", "product", "amount DESC, id") + " WHERE r <= 2",
        ),
        "top_updates": (
            "product STRING, customer BIGINT, spent DOUBLE, r BIGINT",
            _ranked("product, customer, spent, r", "product", "spent DESC", _PER_PRODUCT) + " WHERE r <= 2",
        ),
        "top_changes": (
            "city STRING, customer BIGINT, name STRING, r BIGINT",
            _ranked("city, customer, name, r", "city", "name DESC", _CITY_CHANGES) + " WHERE r <= 2",
        ),
        "top_increasing": (
            "product STRING, customer BIGINT, n BIGINT, r BIGINT",
            _ranked("product, customer, n, r", "product", "n DESC", _COUNT_PER_PRODUCT) + " WHERE r <= 2",
        ),
        "top_one": (
            "product STRING, id BIGINT, amount DOUBLE",
            _ranked("product, id, amount", "product", "amount DESC") + " WHERE r = 1",
        ),
        "top_all": (
            "id BIGINT, amount DOUBLE",
            "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 2",
        ),
        "limit_rows": ("id BIGINT", "SELECT id FROM orders LIMIT 3"),
        "sorted": ("id BIGINT, ts TIMESTAMP(3)", "SELECT id, ts FROM orders ORDER BY ts, amount"),
        "tumble": (
            "product STRING, starts TIMESTAMP(3), total DOUBLE, n BIGINT, people BIGINT",
            "SELECT product, window_start, SUM(amount) AS total, COUNT(*) AS n, COUNT(DISTINCT customer) AS people "
            f"FROM {_TUMBLE} GROUP BY product, window_start, window_end",
        ),
        "hop": (
            "product STRING, starts TIMESTAMP(3), largest DOUBLE",
            "SELECT product, window_start, MAX(amount) AS largest FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), "
            "INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)) GROUP BY product, window_start, window_end",
        ),
        "cumulate": (
            "product STRING, starts TIMESTAMP(3), total DOUBLE",
            "SELECT product, window_start, SUM(amount) AS total FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), "
            "INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) GROUP BY product, window_start, window_end",
        ),
        "session": (
            "customer BIGINT, starts TIMESTAMP(3), total DOUBLE, n BIGINT",
            "SELECT customer, window_start, SUM(amount) AS total, COUNT(*) AS n FROM TABLE(SESSION(TABLE orders "
            "PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY customer, window_start, window_end",
        ),
        "session_rows": (
            "id BIGINT, customer BIGINT, starts TIMESTAMP(3)",
            "SELECT id, customer, window_start FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), "
            "INTERVAL '1' HOUR))",
        ),
        "cumulate_top": (
            "product STRING, id BIGINT",
            "SELECT product, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, product "
            "ORDER BY amount DESC) AS r FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
            "INTERVAL '1' HOUR))) WHERE r <= 1",
        ),
        "group_window": (
            "product STRING, starts TIMESTAMP(3), total DOUBLE, n BIGINT",
            "SELECT product, TUMBLE_START(ts, INTERVAL '1' HOUR), SUM(amount) AS total, COUNT(*) AS n "
            "FROM orders GROUP BY product, TUMBLE(ts, INTERVAL '1' HOUR)",
        ),
        "group_session": (
            "product STRING, starts TIMESTAMP(3), total DOUBLE",
            "SELECT product, SESSION_START(ts, INTERVAL '1' HOUR), SUM(amount) AS total "
            "FROM orders GROUP BY product, SESSION(ts, INTERVAL '1' HOUR)",
        ),
        "window_top": (
            "product STRING, id BIGINT, amount DOUBLE",
            "SELECT product, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, "
            f"product ORDER BY amount DESC) AS r FROM {_TUMBLE}) WHERE r <= 2",
        ),
        "window_deduplicate": (
            "product STRING, id BIGINT, amount DOUBLE",
            "SELECT product, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, "
            f"product ORDER BY ts DESC) AS r FROM {_TUMBLE}) WHERE r = 1",
        ),
        "window_join": (
            "id BIGINT, payer STRING",
            "SELECT o.id, p.payer FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)))"
            " o JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '1' HOUR))) p "
            "ON o.id = p.order_id AND o.window_start = p.window_start AND o.window_end = p.window_end",
        ),
        "over_rows": (
            "id BIGINT, total DOUBLE",
            "SELECT id, SUM(amount) OVER (PARTITION BY product ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
            "AS total FROM orders",
        ),
        "over_range": (
            "id BIGINT, total DOUBLE",
            "SELECT id, SUM(amount) OVER (PARTITION BY product ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING "
            "AND CURRENT ROW) AS total FROM orders",
        ),
        "over_unbounded": (
            "id BIGINT, total DOUBLE, n BIGINT",
            "SELECT id, SUM(amount) OVER (PARTITION BY product ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING "
            "AND CURRENT ROW) AS total, COUNT(*) OVER (PARTITION BY product ORDER BY ts RANGE BETWEEN "
            "UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM orders",
        ),
        "over_unbounded_rows": (
            "id BIGINT, total DOUBLE",
            "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING "
            "AND CURRENT ROW) AS total FROM orders",
        ),
        "over_proctime": (
            "id BIGINT, total DOUBLE",
            "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY proc ROWS BETWEEN UNBOUNDED PRECEDING "
            "AND CURRENT ROW) AS total FROM orders",
        ),
        "over_proctime_rows": (
            "id BIGINT, total DOUBLE",
            "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY proc ROWS BETWEEN 1 PRECEDING "
            "AND CURRENT ROW) AS total FROM orders",
        ),
        "over_proctime_range": (
            "id BIGINT, total DOUBLE",
            "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY proc RANGE BETWEEN INTERVAL '1' HOUR "
            "PRECEDING AND CURRENT ROW) AS total FROM orders",
        ),
        "normalized": ("product STRING, rate DOUBLE", "SELECT product, rate FROM rates WHERE rate > 0"),
        "materialized": (
            "name STRING, customer BIGINT, city STRING, PRIMARY KEY (name) NOT ENFORCED",
            "SELECT name, customer, city FROM customers",
        ),
        "pattern": (
            "product STRING, first_id BIGINT, last_id BIGINT",
            "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY product ORDER BY ts MEASURES A.id AS first_id, "
            "B.id AS last_id ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) "
            "DEFINE A AS A.amount > 5, B AS B.amount > 100)",
        ),
    },
    "mini-batch": {
        "group": (
            "customer BIGINT, product STRING, n BIGINT, total DOUBLE",
            "SELECT customer, product, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer, product",
        ),
        "split_distinct": (
            "product STRING, people BIGINT, total DOUBLE",
            "SELECT product, COUNT(DISTINCT customer) AS people, SUM(amount) AS total FROM orders GROUP BY product",
        ),
        "deduplicate_last_rowtime": (
            "customer BIGINT, id BIGINT",
            _ranked("customer, id", "customer", "ts DESC") + " WHERE r = 1",
        ),
        "join_unique": (
            "id BIGINT, name STRING",
            "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.customer",
        ),
        "tumble": (
            "product STRING, starts TIMESTAMP(3), total DOUBLE",
            "SELECT product, window_start, SUM(amount) AS total "
            f"FROM {_TUMBLE} GROUP BY product, window_start, window_end",
        ),
    },
}
"""Case → query → columns of its sink, the query."""
QUERIES["multi-join"] = {
    "multi_join": (
        "id BIGINT, payer STRING, name STRING",
        "SELECT o.id, p.payer, c.name FROM orders o LEFT JOIN payments p ON o.id = p.order_id "
        "LEFT JOIN customers c ON o.id = c.customer",
    ),
    "multi_join_keys": (
        "customer BIGINT, name STRING, shop BIGINT, people BIGINT",
        "SELECT c.customer, c.name, s.shop, n.people FROM customers c JOIN shops s ON c.city = s.city "
        "JOIN (SELECT city, COUNT(*) AS people FROM customers GROUP BY city) n ON c.city = n.city",
    ),
}
QUERIES["recent"] = {
    "over_amounts": (
        "id BIGINT, total DOUBLE, mean INT",
        "SELECT id, SUM(amount) OVER (PARTITION BY product ORDER BY quantity) AS total, "
        "AVG(quantity) OVER (PARTITION BY product ORDER BY quantity) AS mean FROM orders",
    ),
    "over_amounts_rows": (
        "id BIGINT, total DOUBLE",
        "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY amount ROWS BETWEEN UNBOUNDED PRECEDING "
        "AND CURRENT ROW) AS total FROM orders",
    ),
    "in_order": (
        "product STRING, n BIGINT, ts TIMESTAMP(3)",
        "SELECT * FROM in_order(input => TABLE orders PARTITION BY product ORDER BY ts, on_time => DESCRIPTOR(ts), "
        "uid => 'orders-in-order')",
    ),
}
RELEASES_OF = {"plain": ("1.20", "2.3"), "mini-batch": ("1.20", "2.3"), "multi-join": ("2.3",), "recent": ("2.3",)}
"""Case → the releases that have what it uses."""

SETTINGS: dict[str, dict[str, str]] = {
    "plain": {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
    "mini-batch": {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "200 ms",
        "table.exec.mini-batch.size": "100",
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
        "table.optimizer.distinct-agg.split.enabled": "true",
    },
    "multi-join": {
        "table.optimizer.multi-join.enabled": "true",
    },
    "recent": {},
}
FUNCTIONS = {"recent": "CREATE FUNCTION in_order AS 'planned.InOrder'"}
"""Case → the functions that its queries call."""


def script(case: str, release: str) -> str:
    """The statements of a case: settings, tables, a sink and an INSERT per query."""
    settings = [f"SET '{name}' = '{value}'" for name, value in SETTINGS[case].items()]
    statements = [*settings, *(text.strip() for text in TABLES.strip().split(";\n"))]
    statements += [FUNCTIONS[case]] if case in FUNCTIONS else []
    for name, (columns, query) in QUERIES[case].items():
        statements.append(f"CREATE TABLE out_{name} ({columns}) WITH ('connector' = 'blackhole')")
        conflict = " ON CONFLICT DO DEDUPLICATE" if name == "materialized" and release != "1.20" else ""
        statements.append(f"INSERT INTO out_{name} {query}{conflict}")
    return ";\n".join(statement.rstrip(";") for statement in statements) + ";\n"


def write(release: str, cases: list[str]) -> None:
    """Has Flink run the cases in one JVM; packs what worked. Raises CalledProcessError if one did not."""
    root = RUN_ROOT / release
    shutil.rmtree(root, ignore_errors=True)
    for case in cases:
        home = root / f"{PLANNED}-{case}"
        home.mkdir(parents=True)
        (home / "job.sql").write_text(script(case, release))
        for table, rows in ROWS.items():
            (home / f"{table}.tsv").write_text(rows.strip().replace(" ", "\t") + "\n")
    folders = [*core_folders(release), JOBS / "planned"]
    folders += [JOBS / "planned_v2"] if line_number(release) >= (2, 0) else []
    path = os.pathsep.join([str(JOBS / "planned"), compiled(release, "fixtures", folders)])
    homes = [str(root / f"{PLANNED}-{case}") for case in cases]
    done = subprocess.run([*JAVA, "planned.Planned", *homes], check=False, env={**os.environ, "CLASSPATH": path})
    for case in cases:
        home = root / f"{PLANNED}-{case}"
        if (home / "native.path").is_file():
            _publish(release, case, home)
    done.check_returncode()


def _publish(release: str, case: str, home: Path) -> None:
    taken = Path((home / "snapshot.path").read_text().strip())
    name = f"{PLANNED}-{case}"
    manifest = {
        "release": release,
        "flink": RELEASES[release],
        "case": name,
        "job": PLANNED,
        "mode": case,
        "backend": "rocksdb" if case == "mini-batch" else "hashmap",
        "kind": "canonical",
        "parallelism": 1,
        "max_parallelism": 8,
        "snapshot": "snapshot",
        "original_root": f"file:{taken}",
    }
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / name
        shutil.copytree(taken, folder / "snapshot")
        shutil.copytree((home / "native.path").read_text().strip(), folder / "native")
        shutil.copy(home / "plan.json", folder)
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        pack(folder, FIXTURE_ARCHIVES / release / (name + SUFFIX))


@dataclass(frozen=True)
class PlannedJob:
    """A savepoint of a job that was started from a plan."""

    path: Path
    plan: CompiledPlan
    snapshot: Snapshot

    def operator(self, query: str) -> Operator:
        """The nearest operator with state before the sink of a query."""
        waiting = [node for node in self.plan.nodes if _sink_of(node) == f"out_{query}"]
        for node in waiting:
            rule = NODE_RULES.get(node.kind)
            if rule is not None and (node.kind != "stream-exec-sink" or node.at("requireUpsertMaterialize")):
                return self.snapshot.operator(f"{node.id}_{rule.transformation}")
            waiting += node.sources
        raise AssertionError(f"no operator of {query}")

    def rows(self, query: str, state: str) -> list[dict[str, Any]]:
        """The rows of a state, one per element of lists and entry of maps, without their key group."""
        view = self.operator(query).state(state)
        flatten = getattr(view, "kind", "") in ("list", "map")
        found = []
        for row in view.to_arrow(flatten=flatten).to_pylist():
            found.append({name: value for name, value in row.items() if name not in ("key_group", "list_index")})
        return sorted(found, key=in_order)


@cache
def planned_job(release: str, case: str, savepoint: str = "snapshot") -> PlannedJob:
    """The job of a case, its canonical savepoint or the one in ``native`` opened with its plan."""
    path = FIXTURES / release / f"plan-{case}"
    plan = path / "plan.json"
    return PlannedJob(path, read_plan(plan), stateproc.open(str(path / savepoint), plan=plan))


def _sink_of(node: PlanNode) -> str | None:
    identifier = node.at("dynamicTableSink", "table", "identifier")
    return identifier.rsplit(".", 1)[-1].strip("`") if isinstance(identifier, str) else None


def in_order(row: Any) -> str:
    """A sort key for rows."""
    return json.dumps(row, sort_keys=True, default=str)


def only(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    """Some columns of a row."""
    return {name: row[name] for name in columns}


def changes(table: str) -> Iterator[list[str]]:
    """The lines of a table's changes: kind, then values."""
    for line in ROWS[table].strip().splitlines():
        if line != "wait":
            yield line.split()


def orders() -> list[dict[str, Any]]:
    """The rows of the table ``orders``."""
    return [
        {
            "id": int(id_),
            "customer": int(customer),
            "product": product,
            "amount": float(amount),
            "quantity": int(quantity),
            "ts": datetime.fromisoformat(ts),
        }
        for _, id_, customer, product, amount, quantity, ts in changes("orders")
    ]


def payments() -> list[dict[str, Any]]:
    """The rows of the table ``payments``."""
    return [
        {"order_id": int(order), "payer": payer, "paid": float(paid), "ts": datetime.fromisoformat(ts)}
        for _, order, payer, paid, ts in changes("payments")
    ]


def rates() -> list[dict[str, Any]]:
    """The versions of the table ``rates``."""
    return [
        {"product": product, "rate": float(rate), "since": datetime.fromisoformat(since)}
        for _, product, rate, since in changes("rates")
    ]


def customers() -> list[dict[str, Any]]:
    """The rows of the table ``customers`` after all changes."""
    last = {int(number): (name, city) for kind, number, name, city in changes("customers") if kind != "-U"}
    return [{"customer": number, "name": name, "city": city} for number, (name, city) in last.items()]


def shops() -> list[dict[str, Any]]:
    """The rows of the table ``shops``."""
    return [{"shop": int(shop), "city": city, "title": title} for _, shop, city, title in changes("shops")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", action="append", choices=["1.20", "2.3"])
    parser.add_argument("--case", action="append", choices=list(QUERIES))
    chosen = parser.parse_args()
    for line in chosen.release or ["1.20", "2.3"]:
        write(line, [case for case in chosen.case or QUERIES if line in RELEASES_OF[case]])
