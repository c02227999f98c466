"""Rows that Flink jobs recorded, compared with those of the data source reader for every fixture.

Of a chain the last snapshot is read, which refers to files of those before it; `tests/unit/snapshot/test_fixtures.py`
reads all of them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stateproc.model.state import State
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import CLASSES, Fixture, differences, fixtures
from tests.helpers.spark.reader_contract import rows, selecting_exact


def _as_sent(table: pa.Table) -> pa.Table:
    """Send the batches through an Arrow stream, like Spark's workers send them to the JVM."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _chosen() -> list[Fixture]:
    """Return every fixture, of each chain only the last snapshot."""
    last = {item.path: item for item in fixtures()}
    return list(last.values())


@pytest.mark.parametrize("fixture", _chosen(), ids=lambda fixture: fixture.name)
def test_every_row_equals_the_one_that_the_job_recorded(fixture: Fixture) -> None:
    def through_reader(_snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
        return list(_as_sent(rows(selecting_exact(fixture, state))).to_pylist())

    assert differences(fixture, fixture.open(classes=CLASSES, temporal="exact"), through_reader) == []
