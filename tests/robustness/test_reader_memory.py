"""RocksDB's, measuring's and hashing kernels stay inside of their buffers, and do what plain Python does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stateproc.errors import SnapshotError
from stateproc.keygroups import kernels
from stateproc.readers.canonical.entry_scan import measure_canonical
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.rocksdb import rocksdb_entries
from stateproc.readers.rocksdb.changed_entries import DatabaseOfState, changed_entries, paired_tables
from stateproc.storage import InlineSource
from tests.helpers.damage.checked_reader_kernels import HASHES, checked_reader_kernels
from tests.helpers.damage.corpus import Target, file_targets
from tests.helpers.damage.mutations import SAME_LENGTH, mutated
from tests.helpers.rocksdb.databases import inline, write_database
from tests.helpers.rocksdb.histories import History

ROUNDS = max(60, int(os.environ.get("STATEPROC_MUTATIONS", "0")) // 100)
"""More in the full run."""


@pytest.fixture(scope="module", params=["plain", "snappy", "lz4", "partitioned"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Two small tables with puts, deletes and a deleted range in three key groups."""
    rows = {b"%c%04d" % (k % 3, k): b"value %d " % k * (1 + k % 40) for k in range(30)}
    directory = tmp_path_factory.mktemp(request.param)
    deleted = b"%c%04d" % (2, 14)
    return write_database(
        directory, request.param, rows, deleted=deleted, range_deleted=(b"\x01\x30", b"\x01\x40"), block_size=150
    )


def _contents(files: dict[str, bytes], verify: bool) -> list[Any]:
    """Entries, or the error's text."""
    try:
        return [
            (batch.key_groups.tolist(), batch.ranges.tolist(), batch.data.tobytes())
            for batch in rocksdb_entries(inline(files), "default", range(3), 1, verify=verify)
        ]
    except SnapshotError as error:
        return [str(error)]


def test_rocksdb_tables(tables: dict[str, bytes]) -> None:
    names = sorted(name for name in tables if name.endswith(".sst"))
    refused = 0
    for seed in range(ROUNDS):
        name = names[seed % len(names)]
        data = mutated(seed, tables[name], kinds=SAME_LENGTH) if seed else tables[name]
        files = tables | {name: data}
        # Without checksums, so that damage gets as far as it can.
        compiled = _contents(files, verify=seed == 0)
        with checked_reader_kernels() as memory:
            before = memory.touched
            plain = _contents(files, verify=seed == 0)
        assert plain == compiled, f"seed {seed}"
        assert memory.touched > before or isinstance(plain[0], str)
        refused += isinstance(plain[0], str)
    assert ROUNDS // 6 < refused < ROUNDS


def _changes(earlier: dict[str, bytes], later: dict[str, bytes]) -> list[Any]:
    """What may differ between two databases in which tables of one name are the same, or the error's text."""
    sides = [
        DatabaseOfState(tuple(inline(files)), {name: name for name in files}, "default") for files in (earlier, later)
    ]
    try:
        tables = paired_tables(sides[0], sides[1], verify=False)
        assert tables is not None
        return [
            (side, batch.key_groups.tolist(), batch.ranges.tolist(), batch.data.tobytes())
            for side, batch in changed_entries(tables, "default", [range(3)], 1, verify=False)
        ]
    except SnapshotError as error:
        return [str(error)]


def test_changes_of_rocksdb_tables(tmp_path: Path) -> None:
    """Damage in a table of either side, or of both."""
    earlier, *_, later = History(tmp_path, 18).checkpoints(3)
    names = sorted(name for name in later if name.endswith(".sst"))
    assert {name in earlier for name in names} == {True, False}
    refused = 0
    for seed in range(ROUNDS):
        name = names[seed % len(names)]
        data = mutated(seed, later[name], kinds=SAME_LENGTH) if seed else later[name]
        sides = earlier | ({name: data} if name in earlier else {}), later | {name: data}
        compiled = _changes(*sides)
        with checked_reader_kernels() as memory:
            before = memory.touched
            assert _changes(*sides) == compiled, f"seed {seed}"
        assert memory.touched > before or isinstance(compiled[0], str)
        refused += bool(compiled) and isinstance(compiled[0], str)
    assert 0 < refused < ROUNDS


def _canonical() -> list[Target]:
    names = ("edges-hashmap-canonical", "windows-rocksdb-canonical", "tiny-rocksdb-canonical-heaptimers")
    return [
        target
        for target in file_targets()
        if target.name.split("/")[1] in names and target.name.endswith("managed_keyed") and len(target.data) < 20_000
    ]


def _measured(data: bytes, body: int) -> Any:
    """The file's data as key group 0 to 127 would have them, all in one range for each of several prefixes."""
    group = data[body + 2] if len(data) > body + 2 else 0
    first = int.from_bytes(data[body + 6 : body + 7], "big") & 0x7F
    source = InlineSource("damaged", data)
    ranges = [KeyGroupRange(first or group, body, len(data))]
    try:
        found = measure_canonical(source, ranges, compressed=False, prefix=1, n_states=12)
    except SnapshotError as error:
        return str(error)
    return found.entries.tolist(), found.bytes.tolist()


@pytest.mark.parametrize("target", _canonical(), ids=lambda target: target.name)
def test_measuring(target: Target) -> None:
    for seed in range(40):
        data = mutated(seed, target.data, first=target.body) if seed else target.data
        compiled = _measured(data, target.body)
        with checked_reader_kernels():
            assert _measured(data, target.body) == compiled, f"seed {seed}"


@pytest.mark.parametrize("name", list(HASHES))
def test_hashes_of_any_bytes(name: str) -> None:
    """Bytes that are no UTF-8 too: they come from snapshots."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        size = int(rng.integers(0, 40))
        high = rng.choice([256, 128])
        data: Any = rng.integers(0, high, size, dtype=np.uint8)
        if rng.random() < 0.3:
            data = np.frombuffer(("ä€🍵\0a" * 9).encode()[:size], np.uint8)
        if name in ("polynomial_hashes", "sums"):
            data = rng.integers(-(2**31), 2**31, len(data), dtype=np.int32)
        cuts = np.sort(rng.integers(0, len(data) + 1, int(rng.integers(0, 6))))
        offsets = np.array([0, *cuts], np.int64)
        compiled, plain = (np.empty(len(offsets) - 1, np.int32) for _ in range(2))
        getattr(kernels, name)(offsets, data, compiled)
        HASHES[name](offsets, data, plain)
        assert plain.tolist() == compiled.tolist()
