"""Long stretches of one sorted run, which are copied without a merge, next to all that ends such a stretch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rocksdict import BlockBasedOptions, DBCompressionType, Options, Rdict

from stateproc.errors import CorruptSnapshot
from stateproc.readers.rocksdb import rocksdb_entries
from tests.helpers.damage.checked_reader_kernels import checked_reader_kernels
from tests.helpers.damage.crafted_databases import alone
from tests.helpers.damage.crafted_tables import Crafted, block, entry, internal
from tests.helpers.rocksdb.databases import contents, database, inline, keyed
from tests.helpers.sweeps import sweep

Rows = dict[bytes, bytes]


def write(directory: Path, rnd: random.Random, prefix: int) -> Rows:
    """Write runs of keys with few different bytes, so that keys begin with one another, and overwrite some of them."""
    table = BlockBasedOptions()
    table.set_block_size(rnd.choice([64, 512, 4096]))
    table.set_block_restart_interval(rnd.choice([1, 2, 16]))
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(rnd.choice([DBCompressionType.none, DBCompressionType.snappy])())
    options.set_block_based_table_factory(table)
    db, wanted = Rdict(str(directory), options), Rows()
    groups = [group.to_bytes(prefix, "big") for group in ((3, 4, 100) if prefix == 1 else (0, 255, 256, 300))]
    for _ in range(rnd.randrange(1, 5)):
        beginning = b"\0" * rnd.randrange(4) + b"k" * rnd.choice([0, 1, 130])
        for _ in range(rnd.randrange(1, 300)):
            key = rnd.choice(groups) + beginning + bytes(rnd.choices(b"\0\1\xff", k=rnd.randrange(8)))
            if rnd.random() < 0.1:
                db.delete(key)
                wanted.pop(key, None)
            else:
                wanted[key] = db[key] = rnd.randbytes(rnd.choice([0, 1, 7, 8, 9, 40, 127, 128, 300]))
        db.flush()
    db.close()
    return wanted


@pytest.mark.parametrize("rounds", sweep(200), ids=str)
@pytest.mark.parametrize("prefix", [1, 2])
def test_runs_that_overlap(prefix: int, rounds: range, tmp_path: Path) -> None:
    for seed in rounds:
        rnd = random.Random(seed)
        wanted = write(tmp_path / str(seed), rnd, prefix)
        files, groups = database(tmp_path / str(seed)), range(1 << 8 * prefix - 1)
        found = contents(files, "default", groups, prefix)
        assert list(found.items()) == sorted(wanted.items()), seed
        part = [range(4, 5), range(255, 257)]
        chosen = {key: wanted[key] for key in wanted if any(int.from_bytes(key[:prefix], "big") in run for run in part)}
        assert keyed(rocksdb_entries(files, "default", part, prefix), prefix) == chosen, seed
        if wanted:
            beginning = rnd.choice(sorted(wanted))
            found = keyed(rocksdb_entries(files, "default", groups, prefix, keys=[beginning]), prefix)
            assert found == {key: wanted[key] for key in wanted if key.startswith(beginning)}, seed


@pytest.mark.slow
def test_kernels_stay_within_their_memory(tmp_path: Path) -> None:
    for seed in range(4):
        wanted = write(tmp_path / str(seed), random.Random(seed), 1)
        with checked_reader_kernels() as memory:
            assert contents(database(tmp_path / str(seed)), "default") == wanted
            assert not wanted or memory.touched


def row(key: bytes, value: bytes = b"v", shared: int = 0, sequence: int = 7) -> bytes:
    """An entry whose key shares ``shared`` bytes with the key before it."""
    return entry(internal(key, sequence)[shared:], value, shared=shared)


FIRST = [row(b"\0a%02d" % k, shared=0 if k == 0 else 2) for k in range(9)]
"""Of this key group: a00 to a08, in a block of their own."""


def read(*entries: bytes) -> Rows:
    """Read a table with one block, which contains these entries after those of ``FIRST``."""
    return contents(inline(alone(Crafted(data=[(block(*FIRST, *entries), 0)]))), "default")


SOUND = [b"\0a%02d" % k for k in range(9)]


@pytest.mark.parametrize(
    "following",
    [
        row(b"\0a07"),
        row(b"\0a07", shared=3),
        row(b"\0a08"),
        row(b"\0a08", shared=4),
        row(b"\0a08", shared=3),
        row(b"\0a08", sequence=8),
        row(b"\0a", shared=2),
        row(b"\0a0", shared=1),
        row(b"\0"),
    ],
)
def test_keys_that_do_not_ascend_are_refused(following: bytes) -> None:
    with pytest.raises(CorruptSnapshot, match="the keys of a table are not in order"):
        read(following)


@pytest.mark.parametrize(
    ("following", "added"),
    [
        (row(b"\0a08", b"old", shared=4, sequence=6), []),
        (row(b"\0a08\0", shared=4), [b"\0a08\0"]),
        (row(b"\0a09", shared=0), [b"\0a09"]),
        (row(b"\0a09", shared=2), [b"\0a09"]),
        (row(b"\0a1", shared=2), [b"\0a1"]),
        (row(b"\0a" + b"z" * 300, b"w" * 300, shared=2), [b"\0a" + b"z" * 300]),
    ],
)
def test_keys_that_ascend(following: bytes, added: list[bytes]) -> None:
    """Also where a key shares fewer bytes with the one before it than it could."""
    found = read(following)
    assert list(found) == SOUND + added
    assert found[b"\0a08"] == b"v"


@pytest.mark.parametrize("lengths", [b"\x0e\x09\x01", b"\x03\x01\x01", b"\x03\x09\x7f", b"\x03\x7f\x01", b"\x03"])
def test_impossible_lengths_are_refused(lengths: bytes) -> None:
    """More shared bytes than the key before has, less than a trailer, more than the block holds."""
    with pytest.raises(CorruptSnapshot, match="an entry of a block has an impossible length"):
        read(lengths + (b"9" + bytes(8) + b"v" if len(lengths) > 1 else b""))
