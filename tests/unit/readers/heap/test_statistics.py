"""Entry counts of native heap files: as many entries as rows, and sizes that add up to the file's size."""

from __future__ import annotations

import pytest

import stateproc
from stateproc.readers.heap.reader import measure_heap
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.storage import InlineSource
from tests.helpers.fixtures import fixtures

CASES = [
    item
    for item in fixtures()
    if item.name
    in ("1.20/kitchen-hashmap-checkpoint", "2.3/windows-hashmap-checkpoint", "1.8/kitchen-hashmap-checkpoint")
    or item.name.endswith(("tiny-hashmap-checkpoint-snappy", "kitchen-hashmap-native"))
]


@pytest.mark.parametrize("fixture", CASES, ids=lambda item: item.name)
def test_entry_counts_equal_row_counts_and_bytes_add_up(fixture) -> None:
    snapshot = fixture.open()
    measured = 0
    for operator in snapshot.operators:
        rows = {state.name: state.to_arrow().num_rows for state in operator._keyed.values()}
        found = dict.fromkeys(rows, 0)
        for file in operator.keyed_files:
            assert file.layout == "heap" and file.header is not None
            compressed = file.header.compressed
            counts = measure_heap(
                file.source, file.ranges, file.states, snapshot.options.context, compressed=compressed
            )
            for index, state in enumerate(file.states):
                assert isinstance(state, StateDescriptor)
                found[state.name] += int(counts.entries[:, index].sum())
            if not compressed:
                empty = (counts.entries == 0).sum() * 6
                assert counts.bytes.sum() + empty + 4 * len(file.ranges) == file.data_bytes
            measured += 1
        assert found == rows
    assert measured > 0


def test_damaged_state_ids_and_short_ranges_are_refused() -> None:
    file = next(file for operator in CASES[0].open().operators for file in operator.keyed_files)
    context = CASES[0].open().options.context
    data = bytearray(file.source.read_all(1 << 30))
    data[file.ranges[0].start + 4 : file.ranges[0].start + 6] = b"\x7f\xff"
    damaged = InlineSource("damaged", bytes(data))
    with pytest.raises(stateproc.CorruptSnapshot, match="damaged"):
        measure_heap(damaged, file.ranges, file.states, context, compressed=False)
    short = file.ranges[0].__class__(file.ranges[0].key_group, file.ranges[0].start, file.ranges[0].stop - 1)
    with pytest.raises(stateproc.CorruptSnapshot):
        measure_heap(file.source, [short], file.states, context, compressed=False)
