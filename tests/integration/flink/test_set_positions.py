"""Connectors' own classes find the positions that were set in splits, and have the same offsets for them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from stateproc.connectors.connector_format import FormatRole, Versioned
from tests.helpers.connector_vectors import Vector, accepted, connector_vectors
from tests.helpers.flink.connector_classes import CONNECTORS, Connector, asked
from tests.helpers.writers.source_savepoints import OLD_FACTORY, old_postgres_split

pytestmark = pytest.mark.flink

GTIDS = "24bc7850-2c16-11e6-a073-0242ac110002:1-500:502-503,3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"
TOKEN = '{"_data": "8264F1C0FF0000000A2B022C0100296E5A1004B1C0FFEE46645F696400646400"}'
GIVEN: dict[str, dict[str, list[str]]] = {
    "mysql": {
        "mysql-bin.000044:12": ["file", "mysql-bin.000044", "12"],
        GTIDS: ["gtids", GTIDS],
        "earliest": ["earliest"],
        "latest": ["latest"],
        "2026-01-31T12:00:00+01:00": ["time", "1769857200"],
    },
    "postgres": {"0/16E9A50": ["LSN{0/16E9A50}"], "16/B374D848": ["LSN{16/B374D848}"]},
    "oracle": {"2870000": ["scn", "2870000"]},
    "mongodb": {
        TOKEN: ["token", TOKEN],
        "1767225600.7": ["timestamp", "1767225600", "7"],
        "2026-01-31T12:00:00.250Z": ["time", "1769860800250"],
    },
    "pulsar": {"after 5123:77": ["id", "5123", "77"], "after 0:300": ["id", "0", "300"]},
}
"""Database → position → the question of the program that has the connector's own offset for it."""


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: connector.name)
def test_the_connector_finds_the_position(connector: Connector) -> None:
    database = connector.folders[-1]
    lines, wanted = [], []
    for vector in splits(connector):
        known, row = accepted(vector)
        (split,) = (position.split for position in (known.positions or list)(row))
        for text, question in GIVEN[database].items():
            assert known.moved is not None
            moved = known.moved(row, {split: text})
            item = known.write(vector.item.version, moved)
            lines.append("\t".join([str(item.version), item.payload.hex(), *question]))
            wanted.append((vector, known, moved, question))
    assert len(lines) >= len(GIVEN[database])
    for (vector, known, moved, question), (found, own, written) in zip(wanted, asked(connector, lines), strict=True):
        assert found == stored(moved)
        if database == "postgres":
            # Debezium streams from the LSN, and knows of no transaction that was read.
            assert own == f"{question[0]} true null null false"
        else:
            assert own == found
        again = known.read(Versioned(vector.item.version, bytes.fromhex(written)))
        assert again is not None
        assert plain(again) == plain(moved)


def test_flink_cdc_3_reads_the_splits_of_2_with_other_names_of_classes_only() -> None:
    """A split of 2.4.2, written by its own classes."""
    old, new = (next(it for it in CONNECTORS if it.name.endswith(f"postgres-cdc:{release}"))
                for release in ("2.4.2", "3.5.0"))  # fmt: skip
    (vector,) = (item for item in splits(new) if item.name == "postgres-stream")
    known, row = accepted(vector)
    item = old_postgres_split()
    ((offset, _, written),) = asked(old, [f"4\t{item.payload.hex()}\tx"])
    assert bytes.fromhex(written).count(OLD_FACTORY.hex().encode()) == len(row["finished_splits"])
    with pytest.raises(subprocess.CalledProcessError) as caught:
        asked(new, [f"4\t{written}\tx"])
    assert "com.ververica.cdc.connectors.postgres.source.offset.PostgresOffsetFactory" in caught.value.stderr
    found = known.read(Versioned(4, bytes.fromhex(written)))
    assert found is not None and known.renamed is not None
    renamed = known.write(4, known.renamed(found))
    ((again, _, _),) = asked(new, [f"4\t{renamed.payload.hex()}\tx"])
    assert again == offset


def splits(connector: Connector) -> list[Vector]:
    """The connector's splits that stream, in its newest version."""
    found = []
    for vector in connector_vectors():
        if vector.role is FormatRole.SPLIT and vector.artifact.partition(" ")[0] == connector.name:
            _, row = accepted(vector)
            waiting = row.get("total_finished_splits", 0) > len(row.get("finished_splits", ()))
            if row.get("kind") != "snapshot" and not (row.get("suspended") or waiting or "bounded" in vector.name):
                found.append(vector)
    return found


def stored(row: dict[str, Any]) -> str:
    """The offset as Java shows a map; of Pulsar the message id."""
    if "message_id" in row:
        return str(row["message_id"].hex())
    pairs = sorted(row["starting_offset"])
    return "{" + ", ".join(f"{key}={'null' if value is None else value}" for key, value in pairs) + "}"


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row without the order of an offset's keys and of tables, which Java's maps do not keep."""
    found = {name: dict(value) if name.endswith("_offset") and value else value for name, value in row.items()}
    return {**found, "schemas": sorted(row.get("schemas", ()), key=lambda item: item["table"])}
