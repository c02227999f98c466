"""Payloads that the connectors' own classes wrote, with what those classes say of them: tests/vectors/connectors."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Versioned
from stateproc.connectors.registry import formats_of

VECTORS = Path(__file__).parents[1] / "vectors"


@dataclass(frozen=True)
class Vector:
    """One payload.

    Attributes:
        family: the file that it is in.
        name: what it is, unique with the artifact.
        role: where it is stored.
        item: version and payload.
        contents: what the connector's classes say of it; None if they were not asked.
    """

    family: str
    name: str
    artifact: str
    role: FormatRole
    item: Versioned
    contents: Any

    def __str__(self) -> str:
        return f"{self.family}-{self.name}-v{self.item.version}"


def connector_vectors() -> list[Vector]:
    """Return all vectors, in the order of their files."""
    found = []
    for path in sorted((VECTORS / "connectors").glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            item = Versioned(row["version"], base64.b64decode(row["payload"]))
            role = FormatRole[row["role"]]
            found.append(Vector(path.stem, row["name"], row["artifact"], role, item, row["contents"]))
    return found


def accepted(vector: Vector) -> tuple[ConnectorFormat, FormatRow]:
    """Return the first format of the vector's role that accepts it, and its row."""
    for known in formats_of(vector.role):
        row = known.read(vector.item)
        if row is not None and (known.identifies(row) or known.name == NAMES.get(vector.family)):
            return known, row
    raise AssertionError(f"no format accepts {vector}")


NAMES = {
    "filesource": "file",
    "filesink": "file sink",
    "hybrid": "hybrid",
    "iceberg": "iceberg",
    "kinesis-streams": "kinesis",
    "mongodb": "mongodb",
    "paimon": "paimon",
    "pulsar": "pulsar",
    "mysql-cdc": "mysql-cdc",
    "postgres-cdc": "flink-cdc",
    "oracle-cdc": "flink-cdc",
    "mongodb-cdc": "flink-cdc",
    "debezium-legacy": "debezium",
    "async-sinks-aws": "dynamodb",
}
"""File of vectors → the format that they have; `jdbc` has several."""
ALSO = ("cdc stream", "jdbc", "jdbc xa", "local", "s3", "hadoop", "async sink, nothing buffered")
