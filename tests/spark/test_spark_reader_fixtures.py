"""What real Flink's jobs wrote down, row by row: every fixture through the reader as Spark's workers run it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from fixtures_check import Fixture, differences, fixtures
from spark_contract import rows

from stateproc.snapshot import Snapshot
from stateproc.states import State

CLASSES = {
    "fixtures.Edges$Dog": {"legs": "int", "name": "String", "weight": "Double"},
    "fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"},
}
"""What no snapshot tells: fields of Kryo classes, and of POJO subclasses that heap snapshots do not list."""


def _options(fixture: Fixture, state: State) -> dict[str, str]:
    """The source's options that select the state."""
    if state.kind.endswith(" timers"):
        selected = {"timers": state.kind.removesuffix(" timers")}
    else:
        selected = {"state": state.name}
    uids = sorted({line["uid"] for line in fixture.expected() if line["uid"]})
    common = {"uids": ",".join(uids), "temporal": "exact", "classes": json.dumps(CLASSES)}
    if fixture.manifest.get("key_type"):
        common["keyType"] = fixture.manifest["key_type"]
    return {"path": fixture.snapshot, "uidHash": state.operator.operator_id, **common, **selected}


def _as_sent(table: pa.Table) -> pa.Table:
    """The batches through an Arrow stream, as they go from Spark's workers to its JVM."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_every_row_is_what_the_job_wrote(fixture: Fixture) -> None:
    def through_reader(_snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
        return list(_as_sent(rows(_options(fixture, state))).to_pylist())

    assert differences(fixture, fixture.open(classes=CLASSES, temporal="exact"), through_reader) == []
