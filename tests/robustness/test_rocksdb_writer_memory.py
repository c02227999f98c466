"""Kernels that make tables, as plain Python over checked memory: the same bytes, and nothing else is touched."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest

from stateproc.writers.formats.entry_batches import entry_columns
from stateproc.writers.formats.rocksdb import block_builder as filling
from stateproc.writers.formats.rocksdb import table
from stateproc.writers.formats.rocksdb import table as bloom
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.formats.rocksdb.table import SstWriter, WrittenTable
from tests.helpers.damage.checked_kernels import MEMORY, Checked, plain_module, replace_module
from tests.helpers.writers.keyed_entries import Entry, batches

_FILLING = plain_module(filling)
_BLOOM = plain_module(bloom)
OPTIONS = TableOptions(block_size=128, bloom_bits_per_key=10.0)


def write(entries: list[Entry], prefix: int, size: int) -> tuple[bytes, WrittenTable]:
    sink = io.BytesIO()
    writer = SstWriter(sink, 8, 1, "a", prefix, OPTIONS, 1_700_000_000)
    for batch in batches(entries, size):
        writer.add(entry_columns(batch), 0, batch.num_rows)
    made = writer.finish()
    return sink.getvalue(), made


def _span(address: int, offsets: Any, first: int, last: int) -> tuple[int, int, bool]:
    return address + int(offsets[first]), address + int(offsets[last]), False


class _CheckedKernels:
    """Replace the compiled kernels by plain ones that check each load, store and index."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._writer: Any = None
        replace_module(patch, table, filling, encode_blocks=self._fill, close_block=self._close)
        patch.setattr(table, "hash_keys", self._hash)
        patch.setattr(SstWriter, "_reserve", self._before_growing(SstWriter._reserve))

    def _before_growing(self, inner: Any) -> Any:
        def grow(writer: SstWriter, more: int) -> None:
            self._writer = writer
            inner(writer, more)

        return grow

    def _out(self, out: int) -> tuple[int, int, bool]:
        return out, out + len(self._writer._out), True

    def _fill(
        self, first: int, last: int, groups: Any, keys: int, key_offsets: Any, values: int, value_offsets: Any,
        prefix: int, block_size: int, before: int, before_size: int, out: int, restarts: Any, reg: Any, ends: Any,
        rows: Any,
    ) -> None:  # fmt: skip
        MEMORY.columns = (0, 0)
        MEMORY.ranges = [
            _span(keys, key_offsets, first, last), _span(values, value_offsets, first, last),
            (before, before + before_size, False), self._out(out),
        ]  # fmt: skip
        _FILLING.encode_blocks(
            first, last, Checked(groups), keys, Checked(key_offsets), values, Checked(value_offsets), prefix,
            block_size, before, before_size, out, Checked(restarts), Checked(reg), Checked(ends), Checked(rows),
        )  # fmt: skip

    def _close(self, out: int, restarts: Any, reg: Any, ends: Any, rows: Any, row: int) -> None:
        MEMORY.columns, MEMORY.ranges = (0, 0), [self._out(out)]
        _FILLING.close_block(out, Checked(restarts), Checked(reg), Checked(ends), Checked(rows), row)

    def _hash(
        self, first: int, last: int, groups: Any, keys: int, key_offsets: Any, prefix: int, scratch: int, out: Any
    ) -> None:
        longest = prefix + int(np.diff(key_offsets[first : last + 1]).max())
        MEMORY.columns = (0, 0)
        MEMORY.ranges = [_span(keys, key_offsets, first, last), (scratch, scratch + longest, True)]
        with np.errstate(over="ignore"):
            _BLOOM.hash_keys(first, last, Checked(groups), keys, Checked(key_offsets), prefix, scratch, Checked(out))


@pytest.mark.parametrize("prefix", [1, 2])
def test_kernels_stay_in_their_buffers(prefix: int) -> None:
    rng = random.Random(prefix)
    for _ in range(12):
        alphabet = bytes([0, 1, 255]) if rng.random() < 0.5 else bytes([0])
        keys = {
            (rng.randrange(100 if prefix == 1 else 3000), bytes(rng.choices(alphabet, k=rng.randrange(40))))
            for _ in range(rng.randrange(1, 200))
        }
        entries = [(group, 0, key, rng.randbytes(rng.choice((0, 0, 1, 9, 300)))) for group, key in sorted(keys)]
        size = rng.choice((1, 7, 1000))
        compiled = write(entries, prefix, size)
        with pytest.MonkeyPatch.context() as patch:
            _CheckedKernels(patch)
            before = MEMORY.touched
            assert write(entries, prefix, size) == compiled
        assert MEMORY.touched > before


def test_a_filters_bits_lie_in_its_lines() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 100, 5000):
        hashes = rng.integers(0, 1 << 32, n, dtype=np.uint32)
        made = bloom.bloom_filter(hashes, 10.0)
        lines = int.from_bytes(made[-4:], "little")
        assert len(made) == 64 * lines + 5 and lines % 2 == 1 and made[-5] == 6
        bits = np.zeros(64 * lines, dtype=np.uint8)
        MEMORY.columns, MEMORY.ranges = (0, 0), [(bits.ctypes.data, bits.ctypes.data + bits.nbytes, True)]
        _BLOOM._set_bits(Checked(hashes), lines, 6, bits.ctypes.data)
        assert bits.tobytes() == made[:-5]
