"""The states of queries that real Flink ran from compiled plans (`tests/helpers/flink/planned_queries.py`)."""

from __future__ import annotations

import json
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
from tests.helpers.flink.planned_queries import ROWS
from tests.helpers.paths import FIXTURES


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
