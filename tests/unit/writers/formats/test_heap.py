"""Writing native heap files: the same entries as in Flink's own files, and files of the same size."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, DuplicateKey, InvalidEntries, UnsupportedSnapshot
from stateproc.readers.heap.reader import heap_entries, measure_heap, serialized_program
from stateproc.readers.key_group_blocks import KeyGroupRange, group_ranges, snappy_blocks
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Undecodable, read_snapshot
from stateproc.storage import ByteSource, InlineSource
from stateproc.writers.formats import heap
from stateproc.writers.formats.heap import HeapWriter
from tests.helpers.byte_builders.metadata import i32
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.writers.keyed_entries import (
    FIXTURES,
    Entry,
    batches,
    entries_of,
    handle_of,
    header_of,
    keyed_files,
)

Written = tuple[bytes, tuple[int, ...]]
Objects = list[tuple[int, int, bytes, bytes, Any]]
"""Key group, state id, namespace, key and value; a value is bytes, a list of bytes or a dict of bytes."""


def context(file: KeyedFile, snapshot: Path) -> LayoutContext:
    return LayoutContext(kryo=5 if snapshot.relative_to(FIXTURES).parts[0] >= "2" else 2)


def objects_in(
    source: ByteSource,
    ranges: list[KeyGroupRange],
    states: list[StateDescriptor | str],
    ctx: LayoutContext,
    compressed: bool,
) -> Objects:
    """Return all objects of a native heap file."""
    found: Objects = []
    for state_id, state in enumerate(states):
        assert isinstance(state, StateDescriptor)
        program = serialized_program(state, ctx)
        for columns in heap_entries(source, ranges, states, state, ctx, program, dict, compressed=compressed):
            groups, values = columns[KEY_GROUP].to_pylist(), columns["value"].to_pylist()
            nothing = [b""] * len(values)
            scopes = [columns[name].to_pylist() if name in columns else nothing for name in ("namespace", "key")]
            for group, namespace, key, value in zip(groups, *scopes, values, strict=True):
                if state.kind is StateKind.MAP:
                    value = {pair["key"]: pair["value"] for pair in value}
                found.append((group, state_id, namespace, key, value))
    return found


def suffix(part: bytes) -> bytes:
    """Return the length as Flink's CompositeKeySerializationUtils writes it."""
    return len(part).to_bytes(max(1, (len(part).bit_length() + 7) // 8), "little")


def raw_entries(objects: Objects, states: list[StateDescriptor | str]) -> list[Entry]:
    """Convert objects to canonical entries, sorted."""
    entries: list[Entry] = []
    for group, state_id, namespace, key, value in objects:
        state = states[state_id]
        assert isinstance(state, StateDescriptor)
        scope = key + namespace
        if state.key.length < 0 and state.namespace.length < 0:
            scope = key + suffix(key) + namespace + suffix(namespace)
        if state.kind.is_queue:
            entries.append((group, state_id, value, b""))
        elif state.kind is StateKind.LIST:
            entries.append((group, state_id, scope, b",".join(value)))
        elif state.kind is StateKind.MAP:
            entries += [(group, state_id, scope + user_key, item) for user_key, item in value.items()]
        else:
            entries.append((group, state_id, scope, value))
    return sorted(entries)


def order(objects: Objects) -> Objects:
    return sorted(objects, key=lambda item: (item[0], item[1], item[3], item[2], repr(item[4])))


def written(
    entries: list[Entry],
    states: list[StateDescriptor | str],
    key_groups: range,
    ctx: LayoutContext,
    *,
    header: bytes = b"header",
    compressed: bool = False,
    size: int = 1 << 20,
) -> tuple[bytes, tuple[int, ...], HeapWriter]:
    sink = io.BytesIO()
    writer = HeapWriter(sink, header, states, key_groups, ctx, compressed=compressed)
    for batch in batches(entries, size):
        writer.write(batch)
    offsets = writer.close()
    return sink.getvalue(), offsets, writer


@pytest.mark.parametrize("fixture", fixtures(backends=("hashmap", "jobmanager")), ids=lambda fixture: fixture.name)
def test_files_that_flink_wrote_are_reproduced(fixture: Fixture) -> None:
    """Compare every object; without compression also the size of the file and its offsets."""
    snapshot = Path(fixture.snapshot)
    files, found = keyed_files(snapshot, "heap"), 0
    for file in files:
        states, ctx, header = list(file.states), context(file, snapshot), header_of(file)
        ranges = list(file.ranges)
        try:
            objects = objects_in(file.source, ranges, states, ctx, header.compressed)
        except UnsupportedSnapshot:
            continue  # values whose end cannot be derived from their bytes
        entries = raw_entries(objects, states)
        kept = [item for item in objects if not (isinstance(item[4], list | dict) and not item[4])]
        for size in (2, 1 << 20):
            data, offsets, writer = written(
                entries, states, handle_of(file).key_groups, ctx, header=file.source.read(0, file.header_size),
                compressed=header.compressed, size=size,
            )  # fmt: skip
            source = InlineSource("written", data)
            again = group_ranges(handle_of(file).first_key_group, offsets, len(data), "written", empty=-1)
            assert order(objects_in(source, again, states, ctx, header.compressed)) == order(kept)
            if not header.compressed and len(kept) == len(objects):
                assert len(data) == file.source.size
                assert offsets == handle_of(file).offsets
            counts = measure_heap(source, again, states, ctx, compressed=header.compressed)
            assert (counts.entries == writer.entries).all()
        found += 1
    # Only savepoints of old releases are in the heap's format, others are canonical; some jobs have no keyed state.
    manifest = fixture.manifest
    if manifest["kind"] != "canonical" and manifest["job"] != "operators" and "changelog" not in manifest["mode"]:
        assert found >= max(1, len(files) - 1)


@pytest.mark.parametrize("name", ["kitchen", "windows"])
def test_canonical_entries_of_rocksdb_are_converted_to_heap_entries(name: str) -> None:
    """Entries that RocksDB wrote canonically become the heap backend's objects: lists with a count, whole maps."""
    snapshot = FIXTURES / f"1.20/{name}-rocksdb-canonical/snapshot"
    for file in keyed_files(snapshot, "canonical"):
        states, ctx, entries = list(file.states), context(file, snapshot), entries_of(file)
        data, offsets, _ = written(entries, states, handle_of(file).key_groups, ctx)
        again = group_ranges(handle_of(file).first_key_group, offsets, len(data), "written", empty=-1)
        assert [item.key_group for item in again] == list(handle_of(file).key_groups)
        objects = objects_in(InlineSource("written", data), again, states, ctx, False)
        assert raw_entries(objects, states) == sorted(entries)


INT, STRING = (
    read_snapshot(
        struct.pack(">H", len(name)) + name.encode() + i32(3)
    )
    for name in (
        f"org.apache.flink.api.common.typeutils.base.{kind}Serializer${kind}SerializerSnapshot"
        for kind in ("Int", "String")
    )
)  # fmt: skip


def state(kind: StateKind, state_id: int, user_key: Any = None) -> StateDescriptor:
    return StateDescriptor(kind.value, kind, state_id, STRING, STRING, INT, user_key)


STATES: list[StateDescriptor | str] = [
    state(StateKind.VALUE, 0),
    state(StateKind.LIST, 1),
    state(StateKind.MAP, 2, STRING),
]


def fstr(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def scope(key: str, namespace: str) -> bytes:
    return fstr(key) + suffix(fstr(key)) + fstr(namespace) + suffix(fstr(namespace))


ENTRIES: list[Entry] = [
    (1, 0, scope("a", "n"), i32(1)),
    (1, 1, scope("a", "n"), i32(1) + b"," + i32(2)),
    (1, 2, scope("a", "n") + fstr(""), b"\1"),
    (3, 2, scope("a", "n") + fstr("u"), b"\0" + i32(7)),
    (3, 2, scope("a", "n") + fstr("v"), b"\1\1\0"),
    (3, 2, scope("a", "nn") + fstr("u"), b"\0" + i32(8)),
    (3, 2, scope("b", "n") + fstr("u"), b"\0" + i32(9)),
]
PLAIN = [
    i32(0) + b"\0\0" + i32(0) + b"\0\1" + i32(0) + b"\0\2" + i32(0),
    i32(1)
    + b"\0\0" + i32(1) + fstr("n") + fstr("a") + i32(1)
    + b"\0\1" + i32(1) + fstr("n") + fstr("a") + i32(2, 1, 2)
    + b"\0\2" + i32(1) + fstr("n") + fstr("a") + i32(1) + fstr("") + b"\1",
    i32(2) + b"\0\0" + i32(0) + b"\0\1" + i32(0) + b"\0\2" + i32(0),
    i32(3) + b"\0\0" + i32(0) + b"\0\1" + i32(0) + b"\0\2" + i32(3)
    + fstr("n") + fstr("a") + i32(2) + fstr("u") + b"\0" + i32(7) + fstr("v") + b"\1"
    + fstr("nn") + fstr("a") + i32(1) + fstr("u") + b"\0" + i32(8)
    + fstr("n") + fstr("b") + i32(1) + fstr("u") + b"\0" + i32(9),
    i32(4) + b"\0\0" + i32(0) + b"\0\1" + i32(0) + b"\0\2" + i32(0),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("in_memory", [1, 1 << 20])
def test_bytes_of_every_kind_of_state(size: int, in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_IN_MEMORY", in_memory)
    data, offsets, writer = written(ENTRIES, STATES, range(5), LayoutContext(), size=size)
    assert data == b"header" + b"".join(PLAIN)
    assert offsets == tuple(6 + sum(map(len, PLAIN[:group])) for group in range(5))
    assert writer.entries.tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 3], [0, 0, 0]]


@pytest.mark.parametrize("size", [1, 100])
def test_each_compressed_state_is_a_stream_of_its_own(size: int) -> None:
    data, offsets, _ = written(ENTRIES, STATES, range(5), LayoutContext(), compressed=True, size=size)
    assert data.count(b"sNaPpY") == 3 * 5
    for item, plain in zip(group_ranges(0, offsets, len(data), "", empty=-1), PLAIN, strict=True):
        (block,) = snappy_blocks(InlineSource("", data), [item], 4)
        assert block.data.tobytes() == plain


def test_a_file_without_entries_is_written() -> None:
    data, offsets, _ = written([], STATES, range(2, 4), LayoutContext())
    empty = b"\0\0" + i32(0) + b"\0\1" + i32(0) + b"\0\2" + i32(0)
    assert (data, offsets) == (b"header" + i32(2) + empty + i32(3) + empty, (6, 28))
    assert written([], [], range(2), LayoutContext())[0] == b"header" + i32(0, 1)


@pytest.mark.slow
def test_a_large_map_and_a_large_list_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_IN_MEMORY", 1 << 10)
    pairs = sorted(fstr(f"{i:05}") for i in range(20_000))
    entries = [(0, 1, scope("a", "n"), b",".join(i32(i) for i in range(50_000)))]
    entries += [(0, 2, scope("a", "n") + pair, b"\0" + i32(i)) for i, pair in enumerate(pairs)]
    for size in (777, 1 << 20):
        data, _, _ = written(entries, STATES, range(1), LayoutContext(), size=size)
        assert data == b"".join([
            b"header", i32(0), b"\0\0", i32(0),
            b"\0\1", i32(1), fstr("n"), fstr("a"), i32(50_000, *range(50_000)),
            b"\0\2", i32(1), fstr("n"), fstr("a"), i32(20_000),
            *(pair + b"\0" + i32(i) for i, pair in enumerate(pairs)),
        ])  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ([ENTRIES[0], ENTRIES[0]], DuplicateKey, "two entries with the same key"),
        ([ENTRIES[1], ENTRIES[0]], InvalidEntries, "belongs after"),
        ([(1, 2, scope("a", "n") + fstr("u"), b"")], InvalidEntries, "has no null mark"),
        ([(1, 1, scope("a", "n"), b"\0\0")], CorruptSnapshot, "more bytes than there are"),
        ([(1, 0, b"\3a", i32(1))], CorruptSnapshot, "state 'value'"),
        ([(1, 3, b"\0", i32(1))], Undecodable, "the serializers of state 'unknown' are unknown"),
    ],
)
def test_invalid_entries_are_refused(entries: list[Entry], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        written(entries, [*STATES, "unknown"], range(5), LayoutContext())


def test_sliced_batches_and_large_binary_columns_are_written() -> None:
    batch = next(batches(ENTRIES))
    large = pa.record_batch(
        [*batch.columns[:2], *(column.cast(pa.large_binary()) for column in batch.columns[2:])],
        names=batch.schema.names,
    )
    for given in (batch, large):
        sink = io.BytesIO()
        writer = HeapWriter(sink, b"header", STATES, range(5), LayoutContext())
        writer.write(given.slice(0, 5))
        writer.write(given.slice(5))
        writer.close()
        assert sink.getvalue() == b"header" + b"".join(PLAIN)
