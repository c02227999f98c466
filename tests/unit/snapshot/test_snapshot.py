"""Properties of a snapshot, and its states as pandas DataFrames."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from stateproc.storage import sources
from tests.helpers.fixtures import fixtures


@pytest.mark.parametrize(
    "name", ["1.20/kitchen-hashmap-canonical", "1.20/kitchen-rocksdb-incremental", "2.3/kitchen-hashmap-canonical"]
)
def test_pandas_data_frames_keep_every_value(name: str) -> None:
    fixture = next(item for item in fixtures() if item.name == name)
    compared = 0
    for state in fixture.open().states:
        if state.problem is None:
            table = state.to_arrow()
            frame = state.to_pandas()
            assert pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False).equals(table)
            assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
            compared += 1
    assert compared > 10


KINDS = {
    "1.20/kitchen-hashmap-canonical": "canonical savepoint",
    "1.20/kitchen-hashmap-checkpoint": "checkpoint",
    "1.8/kitchen-hashmap-canonical": "savepoint or checkpoint",
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_is_derived_without_reading_state_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = next(item for item in fixtures() if item.name == name).open()

    def read(*_: object) -> bytes:
        raise AssertionError("a state file was read")

    monkeypatch.setattr(sources.FileSource, "read", read)
    assert snapshot.kind == KINDS[name]
