"""Snapshots with 10,000 splits, chunks or files: `offsets` and `pending` list each of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.connectors.connector_format import written_version
from stateproc.connectors.operator_states import enumerator_format
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.connector_vectors import Vector, accepted, connector_vectors

MANY = 10_000
VECTORS = connector_vectors()


def vector(family: str, name: str) -> Vector:
    return next(item for item in VECTORS if item.family == family and item.name.startswith(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name", "state", "question"),
    [
        ("mysql-cdc", "mysql-snapshot-read-finished", "SourceReaderState", Snapshot.offsets),
        ("postgres-cdc", "postgres-snapshot-read-finished", "SourceReaderState", Snapshot.offsets),
        ("filesource", "filesource-1.20/SourceReaderState", "SourceReaderState", Snapshot.offsets),
        ("iceberg", "iceberg-split-v3", "SourceReaderState", Snapshot.offsets),
        ("filesink", "filesink-1.20/writer", "writer_raw_states", Snapshot.pending),
        ("filesink", "sql-filesystem-1.20/bucket", "bucket-states", Snapshot.pending),
        ("filesink", "filesink-compact-1.20/remaining_compact", "remaining_compact_commit_raw_state", Snapshot.pending),
    ],
)
def test_many_elements(
    family: str, name: str, state: str, question: Callable[[Snapshot], pa.Table], tmp_path: Path
) -> None:
    item = vector(family, name).item
    elements = pa.table({"value": pa.array([written_version(item.version, item.payload)] * MANY, pa.binary())})
    bootstrap = OperatorBootstrap().operator_list_state(state, elements)
    SavepointWriter.new_savepoint(None).with_operator("source", bootstrap).write(str(tmp_path / "t"))
    assert question(stateproc.open(tmp_path / "t")).num_rows == MANY


@pytest.mark.slow
@pytest.mark.parametrize("family", ["mysql-cdc", "oracle-cdc"])
def test_an_enumerator_of_many_chunks(family: str) -> None:
    found = vector(family, f"{family.removesuffix('-cdc')}-enumerator-hybrid-snapshotting")
    known, row = accepted(found)
    chunk, offset = row["assigned_splits"][1], row["finished_offsets"][0]
    chunks = []
    for number in range(MANY):
        # The bounds of every chunk are others: Object[] of a Long.
        split = copy.deepcopy(chunk["split"]) | {"split_id": f"t:{number}"}
        split["start_stream"] = split["start_stream"][:-8] + number.to_bytes(8, "big")
        split["end_stream"] = split["end_stream"][:-8] + (number + 1).to_bytes(8, "big")
        chunks.append({"split_id": f"t:{number}", "split": split})
    row["assigned_splits"] = chunks
    row["finished_offsets"] = [offset | {"split_id": item["split_id"]} for item in chunks]
    item = known.write(found.item.version, row)
    decoded = enumerator_format(item, None)
    assert decoded is not None and known.positions is not None
    (whole, *_) = known.positions(decoded[1])
    assert whole.position == f"{MANY} of {MANY + 1}"
    assert decoded[1]["assigned_splits"][7]["split"]["start"] == ["7"]
