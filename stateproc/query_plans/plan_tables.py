"""The tables of a plan's sources and sinks: which one it is, its schema, and whether its rows are changes."""

from __future__ import annotations

import json
from typing import Any

from stateproc.query_plans.plan_file import PlanNode

SCAN, SINK = "stream-exec-table-source-scan", "stream-exec-sink"
TABLES = {SCAN: ("scanTableSource", "table"), SINK: ("dynamicTableSink", "table")}
"""Nodes of tables, and where they say which one."""
_PLACES = (
    "connector", "topic", "topics", "topic-pattern", "path", "url", "hostname", "port", "database-name", "schema-name",
    "table-name", "database", "collection", "stream", "stream.arn", "slot.name", "service-url", "catalog-database",
    "catalog-table",
)  # fmt: skip
"""Options that say where the rows of a table are."""
_OF_CHANGES = ("debezium", "canal", "maxwell", "ogg")
"""Formats of rows that are changes."""


def table_of(node: PlanNode) -> str | None:
    """Return the table that a source reads or a sink writes; None for others, and for tables without a name."""
    if node.kind not in TABLES:
        return None
    found = node.at(*TABLES[node.kind], "identifier")
    return found if isinstance(found, str) else None


def table_place(node: PlanNode) -> str | None:
    """Return what makes a table another one: its name, and the options that say where its rows are."""
    return None if table_of(node) is None else json.dumps(table_identity(node), sort_keys=True)


def table_schema(node: PlanNode) -> Any:
    """Return the declared schema of a table; None where the plan does not have it."""
    return node.at(*TABLES[node.kind], "resolvedTable", "schema")


def declared_columns(node: PlanNode) -> list[dict[str, Any]]:
    """Return the declared columns of a table, computed ones too; none where the plan does not have its schema."""
    columns = node.at(*TABLES[node.kind], "resolvedTable", "schema", "columns")
    return [one for one in columns if isinstance(one, dict)] if isinstance(columns, list) else []


def sink_columns(node: PlanNode) -> list[tuple[str, Any]]:
    """Return the columns that a sink writes, with their types as the plan has them."""
    columns = [one for one in declared_columns(node) if "expression" not in one and one.get("kind") != "METADATA"]
    return [(str(one.get("name")), one.get("dataType")) for one in columns]


def primary_key(node: PlanNode) -> list[int]:
    """Return the positions of the columns of a sink's primary key among those that it writes; none if one is not."""
    names = [name for name, _ in sink_columns(node)]
    written = node.items(*TABLES[SINK], "resolvedTable", "schema", "primaryKey", "columns")
    return [names.index(name) for name in written] if all(name in names for name in written) else []


def table_identity(node: PlanNode) -> Any:
    known = _options(node)
    return [table_of(node), {name: known[name] for name in _PLACES if name in known}]


def has_changes(node: PlanNode) -> bool:
    """Whether a source is known to return changes and not only new rows."""
    known = _options(node)
    formats = [str(value) for name, value in known.items() if str(name).endswith("format")]
    return str(known.get("connector")).endswith("-cdc") or any(one in text for text in formats for one in _OF_CHANGES)


def _options(node: PlanNode) -> dict[str, Any]:
    options = node.at(*TABLES[node.kind], "resolvedTable", "options")
    return options if isinstance(options, dict) else {}
