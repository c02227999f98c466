"""Sorting of entries before they are written: in memory, and by merging sorted runs from disk."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import InvalidEntries, WriteFailed
from stateproc.writers.formats.entry_batches import FILE_ENTRIES
from stateproc.writers.sorting import external_sort as runs
from stateproc.writers.sorting import spill_buffer as waiting
from stateproc.writers.sorting.entry_sort import in_order
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


def _marks(name: str, chunk_bytes: int) -> list[pytest.MarkDecorator]:
    # A chunk for each row takes long with many rows.
    if chunk_bytes == 1:
        return [pytest.mark.exhaustive] if len(KEYS[name]) > 100 else []
    return [pytest.mark.sampled] if (chunk_bytes == 200) == (name == "numbers") else []


@pytest.mark.parametrize(
    ("name", "chunk_bytes"),
    [pytest.param(name, size, marks=_marks(name, size)) for name in KEYS for size in (1, 200, 1 << 18)],
)
def test_merged_runs_are_sorted(name: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the size of runs or of the chunks in which they are read."""
    monkeypatch.setattr(runs, "_CHUNK_BYTES", chunk_bytes)
    rows = mixed(KEYS[name], 5)
    for run_bytes in (1, 3000, 1 << 30):
        assert rows_of(sorted_entries(batches(rows, min(len(rows), 40)), run_bytes)) == sorted(rows)


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
    with ExitStack() as stack:
        buffer = waiting.SpillBuffer(stack, held_bytes)
        for part in parts:
            buffer.add(part)
        portions = [rows_of(in_order([part]) for part in portion) for portion in buffer.portions()]
    assert sorted(itertools.chain(*portions)) == sorted(rows)
    covered = [{row[:2] for row in portion} for portion in portions]
    assert all(max(before) < min(after) for before, after in itertools.pairwise(covered))


@pytest.mark.parametrize("run_bytes", [1, 1 << 30])
def test_duplicate_keys_are_adjacent(run_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of a file can then detect them, whatever the boundaries of chunks."""
    monkeypatch.setattr(runs, "_CHUNK_BYTES", 1)
    rows: list[Row] = [(0, 0, 0, b"key %03d" % (k % 50), b"%d" % k) for k in range(100)]
    found = [row[3] for row in rows_of(sorted_entries(batches(rows, 10), run_bytes))]
    assert found == sorted(row[3] for row in rows)


def test_many_runs_of_a_key_group_are_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has a chunk in memory while all are merged, so that they double in size: there are few."""
    monkeypatch.setattr(runs, "_MOST_RUNS", 2)
    rows: list[Row] = [(0, 0, 0, b"%05d" % (k * 7919 % 1000), b"v" * 1000) for k in range(1000)]
    sizes: list[int] = []

    def add(spilled: Any, entries: pa.RecordBatch) -> None:
        sizes.append(entries.num_rows)
        whole(spilled, entries)

    whole = runs._Spilled.add
    monkeypatch.setattr(runs._Spilled, "add", add)
    assert rows_of(runs.sorted_portions([batches(rows, 1000)], 1000)) == sorted(rows)
    assert sum(sizes) == 1000 and 10 < len(sizes) < 20
    assert max(sizes[:4]) < 10 and max(sizes) > 200


def test_what_was_read_of_a_run_is_forgotten_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has been read when the first is written, sorted; of later ones only the sorted entries are left."""
    rows: list[Row] = [(0, 0, 0, b"%05d" % (k * 7919 % 1000), b"v" * 20_000) for k in range(200)]
    size, before = 400_000, pa.total_allocated_bytes()
    allocated: list[int] = []

    def write(out: Any, entries: pa.RecordBatch) -> Any:
        allocated.append(pa.total_allocated_bytes() - before)
        return whole(out, entries)

    whole = runs._write
    monkeypatch.setattr(runs, "_write", write)
    found = runs.sorted_portions([(one for row in rows for one in batches([row], 1))], size)
    assert rows_of(found) == sorted(rows)
    assert len(allocated) > 8
    # Arrow has allocated twice the bytes of these small batches.
    assert allocated[0] < 3.5 * size and max(allocated[1:]) < 1.5 * size


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [24, exhaustive(48)])
def test_a_large_key_group_is_not_held_in_memory(megabytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sort one key group in twelve runs, in half of its memory."""
    monkeypatch.setattr(runs, "_CHUNK_BYTES", 64 << 10)
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
        (0, (1 << 40).to_bytes(8, "little"), "not as it was written"),
        (0, b"\xff" * 8, "not as it was written"),
        (8, (6).to_bytes(8, "little"), "not as it was written"),
        (8, b"\xff" * 8, "not as it was written"),
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
            for portion in waiting.SpilledEntries([spilled]).portions(1 << 20):
                list(portion)
