"""The kernels of RocksDB tables, of measuring and of key groups as plain Python over checked memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from stateproc.keygroups import hashes as hashes_module
from stateproc.keygroups import kernels as hash_kernels
from stateproc.keygroups import scalars as scalars_module
from stateproc.readers.canonical import entry_scan as measuring_module
from stateproc.readers.rocksdb import blocks as blocks_module
from stateproc.readers.rocksdb import candidate_keys as candidates
from stateproc.readers.rocksdb import changed_entries as table_blocks_module
from stateproc.readers.rocksdb import checksums as checksums_module
from stateproc.readers.rocksdb import compression as compression_module
from stateproc.readers.rocksdb import db_iterator as entries_module
from stateproc.readers.rocksdb import merge_cursors as cursors
from stateproc.readers.rocksdb import merge_kernel as merging
from stateproc.readers.rocksdb import table as index_module
from tests.helpers.damage.checked_kernels import MEMORY, Checked, Memory, plain_module, replace_module

_CURSORS = plain_module(cursors)
_MERGING = plain_module(merging)
_CANDIDATES = plain_module(candidates)
_INDEX = plain_module(index_module)
_BLOCKS = plain_module(blocks_module)
_COMPRESSION = plain_module(compression_module)
CHECKSUMS = plain_module(checksums_module)
_MEASURING = plain_module(measuring_module)
_HASHES = plain_module(hash_kernels)
_WRITABLE = True


def _allow(*ranges: tuple[int, int] | tuple[int, int, bool]) -> None:
    """Only these addresses, (begin, size) to be read, (begin, size, True) to be written too."""
    MEMORY.ranges = [(item[0], item[0] + item[1], len(item) > 2) for item in ranges]
    MEMORY.columns = (0, 0)


def _extent(starts: Any, ends: Any) -> int:
    """How many bytes ranges reach over; they begin in them, and none ends before it begins."""
    assert all(0 <= start <= end for start, end in zip(starts, ends, strict=True))
    return int(max(ends, default=0))


def _claims(source: int, starts: Any, ends: Any, ratios: Any, first: bool, *out: Any) -> Any:
    # The compression byte stands at the end.
    _allow((source, _extent(starts, ends) + 1))
    kinds, begins, sizes = map(Checked, out)
    return _COMPRESSION._claims(source, Checked(starts), Checked(ends), Checked(ratios), first, kinds, begins, sizes)


def _decompress_snappy(source: int, compressed: Any, begins: Any, ends: Any, plain: int, lows: Any, highs: Any) -> int:
    _allow((source, _extent(begins, ends)), (plain, _extent(lows, highs), _WRITABLE))
    bad: int = _COMPRESSION.decompress_snappy(
        source, Checked(compressed), Checked(begins), Checked(ends), plain, Checked(lows), Checked(highs)
    )
    return bad


def _crc32c_all(source: int, starts: Any, ends: Any, tables: int, out: Any) -> None:
    _allow((source, _extent(starts, ends)), (tables, 8 * 256 * 4))
    with np.errstate(over="ignore"):
        wide = np.zeros(len(out), np.int64)
        CHECKSUMS.crc32c_all(source, Checked(starts), Checked(ends), tables, Checked(wide))
    out[:] = wide & 0xFFFFFFFF


def _entry_ends(plain: int, bounds: Any, ends: Any) -> int:
    _allow((plain, _extent(bounds[:-1], bounds[1:])))
    found: int = _BLOCKS.entry_ends(plain, Checked(bounds), Checked(ends))
    return found


def _scan_index(
    plain: int, starts: Any, ends: Any, delta: bool, first_key: bool, trailer: int, scratch: int, keys: int,
    key_bytes: int, offsets: Any, sizes: Any, key_offsets: Any,
) -> Any:  # fmt: skip
    size = _extent(starts, ends)
    _allow((plain, size), (scratch, size + 16, _WRITABLE), (keys, key_bytes, _WRITABLE))
    return _INDEX.scan_index(
        plain, Checked(starts), Checked(ends), delta, first_key, trailer, scratch, keys, key_bytes,
        Checked(offsets), Checked(sizes), Checked(key_offsets),
    )  # fmt: skip


def _merge(
    rows: int, n_rows: int, order: Any, reg: Any, prefix: int, spans: Any, span_keys: int, fragments: Any,
    fragment_keys: int, out: int, out_size: int, ranges: Any, key_groups: Any, filled: int,
) -> int:  # fmt: skip
    _allow(
        (reg[merging.SEEN], reg[merging.SEEN_CAPACITY], _WRITABLE),
        (reg[merging.STASH], reg[merging.STASH_CAPACITY], _WRITABLE),
        (span_keys, _span_bytes(spans)),
        (fragment_keys, int((fragments[:, [0, 3]] + fragments[:, [1, 4]]).max(initial=0))),
        (out, out_size, _WRITABLE),
        *_cursors(rows, n_rows),
    )
    checked = _Registers(reg)
    with np.errstate(over="ignore"):
        outcome: int = _MERGING.merge(
            rows, n_rows, Checked(order), checked, prefix, Checked(spans), span_keys, _Rows(fragments), fragment_keys,
            out, out_size, Checked(ranges), Checked(key_groups), filled,
        )  # fmt: skip
    return outcome


def _changed_keys(
    rows: int, n_rows: int, sides: Any, order: Any, reg: Any, prefix: int, spans: Any, span_keys: int, out: int,
    out_size: int, found: Any,
) -> int:  # fmt: skip
    _allow(
        (reg[merging.SEEN], reg[merging.SEEN_CAPACITY], _WRITABLE),
        (span_keys, _span_bytes(spans)),
        (out, out_size, _WRITABLE),
        *_cursors(rows, n_rows),
    )
    table = Checked(found)
    table.shape = found.shape
    with np.errstate(over="ignore"):
        outcome: int = _CANDIDATES.changed_keys(
            rows, n_rows, Checked(sides), Checked(order), _Registers(reg), prefix, Checked(spans), span_keys, out,
            out_size, table,
        )  # fmt: skip
    return outcome


def _mark_blocks(
    spans: Any, span_keys: int, newest: Any, largest: int, keys: int, key_starts: Any, key_ends: Any, marks: Any
) -> int:
    _allow((span_keys, _span_bytes(spans)), (keys, _extent(key_starts, key_ends)))
    marked: int = _CANDIDATES.mark_blocks(
        Checked(spans), span_keys, Checked(newest), largest, keys, Checked(key_starts), Checked(key_ends),
        Checked(marks),
    )  # fmt: skip
    return marked


def _span_bytes(spans: Any) -> int:
    """How many bytes the keys of spans have."""
    return int((spans[:, [0, 2]] + spans[:, [1, 3]]).max(initial=0))


def _cursors(rows: int, n_rows: int) -> list[Any]:
    """What kernels may read and write of cursors and their blocks."""
    found: list[Any] = [(rows, n_rows * cursors.ROW, _WRITABLE)]
    for row in _words(rows, n_rows * cursors.FIELDS).reshape(n_rows, cursors.FIELDS):
        count = 0 if row[cursors.LAST] else int(row[cursors.BLOCKS])
        found += [(row[cursors.KEY], row[cursors.KEY_CAPACITY], _WRITABLE)]
        if count:
            starts, ends = _words(int(row[cursors.STARTS]), count), _words(int(row[cursors.ENDS]), count)
            found += [(row[cursors.STARTS], 8 * count), (row[cursors.ENDS], 8 * count)]
            found += [(row[cursors.PLAIN], _extent(starts, ends))]
    return found


class _Registers(Checked):
    """Registers keep their type: addresses are added as 64 bits."""


class _Rows(Checked):
    """A table whose rows are handed on whole, checked too."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            return super().__getitem__(index)
        if not 0 <= index < len(self):
            raise AssertionError(f"row {index} of {len(self)}")
        return Checked(self._array[index])


def _words(at: int, count: int) -> Any:
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(int(at)))


def _measure_block(
    source: int, size: int, reg: Any, groups: Any, starts: Any, prefix: int, n_states: int, *tables: Any
) -> int:
    _allow((source, size))
    rows, entries, sizes = map(Checked, tables)
    found: int = _MEASURING.measure_block(
        source, size, Checked(reg), Checked(groups), Checked(starts), prefix, n_states, rows, entries, sizes
    )
    return found


def _hashed(name: str) -> Any:
    plain = getattr(_HASHES, name)

    def run(offsets: Any, data: Any, out: Any) -> None:
        with np.errstate(over="ignore"):
            plain(Checked(offsets), Checked(data), _Wrapping(out))

    return run


class _Wrapping(Checked):
    """Stores the low 32 bits, as machine code does."""

    size = property(len)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, np.int32(np.uint32(int(value) & 0xFFFFFFFF)))


HASHES = {name: _hashed(name) for name in ("utf16_hashes", "polynomial_hashes", "sums", "murmur3_hashes")}
"""Twins of the hash kernels, by name."""


@contextmanager
def checked_reader_kernels() -> Iterator[Memory]:
    """Run RocksDB's kernels, those that measure and those that hash as plain Python over checked memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression_module, "_claims", _claims)
        patch.setattr(compression_module, "decompress_snappy", _decompress_snappy)
        patch.setattr(checksums_module, "crc32c_all", _crc32c_all)
        patch.setattr(blocks_module, "entry_ends", _entry_ends)
        patch.setattr(index_module, "scan_index", _scan_index)
        patch.setattr(measuring_module, "measure_block", _measure_block)
        replace_module(patch, entries_module, merging, merge=_merge)
        replace_module(patch, candidates, candidates, changed_keys=_changed_keys)
        patch.setattr(table_blocks_module, "mark_blocks", _mark_blocks)
        for user in (scalars_module, hashes_module):
            replace_module(patch, user, hash_kernels, **HASHES)
        yield MEMORY
