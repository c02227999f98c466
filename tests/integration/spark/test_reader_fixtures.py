"""What real Flink's jobs wrote down, row by row: every fixture through the reader as Spark's workers run it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stateproc.snapshot.snapshot import Snapshot
from stateproc.snapshot.state import State
from tests.helpers.fixtures import CLASSES, Fixture, differences, fixtures
from tests.helpers.spark.reader_contract import rows, selecting_exact


def _as_sent(table: pa.Table) -> pa.Table:
    """The batches through an Arrow stream, as they go from Spark's workers to its JVM."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_every_row_is_what_the_job_wrote(fixture: Fixture) -> None:
    def through_reader(_snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
        return list(_as_sent(rows(selecting_exact(fixture, state))).to_pylist())

    assert differences(fixture, fixture.open(classes=CLASSES, temporal="exact"), through_reader) == []
