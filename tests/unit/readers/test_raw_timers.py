"""Reading of heap timers in raw keyed state."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stateproc.errors import UnsupportedSnapshot
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.readers.timers import open_raw_timers, raw_ranges, with_service
from stateproc.storage import open_handle
from tests.helpers.fixtures import fixtures


def test_oversized_key_groups_are_reported_as_unsupported_not_corrupt() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/tiny-rocksdb-full-heaptimers")
    snapshot = fixture.open()
    checked = 0
    for operator in snapshot.operators:
        for subtask in operator.metadata.subtasks:
            handle = subtask.raw_keyed
            if not isinstance(handle, KeyGroupsHandle):
                continue
            source = open_handle(handle.stream, snapshot.location)
            ranges = raw_ranges(handle, source.size)
            sizes = {item.key_group: item.stop - item.start for item in ranges}
            largest = max(sizes.values())
            whole = open_raw_timers(handle, snapshot.location, largest)
            assert whole == open_raw_timers(handle, snapshot.location)
            if whole is None:
                continue
            with pytest.raises(UnsupportedSnapshot) as refused:
                open_raw_timers(handle, snapshot.location, largest - 1)
            group = next(item.key_group for item in ranges if sizes[item.key_group] == largest)
            assert refused.value.message == (
                f"the timers of key group {group} have {largest} bytes, more than the {largest - 1} that can be read "
                "at once"
            )
            assert refused.value.where.file == source.name
            checked += 1
    assert checked


@pytest.mark.parametrize("name", ["timers", "Zeitgeber für Tage", ""])
def test_the_service_is_a_column_of_every_row(name: str) -> None:
    timers = pa.record_batch({"timestamp": [3, 1, 2]}).slice(1)
    (batch,) = with_service(timers, name)
    assert batch.to_pydict() == {"timestamp": [1, 2], "service": [name, name]}
    assert batch.schema.field("service").type == pa.string()


@pytest.mark.slow
def test_long_names_of_services_divide_a_batch() -> None:
    name = "x" * (30 << 20)
    batches = list(with_service(pa.record_batch({"timestamp": [1, 2, 3, 4, 5]}), name))
    assert [batch.column("timestamp").to_pylist() for batch in batches] == [[1, 2], [3, 4], [5]]
    assert all(batch.nbytes <= 65 << 20 for batch in batches)
