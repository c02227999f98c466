"""Damaged databases: a typed error or the correct contents, never a crash, a hang or a wrong value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rocksdict import DBCompressionType, Options, Rdict

from stateproc.errors import CorruptSnapshot, SnapshotError
from stateproc.readers.rocksdb import column_families, open_table
from stateproc.readers.rocksdb.manifest import read_manifest
from stateproc.storage import InlineSource
from tests.helpers.rocksdb.databases import FORMS, contents, in_memory, inline, write_database
from tests.helpers.sweeps import sweep


@pytest.fixture(scope="module", params=list(FORMS))
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a small database with puts, deletes and a deleted range, in two tables."""
    rows = {b"%c%04d" % (k % 5, k): b"value %d " % k * (1 + k % 4) for k in range(200)}
    directory = tmp_path_factory.mktemp(request.param)
    deleted = b"%c%04d" % (3, 13)
    return write_database(
        directory, request.param, rows, deleted=deleted, range_deleted=(b"\x02", b"\x02\x40"), block_size=200
    )


def damaged(data: bytes, rng: np.random.Generator, *, keep_size: bool) -> bytes:
    """Change a few bytes, overwrite or zero a range, or truncate the data."""
    raw = bytearray(data)
    kind = rng.integers(3 if keep_size else 4)
    at = int(rng.integers(len(raw)))
    if kind == 0:
        for _ in range(int(rng.integers(1, 4))):
            raw[int(rng.integers(len(raw)))] ^= int(rng.integers(1, 256))
    elif kind == 1:
        length = min(int(rng.integers(1, 40)), len(raw) - at)
        raw[at : at + length] = rng.bytes(length)
    elif kind == 2:
        length = min(int(rng.integers(1, 12)), len(raw) - at)
        raw[at : at + length] = (b"\xff" if rng.integers(2) else b"\0") * length
    else:
        del raw[at:]
    return bytes(raw)


def outcome(files: dict[str, bytes], verify: bool) -> dict[bytes, bytes] | None:
    """Return the contents, or None for a typed error that names a file."""
    try:
        return contents(inline(files), "default", verify=verify)
    except SnapshotError as error:
        assert error.where.file is not None
        return None


@pytest.mark.parametrize("rounds", sweep(250), ids=str)
def test_damaged_tables_with_checksums(rounds: range, files: dict[str, bytes]) -> None:
    rng = np.random.default_rng([1, rounds.start])
    right = outcome(files, True)
    assert right and len(right) == 199 - 40
    names = [name for name in files if name.endswith(".sst")]
    refused = 0
    for _ in rounds:
        name = names[int(rng.integers(len(names)))]
        found = outcome(files | {name: damaged(files[name], rng, keep_size=True)}, True)
        refused += found is None
        assert found is None or found == right
    assert refused > 0.6 * len(rounds)


@pytest.mark.parametrize("rounds", sweep(600), ids=str)
def test_damaged_tables_without_checksums(rounds: range, files: dict[str, bytes]) -> None:
    rng = np.random.default_rng([2, rounds.start])
    names = [name for name in files if name.endswith(".sst")]
    tables = {name: files[name] for name in names}
    refused = 0
    for round_ in rounds:
        name = names[int(rng.integers(len(names)))]
        with_manifest = round_ % 2 == 0
        base = files if with_manifest else tables
        refused += outcome(base | {name: damaged(files[name], rng, keep_size=with_manifest)}, False) is None
    assert refused > len(rounds) / 6


def test_every_truncation_of_a_table_is_refused(files: dict[str, bytes]) -> None:
    name, data = next((name, data) for name, data in files.items() if name.endswith(".sst"))
    for size in [*range(120), *range(len(data) - 80, len(data))]:
        with pytest.raises(SnapshotError):
            open_table(InlineSource(name, data[:size]))


@pytest.mark.parametrize("rounds", sweep(300), ids=str)
def test_damaged_manifests(rounds: range, files: dict[str, bytes]) -> None:
    rng = np.random.default_rng([3, rounds.start])
    name = next(name for name in files if name.startswith("MANIFEST-"))
    right = column_families(inline(files))
    for _ in rounds:
        data = damaged(files[name], rng, keep_size=False)
        try:
            # A manifest truncated between two version edits is valid and describes an earlier version.
            assert read_manifest(data, name) == right or files[name].startswith(data)
        except SnapshotError as error:
            assert error.where.file == name and error.where.offset is not None


def test_an_impossible_decompressed_size_is_refused_before_allocation(files: dict[str, bytes]) -> None:
    from stateproc.readers.rocksdb.compression import decompressed

    most = b"\xff\xff\xff\xff\x0f"
    claims = {1: most, 2: most, 4: b"\xff\xff\xff\x7f", 7: b"\xff\xff\xff\xff\x07"}
    for kind, claim in claims.items():
        raw = np.frombuffer(claim + b"abcdef" + bytes([kind]), dtype=np.uint8)
        with pytest.raises(CorruptSnapshot, match="claims an impossible size"):
            decompressed(raw, np.array([0]), np.array([len(raw) - 1]), "x.sst", np.array([77]), 5)


def test_a_wrong_checksum_names_the_block(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.none())
    db = Rdict(str(tmp_path), options)
    for k in range(1000):
        db[b"\x01%04d" % k] = b"v" * 100
    db.close()
    files = in_memory(tmp_path)
    name = next(name for name in files if name.endswith(".sst"))
    index = open_table(InlineSource(name, files[name])).index()
    at = int(index.offsets[3])
    raw = bytearray(files[name])
    raw[at + 100] ^= 1
    with pytest.raises(CorruptSnapshot, match="checksum is wrong") as caught:
        contents(inline(files | {name: bytes(raw)}), "default")
    assert (caught.value.where.file, caught.value.where.offset, caught.value.where.state) == (name, at, "default")
    assert len(contents(inline(files | {name: bytes(raw)}), "default", verify=False)) == 1000
