"""Raw entries of real snapshots, as writers take them, for the tests of writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

import stateproc
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.readers.canonical.reader import canonical_entries
from stateproc.readers.key_group_blocks import KeyGroupRange, group_ranges
from stateproc.readers.keyed_file import KeyedFile
from stateproc.storage import ByteSource, InlineSource
from stateproc.writers.formats.entry_batches import RAW_ENTRIES
from tests.helpers.paths import FIXTURES

Entry = tuple[int, int, bytes, bytes]
"""Key group, state id, composite key, value."""


def snapshots(*releases: str) -> list[Path]:
    return sorted({path.parent for name in releases or ("*",) for path in FIXTURES.glob(f"{name}/**/_metadata")})


def keyed_files(snapshot: Path, layout: str) -> list[KeyedFile]:
    """Managed keyed state of this layout, of all subtasks of all operators."""
    operators = stateproc.open(str(snapshot)).operators
    return [file for operator in operators for file in operator.keyed_files if file.layout == layout]


def header_of(file: KeyedFile) -> KeyedHeader:
    header = file.header
    assert header is not None
    return header


def handle_of(file: KeyedFile) -> KeyGroupsHandle:
    assert isinstance(file.handle, KeyGroupsHandle)
    return file.handle


def entries_of(file: KeyedFile) -> list[Entry]:
    """All entries of a canonical file: by key group and state, within these as in the file."""
    header = header_of(file)
    return entries_in(file.source, file.ranges, file.max_parallelism, len(header.states), header.compressed)


def entries_written(
    data: bytes, offsets: Sequence[int], key_groups: range, max_parallelism: int, n_states: int, compressed: bool
) -> list[Entry]:
    """All entries of a canonical file of these bytes."""
    ranges = group_ranges(key_groups.start, offsets, len(data), "written")
    return entries_in(InlineSource("written", data), ranges, max_parallelism, n_states, compressed)


def entries_in(
    source: ByteSource, ranges: Sequence[KeyGroupRange], max_parallelism: int, n_states: int, compressed: bool
) -> list[Entry]:
    found: list[Entry] = []
    for state_id in range(n_states):
        for chunk in canonical_entries(
            source, ranges, compressed=compressed, prefix=prefix_width(max_parallelism), state_id=state_id,
            n_states=n_states,
        ):  # fmt: skip
            data = chunk.data.tobytes()
            for group, (k0, k1, v0, v1) in zip(chunk.key_groups.tolist(), chunk.ranges.T.tolist(), strict=True):
                found.append((group, state_id, data[k0:k1], data[v0:v1]))
    return sorted(found, key=lambda entry: entry[:2])


def batches(entries: Sequence[Entry], size: int = 1 << 20) -> Iterator[pa.RecordBatch]:
    """The entries, ``size`` at a time."""
    for at in range(0, len(entries), size):
        columns = [list(column) for column in zip(*entries[at : at + size], strict=True)]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW_ENTRIES, strict=True)]
        yield pa.record_batch(arrays, schema=RAW_ENTRIES)
