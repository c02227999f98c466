"""Writing canonical files: byte for byte those of RocksDB, entry for entry all others; refusal of invalid entries."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import DuplicateKey, InvalidEntries
from stateproc.readers.key_group_blocks import group_ranges, snappy_blocks
from stateproc.readers.keyed_file import KeyedFile
from stateproc.storage import InlineSource
from stateproc.writers.formats import canonical
from stateproc.writers.formats.canonical import CanonicalWriter
from stateproc.writers.formats.entry_batches import RAW_ENTRIES, ByteColumn, EntryColumns, byte_column
from stateproc.writers.formats.order_check import OrderCheck
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.writers.keyed_entries import (
    Entry,
    batches,
    entries_of,
    entries_written,
    handle_of,
    header_of,
    keyed_files,
)

Written = tuple[bytes, tuple[int, ...]]


def written(
    entries: list[Entry],
    *,
    key_groups: range = range(128),
    max_parallelism: int = 128,
    header: bytes = b"header",
    states: tuple[str, ...] = ("first", "second"),
    compressed: bool = False,
    size: int = 1 << 20,
) -> Written:
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, header, states, key_groups, max_parallelism, compressed=compressed)
    for batch in batches(entries, size):
        writer.write(batch)
    offsets = writer.close()
    assert int(writer.entries.sum()) == len(entries)
    return sink.getvalue(), offsets


def rewritten(file: KeyedFile, entries: list[Entry], size: int) -> Written:
    """Write the entries to a file with the header of ``file``."""
    header = header_of(file)
    return written(
        entries, key_groups=handle_of(file).key_groups, max_parallelism=file.max_parallelism,
        header=file.source.read(0, file.header_size), states=tuple(state.name for state in header.states),
        compressed=header.compressed, size=size,
    )  # fmt: skip


def plain_groups(data: bytes, offsets: tuple[int, ...]) -> list[tuple[int, bytes]]:
    """Return the key groups of a compressed file as (key group, decompressed bytes)."""
    source = InlineSource("data", data)
    return [
        (item.key_group, b"".join(block.data.tobytes() for block in snappy_blocks(source, [item])))
        for item in group_ranges(0, offsets, len(data), "data")
    ]


def by_rocksdb(fixture: Fixture) -> bool:
    """Return whether RocksDB wrote all of the snapshot's keyed state; heap timers are in the heap's order."""
    return fixture.manifest["backend"] == "rocksdb" and "heaptimers" not in fixture.manifest["mode"]


@pytest.mark.parametrize("fixture", fixtures("canonical"), ids=lambda fixture: fixture.name)
def test_files_that_flink_wrote_are_reproduced(fixture: Fixture) -> None:
    """RocksDB's files, whose entries are sorted, are reproduced byte for byte, the heap's entry for entry."""
    for file in keyed_files(Path(fixture.snapshot), "canonical"):
        found, header, flinks = entries_of(file), header_of(file), file.source.read(0, file.source.size)
        entries = sorted(found)
        for size in (1, 7, 1 << 20):
            data, offsets = rewritten(file, entries, size)
            again = entries_written(
                data, offsets, handle_of(file).key_groups, file.max_parallelism, len(header.states),
                header.compressed,
            )  # fmt: skip
            assert again == entries
            if not by_rocksdb(fixture):
                continue
            assert found == entries
            if header.compressed:
                assert plain_groups(data, offsets) == plain_groups(flinks, handle_of(file).offsets)
            else:
                assert (data, offsets) == (flinks, handle_of(file).offsets)


def test_the_example_of_the_format_description() -> None:
    """Key group 5, Tuple1<Long>(7) in VoidNamespace, the Long 9."""
    key, value = (7).to_bytes(8, "big") + b"\0", (9).to_bytes(8, "big")
    entry = bytes.fromhex("0000000a 85 000000000000000700 00000008 0000000000000009 ffff".replace(" ", ""))
    data, offsets = written([(5, 0, key, value)])
    assert data == b"header" + b"\0\0" + entry
    assert offsets == (*[0] * 5, 6, *[0] * 122)
    data, _ = written([(5, 0, key, value)], max_parallelism=129)
    assert data[8:].startswith(bytes.fromhex("0000000b8005"))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("max_parallelism", "groups"), [(128, (0, 1, 127)), (129, (0, 127, 128)), (32768, (0, 32767))])
def test_states_and_key_groups(max_parallelism: int, groups: tuple[int, ...], compressed: bool) -> None:
    entries = [
        (group, state, key, value)
        for group in groups
        for state in (0, 2)
        for key, value in ((b"", b""), (b"\0", b"v"), (b"\x7f", b""), (b"\x80\xff", b"\0" * 300), (b"\xff", b"w"))
    ]
    key_groups = range(max_parallelism)
    for size in (1, 3, 1 << 20):
        data, offsets = written(
            entries, key_groups=key_groups, max_parallelism=max_parallelism, states=("a", "b", "c"), size=size,
            compressed=compressed,
        )  # fmt: skip
        assert [group for group in key_groups if offsets[group]] == list(groups)
        assert entries_written(data, offsets, key_groups, max_parallelism, 3, compressed) == entries


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("several", [(50, 8 << 20), pytest.param((1, 1000, 8 << 20), marks=pytest.mark.exhaustive)])
def test_files_do_not_depend_on_the_batches_of_entries(
    several: tuple[int, ...], compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(4)
    whole: list[Written] = []
    entries = sorted(
        {
            (rng.randrange(40, 60), rng.randrange(2), rng.randbytes(rng.randrange(4))): rng.randbytes(rng.randrange(90))
            for _ in range(1200)
        }.items()
    )
    rows = [(*key, value) for key, value in entries]
    for at_once in several:
        monkeypatch.setattr(canonical, "_AT_ONCE", at_once)
        for size in (1, 2, 999, 1 << 20):
            whole.append(written(rows, key_groups=range(40, 60), compressed=compressed, size=size))
    assert len(set(whole)) == 1
    data, offsets = whole[0]
    assert entries_written(data, offsets, range(40, 60), 128, 2, compressed) == rows


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_large_values_are_written(compressed: bool) -> None:
    value = random.Random(1).randbytes(11 << 20) + bytes(1 << 20)
    entries = [(3, 0, b"a", value), (3, 0, b"b", b""), (3, 1, b"a", value[::-1]), (4, 0, b"a", b"end")]
    for size in (1, 4):
        data, offsets = written(entries, compressed=compressed, size=size)
        assert entries_written(data, offsets, range(128), 128, 2, compressed) == entries


def test_a_file_without_entries_contains_only_its_header() -> None:
    for rows in ([], [pa.RecordBatch.from_pylist([], schema=RAW_ENTRIES)]):
        sink = io.BytesIO()
        writer = CanonicalWriter(sink, b"header", ("s",), range(2, 4), 128)
        for batch in rows:
            writer.write(batch)
        assert (writer.close(), sink.getvalue()) == ((0, 0), b"header")


def test_sliced_batches_and_large_binary_columns_are_written() -> None:
    entries = [(1, 0, bytes([i]), b"v" * i) for i in range(10)]
    batch = next(batches(entries))
    large = pa.record_batch(
        [*batch.columns[:2], *(column.cast(pa.large_binary()) for column in batch.columns[2:])],
        names=RAW_ENTRIES.names,
    )
    for given in (batch, large):
        sink = io.BytesIO()
        writer = CanonicalWriter(sink, b"header", ("first", "second"), range(128), 128)
        writer.write(given.slice(0, 4))
        writer.write(given.slice(4))
        assert (sink.getvalue(), writer.close()) != written(entries)
        assert sink.getvalue() == written(entries)[0]


@pytest.mark.parametrize("size", [1, 2])
def test_duplicate_keys_are_refused(size: int) -> None:
    key = bytes(range(40))
    with pytest.raises(DuplicateKey) as caught:
        written([(1, 1, key, b"x"), (1, 1, key, b"y")], size=size)
    assert str(caught.value).startswith(
        f"two entries with the same key (key group 1, key bytes {key[:32].hex()}…) [state 'second']"
    )
    assert "aggregate the rows" in str(caught.value)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((1, 1, b"a", b""), "comes after one that belongs after it"),
        ((1, 1, b"ab", b""), "comes after one that belongs after it"),
        ((1, 0, b"z", b""), "comes after one that belongs after it"),
        ((0, 1, b"z", b""), "comes after one that belongs after it"),
        ((2, 2, b"z", b""), "of state 2, where the header has 2 states"),
        ((2, -1, b"z", b""), "of state -1"),
        ((9, 1, b"z", b""), "in a file of the key groups 0 to 8"),
    ],
)
def test_entries_out_of_order_or_of_unknown_states_are_refused(second: Entry, message: str, size: int) -> None:
    with pytest.raises(InvalidEntries, match=message) as caught:
        written([(1, 1, b"abc", b""), second], key_groups=range(9), size=size)
    assert not isinstance(caught.value, DuplicateKey)


def test_batches_of_another_schema_or_with_nulls_are_refused() -> None:
    good = next(batches([(1, 0, b"k", b"v")]))
    writer = CanonicalWriter(io.BytesIO(), b"", ("s",), range(9), 128)
    with pytest.raises(InvalidEntries, match="need a column 'value' of large_binary, not None"):
        writer.write(good.select(["key_group", "state_id", "key"]))
    with pytest.raises(InvalidEntries, match="need a column 'key_group' of int32, not int64"):
        writer.write(good.set_column(0, "key_group", pa.array([1], pa.int64())))
    for column, message in ((1, "a null in the column 'state_id'"), (3, "a null among the bytes")):
        nulls = pa.nulls(1, good.column(column).type)
        with pytest.raises(InvalidEntries, match=message):
            writer.write(good.set_column(column, good.schema.names[column], nulls))


@pytest.mark.parametrize("size", [(1 << 31) - 1, 1 << 40])
def test_values_of_two_gibibytes_are_refused(size: int) -> None:
    """Lengths are i32; the value is refused before its bytes are accessed."""
    key = byte_column(pa.array([b"k"]))
    value = ByteColumn(0, np.array([0, size]), pa.array([b""]))
    columns = EntryColumns(np.zeros(1, np.int32), np.zeros(1, np.int32), key, value)
    with pytest.raises(InvalidEntries, match=r"key bytes 6b\) whose key or value is longer than 2 GiB .*state 's'"):
        OrderCheck(("s",), range(1)).check(columns)
