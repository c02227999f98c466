"""Sorting of entries before they are written: in memory, through temporary files, and by merging sorted runs."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import InvalidEntries, WriteFailed
from stateproc.storage.store import StorePath
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.entry_batches import FILE_ENTRIES
from stateproc.writers.sorting import external_sort as runs
from stateproc.writers.sorting import spill_buffer as waiting
from stateproc.writers.sorting.entry_sort import ScatteredBytes, ScatteredEntries, in_order
from stateproc.writers.sorting.external_sort import sorted_entries
from stateproc.writers.spark.shuffle_blocks import BLOCKS, SLICE_BYTES, block_numbers, packed, unpacked
from tests.helpers.sweeps import exhaustive, sampled

Row = tuple[int, int, int, bytes, bytes]


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, FILE_ENTRIES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_ENTRIES)


def batches(rows: Sequence[Row], n: int) -> list[pa.RecordBatch]:
    """Return the rows in ``n`` batches, some of them slices, whose bytes start at other offsets than their buffers."""
    whole = batch([rows[0], *rows])
    cuts = sorted(random.Random(n).choices(range(1, len(rows) + 2), k=n - 1))
    return [whole.slice(start, stop - start) for start, stop in zip([1, *cuts], [*cuts, len(rows) + 1], strict=True)]


def rows_of(found: Iterable[pa.RecordBatch]) -> list[Row]:
    return [tuple(row.values()) for part in found for row in part.to_pylist()]


def mixed(keys: Sequence[bytes], key_groups: int, seed: int = 1) -> list[Row]:
    """Return the keys in random files, key groups and states, without duplicates."""
    chance = random.Random(seed)
    rows = {
        (chance.randrange(3), chance.randrange(key_groups), chance.randrange(2), key) for key in keys for _ in range(2)
    }
    shuffled = sorted(rows)
    chance.shuffle(shuffled)
    return [(*row, b"v%d" % number) for number, row in enumerate(shuffled)]


KEYS = {
    "numbers": [(2**63 + k * 7919).to_bytes(8, "big") for k in range(-300, 300)],
    "extremes": [bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7)],
    "prefixes of each other": [b"", *(b"a" * k for k in range(1, 30)), *(b"a" * k + bytes(3) for k in range(30))],
    "long common prefix": [b"a customer's key of many bytes" + bytes(10) + b"%05d" % k for k in range(600)],
    "of all lengths": [random.Random(k).randbytes(k % 40) + b"%d" % k for k in range(600)],
    "one": [b"only"],
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("key_groups", [exhaustive(1), 7, exhaustive(128), 32768])
def test_entries_are_sorted_in_memory(name: str, key_groups: int) -> None:
    rows = mixed(KEYS[name], key_groups)
    assert rows_of([in_order(batches(rows, 5))]) == sorted(rows)


def test_more_combinations_of_file_and_key_group_than_16_bits() -> None:
    chance = random.Random(3)
    rows: list[Row] = [(k % 9, chance.randrange(32768), k % 5, b"k%d" % k, b"") for k in range(5000)]
    assert rows_of([in_order(batches(rows, 3))]) == sorted(rows)


@pytest.mark.parametrize("size", [1 << 31, (1 << 32) + 1, 1 << 40])
@pytest.mark.parametrize("of_key", [True, False])
def test_entries_of_two_gibibytes_are_refused(size: int, of_key: bool) -> None:
    """Lengths are i32; an entry is refused before its bytes are accessed."""
    short, long = (ScatteredBytes(np.zeros(1, np.int64), np.array([n], np.int64), ()) for n in (1, size))
    numbers = tuple(np.zeros(1, np.int32) for _ in range(3))
    entries = ScatteredEntries(numbers, long, short) if of_key else ScatteredEntries(numbers, short, long)
    with waiting.temporary_file() as file, pytest.raises(InvalidEntries, match="longer than 2 GiB"):
        waiting._SpillFile(file).add(entries)


def _marks(name: str, chunk_bytes: int) -> list[pytest.MarkDecorator]:
    # A chunk for each row takes long with many rows.
    if chunk_bytes == 1:
        return [pytest.mark.exhaustive] if len(KEYS[name]) > 100 else []
    return [pytest.mark.sampled] if (chunk_bytes == 200) == (name == "numbers") else []


@pytest.mark.parametrize(
    ("name", "chunk_bytes"),
    [pytest.param(name, size, marks=_marks(name, size)) for name in KEYS for size in (1, 200, 1 << 18)],
)
def test_merged_runs_are_sorted(name: str, chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the size of runs or of the chunks in which they are read."""
    monkeypatch.setattr(runs, "_CHUNK_BYTES", chunk_bytes)
    rows = mixed(KEYS[name], 5)
    for run_bytes in (1, 3000, 1 << 30):
        staging = Staging(StorePath(str(tmp_path)), f"{run_bytes}")
        Path(staging.marker.uri).touch()
        staged = list(runs.written_runs(staging, batches(rows, min(len(rows), 40)), run_bytes))
        assert rows_of(runs.staged_entries(staging, staged)) == sorted(rows)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("block_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("at_once", [1, 500, 3000])
def test_a_key_group_is_divided_by_its_keys(
    name: str, block_bytes: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result does not depend on the size of batches, blocks or portions; portions are not much larger."""
    monkeypatch.setattr(waiting, "_BLOCK_BYTES", block_bytes)
    rows = mixed(KEYS[name], 2)
    for spilled_bytes in (1, 700, 1 << 30):
        with ExitStack() as stack:
            buffer = waiting.SpillBuffer(stack, 2 * spilled_bytes)
            for part in batches(rows, min(len(rows), 40)):
                buffer.add(part)
            entries = waiting.SpilledEntries(buffer.finish())
            assert entries.files == sorted({row[0] for row in rows})
            assert rows_of(entries.sorted(at_once)) == sorted(rows)
            found = [rows_of(entries.sorted(at_once, file)) for file in range(3)]
            assert list(itertools.chain(*found)) == sorted(rows)


def test_samples_of_long_keys_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be all keys where each is as long as a block."""
    sampled_bytes, join = list[int](), waiting._Blocks.joined
    monkeypatch.setattr(waiting, "_SAMPLED_BYTES", 50_000)

    def joined(parts: Sequence[waiting._Blocks]) -> waiting._Blocks:
        blocks = join(parts)
        sampled_bytes.append(sum(len(key) for key in blocks.keys.to_pylist()))
        return blocks

    monkeypatch.setattr(waiting._Blocks, "joined", joined)
    rows: list[Row] = [(0, 0, 0, b"%d" % (k * 7919 % 1000) + bytes(5000), b"") for k in range(1000)]
    assert rows_of(sorted_entries(batches(rows, 20), 1 << 20)) == sorted(rows)
    assert 10_000 < sampled_bytes[0] < 150_000


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("held_bytes", [1, exhaustive(5000), sampled(40_000)])
def test_entries_are_spilled_to_a_file(name: str, ordered: bool, held_bytes: int) -> None:
    """Batches are sorted by file and key group or unsorted; files and key groups include the largest possible."""
    rows = [(k * (2**31 - 1) // 2, (32767, 0, 77, 128, 129)[group], *more) for k, group, *more in mixed(KEYS[name], 5)]
    parts = batches(rows, min(len(rows), 20))
    if ordered:
        parts = [part.sort_by([("file", "ascending"), ("key_group", "ascending")]).slice(0) for part in parts]
    assert rows_of(sorted_entries(parts, held_bytes)) == sorted(rows)


@pytest.mark.parametrize("held_bytes", [1, 1000, 1 << 30])
@pytest.mark.parametrize("keys", [1, 3, 50])
def test_duplicate_keys_are_adjacent(keys: int, held_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of a file can then detect them, wherever a key group is divided. None is lost or there twice."""
    monkeypatch.setattr(waiting, "_BLOCK_BYTES", 50)
    rows: list[Row] = [(0, 0, 0, b"key" + bytes(k * 7 % keys), b"%d" % k) for k in range(200)]
    found = rows_of(sorted_entries(batches(rows, 10), held_bytes))
    assert [row[3] for row in found] == sorted(row[3] for row in rows)
    assert sorted(found) == sorted(rows)


@pytest.mark.parametrize("alike", [0, 1, 400])
def test_portions_of_a_key_group_are_small(alike: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of keys that many entries have, and beside entries that are larger than a portion."""
    monkeypatch.setattr(waiting, "_BLOCK_BYTES", 100)
    rows: list[Row] = [(0, 0, 0, b"%05d" % max(alike, k * 7919 % 1000), b"v" * 1000) for k in range(1000)]
    rows.append((0, 0, 0, b"00500", b"v" * 30_000))
    sizes: list[int] = []

    def read(entries: Any, ranges: Any) -> Any:
        sizes.append(int(ranges.sizes.sum()))
        return whole(entries, ranges)

    whole = waiting.SpilledEntries._read
    monkeypatch.setattr(waiting.SpilledEntries, "_read", read)
    found = rows_of(sorted_entries(batches(rows, 100), 40_000))
    assert sorted(found) == sorted(rows) and [row[3] for row in found] == sorted(row[3] for row in rows)
    # Each of the 50 batches may have an entry too much.
    assert len(sizes) > 60 and max(sizes) < 20_000 + 30_000 + 50 * 1100
    assert sum(sizes) < 4 * len(rows) * 1030


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [24, exhaustive(48)])
def test_a_large_key_group_is_not_held_in_memory(megabytes: int) -> None:
    """Sort one key group in 24 batches, in half of its memory."""
    n = 1000
    zeros = pa.array(np.zeros(n, np.int32))

    def binary(data: bytes) -> pa.Array:
        offsets = np.arange(n + 1, dtype=np.int32) * (len(data) // n)
        return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def parts() -> Iterable[pa.RecordBatch]:
        chance = random.Random(5)
        for _ in range(megabytes):
            columns = [zeros, zeros, zeros, binary(chance.randbytes(8 * n)), binary(bytes(1000 * n))]
            arrays = [column.cast(field.type) for column, field in zip(columns, FILE_ENTRIES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=FILE_ENTRIES)

    count, held = 0, pa.total_allocated_bytes()
    tracemalloc.start()
    for part in sorted_entries(parts(), (megabytes << 20) // 12):
        count += part.num_rows
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del part
    assert count == megabytes * n
    assert most < megabytes << 19 and pa.total_allocated_bytes() - held < 1 << 20


@pytest.mark.slow
def test_small_blocks_are_emitted_while_batches_are_consumed() -> None:
    """A worker that writes much output without reading can deadlock with the process that feeds it."""
    rows = [(k % 3, k % 128, 0, b"%08d" % k, bytes(200)) for k in range(60_000)]
    consumed, consumed_at_block = 0, []

    def parts() -> Iterable[pa.RecordBatch]:
        nonlocal consumed
        for start in range(0, len(rows), 1000):
            consumed += 1
            yield batch(rows[start : start + 1000])

    blocks_ = []
    for block in packed(parts(), block_numbers(0), at_once=4 << 20):
        consumed_at_block.append(consumed)
        assert block.nbytes < 2 << 20
        blocks_.append(block)
    until_the_last = [number for number in consumed_at_block if number < 60]
    assert len(set(until_the_last)) > 0.8 * len(until_the_last) > 4, "one or two at a time"
    assert max(map(len, pa.Table.from_batches(blocks_).column("slice").to_pylist())) == SLICE_BYTES
    found = rows_of(unpacked(blocks_))
    assert sorted(found) == sorted(rows)
    covered = [[row[:2] for row in rows_of([part])] for part in unpacked(blocks_)]
    assert all(part == sorted(part) and len({file for file, _ in part}) == 1 for part in covered)


def slices_of(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the rows in the schema BLOCKS."""
    return [row for block in packed([batch(rows)], block_numbers(0)) for row in block.to_pylist()]


def test_a_repeated_task_makes_the_same_blocks() -> None:
    """Else Spark fails a job that loses an executor: tasks that have read the first output cannot be repeated."""
    rows = [(k % 3, k % 128, 0, b"%08d" % k, bytes(200)) for k in range(3_000)]
    assert slices_of(rows) == slices_of(rows)
    first, second = ([next(block_numbers(frame)) for _ in range(1)] for frame in (0, 1))
    assert first != second


def test_slices_of_blocks_are_unpacked_in_any_order() -> None:
    chance = random.Random(5)
    rows = [(0, k % 5, 1, b"%08d" % k, chance.randbytes(k % 300)) for k in range(3000)] + [(1, 0, 0, b"k", b"")]
    rows += [(0, 3, 1, b"large", chance.randbytes(10 << 20))]
    slices = slices_of(rows)
    assert len(slices) > 330
    chance.shuffle(slices)
    parts = [pa.RecordBatch.from_pylist(slices[at : at + 100], BLOCKS) for at in range(0, len(slices), 100)]
    assert sorted(rows_of(unpacked(parts))) == sorted(rows)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda slices: slices[:-1], "are missing"),
        (lambda slices: slices + slices[:1], "are missing"),
        (lambda slices: [slices[0], slices[0]], "does not fit"),
        (lambda slices: [slices[0][:22]], "cut off"),
        (lambda slices: [slices[0][:14] + bytes(8) + b"x"], "does not fit"),
        (lambda slices: [slices[0][:18] + b"\0\0\0\1" + slices[0][22:]], "is damaged"),
        (lambda slices: [slices[0][:18] + b"\0\0\0\1garbage"], "is damaged"),
    ],
)
def test_missing_and_damaged_slices_are_refused(damage: Callable[[list[bytes]], list[bytes]], message: str) -> None:
    whole = [row["slice"] for row in slices_of([(0, 0, 0, b"key", random.Random(1).randbytes(100_000))])]
    assert len(whole) > 3
    damaged = pa.RecordBatch.from_pylist([{"file": 0, "slice": data} for data in damage(whole)], BLOCKS)
    with pytest.raises(InvalidEntries, match=message):
        list(unpacked([damaged]))


def test_an_empty_slice_is_refused() -> None:
    empty = pa.RecordBatch.from_pylist([{"file": 0, "slice": b""}], BLOCKS)
    with pytest.raises(InvalidEntries, match="cut off"):
        list(unpacked([empty]))


@pytest.mark.parametrize(
    ("at", "damage", "message"),
    [
        (0, (1 << 30).to_bytes(4, "little"), "not as it was written"),
        (0, b"\xff" * 4, "not as it was written"),
        (4, (6).to_bytes(4, "little"), "not as it was written"),
        (4, b"\xff" * 4, "not as it was written"),
        (-1, None, "shorter than it was written"),
    ],
)
def test_a_changed_temporary_file_is_refused(at: int, damage: bytes | None, message: str) -> None:
    """Sizes of keys and values are compared with the bytes that there are before any is used."""
    rows: list[Row] = [(0, k % 3, 0, b"key %d" % k, b"value") for k in range(30)]
    with ExitStack() as stack:
        buffer = waiting.SpillBuffer(stack, 1 << 20)
        for part in batches(rows, 2):
            buffer.add(part)
        (spilled,) = buffer.finish()
        file = spilled.file
        if damage is None:
            file.truncate(int(spilled.edges[-1]) + at)
        else:
            file.seek(at)
            file.write(damage)
            file.flush()
        with pytest.raises(WriteFailed, match=message):
            list(waiting.SpilledEntries([spilled]).sorted(1 << 20))
