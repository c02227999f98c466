"""Writing RocksDB databases, checked by the project's reader."""

from __future__ import annotations

import dataclasses
import itertools
import random
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, DuplicateKey, InvalidOption, NotFound, WriteFailed
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.readers.rocksdb import DatabaseFile, column_families, database_files, rocksdb_entries, table_properties
from stateproc.readers.rocksdb.manifest import log_records
from stateproc.storage import InlineSource, open_handle
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.rocksdb.block_builder import COMPRESSIONS
from stateproc.writers.formats.rocksdb.manifest import WrittenFamily, manifest
from stateproc.writers.formats.rocksdb.options import PREDEFINED, TableOptions, rocksdb_options
from stateproc.writers.formats.rocksdb.table import WrittenTable
from stateproc.writers.formats.rocksdb.writer import LocalFile, RocksDbWriter, verify_rocksdb
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.sweeps import exhaustive
from tests.helpers.writers.keyed_entries import Entry, batches, entries_of, handle_of, header_of, keyed_files
from tests.helpers.writers.written_files import written_file

SMALL = TableOptions(block_size=256, target_file_size=1 << 14)


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Commit.begin(StorePath.of(tmp_path / "savepoint")).staging


def written(
    staging: Staging, entries: Sequence[Entry], states: Sequence[str], max_parallelism: int = 128,
    options: TableOptions = SMALL, at_once: int = 100,
) -> tuple[IncrementalHandle, RocksDbWriter]:  # fmt: skip
    groups = range(max_parallelism)
    with RocksDbWriter(staging.new_file, states, groups, max_parallelism, options) as writer:
        for batch in batches(entries, at_once):
            writer.write(batch)
        files = writer.close()
    return handle(files, groups), writer


def handle(files: tuple[LocalFile, ...], groups: range) -> IncrementalHandle:
    return IncrementalHandle(11, 1, "id", groups.start, len(groups), 0, ByteStreamHandle("m", b""), (), files, "id")


def found(files: Sequence[DatabaseFile], states: Sequence[str], max_parallelism: int = 128) -> list[Entry]:
    """Return all entries that the reader returns."""
    entries: list[Entry] = []
    for state_id, name in enumerate(states):
        for batch in rocksdb_entries(files, name, range(max_parallelism), prefix_width(max_parallelism)):
            data = batch.data.tobytes()
            for group, (a, b, c, d) in zip(batch.key_groups.tolist(), batch.ranges.T.tolist(), strict=True):
                entries.append((group, state_id, data[a:b], data[c:d]))
    return sorted(entries)


@cache
def random_entries(seed: int, n: int, states: int, groups: int) -> list[Entry]:
    """Return entries with keys of common prefixes and extreme bytes; values are empty, short or larger than blocks."""
    rng = random.Random(seed)
    alphabet = [0, 0, 0, 1, 127, 128, 254, 255]
    keys = {
        (
            rng.randrange(groups),
            rng.randrange(states),
            bytes(rng.choices(alphabet, k=rng.choice([0, 1, 3, 9, 40, 700]))),
        )
        for _ in range(n)
    }
    sizes = [0, 1, 7, 30, 127, 128, 300, 5000]
    return [(*key, rng.randbytes(rng.choice(sizes)) if rng.random() < 0.5 else b"v" * 200) for key in sorted(keys)]


@pytest.mark.parametrize(
    ("max_parallelism", "compression"),
    [
        (most, one) if most == 128 or one == "ZSTD_COMPRESSION" else exhaustive(most, one)
        for most in (128, 129, 32768)
        for one in COMPRESSIONS
    ],
)
def test_entries_read_equal_those_written(staging: Staging, max_parallelism: int, compression: str) -> None:
    states = ["a", "empty", "né", "_timer_state/event_user-timers"]
    entries = [entry for entry in random_entries(max_parallelism, 3000, 4, max_parallelism) if entry[1] != 1]
    options = dataclasses.replace(SMALL, compression_per_level=("NO_COMPRESSION", compression), bloom_bits_per_key=10.0)
    made, writer = written(staging, entries, states, max_parallelism, options)
    files = database_files(made, staging.location)
    assert found(files, states, max_parallelism) == entries
    assert int(writer.entries.sum()) == len(entries) and not writer.entries[:, 1].any()
    verify_rocksdb(written_file(staging.location, states, max_parallelism=max_parallelism), made, writer.entries)
    families = column_families(files)
    assert families is not None and [family.name for family in families] == ["default", *states]
    assert len(families[1].files) > 1 and families[2].files == ()
    for family in families:
        bounds = [(live.smallest.key, live.largest.key) for live in family.files]
        assert sorted(bounds) == bounds and {live.level for live in family.files} <= {6}
        assert all(a[1] < b[0] for a, b in itertools.pairwise(bounds))


def test_entries_do_not_depend_on_the_batches(staging: Staging) -> None:
    entries = random_entries(1, 800, 2, 5)
    for at_once in (1, 7, 800):
        made, _ = written(staging, entries, ["a", "b"], at_once=at_once)
        assert found(database_files(made, staging.location), ["a", "b"]) == entries


READS_EVERY_MODE = False
CANONICAL = [one for one in fixtures("canonical") if one.path.parent.name in ("1.20", "2.3")]


@pytest.mark.parametrize("fixture", CANONICAL, ids=lambda fixture: fixture.name)
def test_entries_of_canonical_files_of_flink(fixture: Fixture, staging: Staging) -> None:
    compared = 0
    for file in keyed_files(Path(fixture.snapshot), "canonical"):
        header, entries = header_of(file), sorted(entries_of(file))
        names, groups = [info.name for info in header.states], handle_of(file).key_groups
        with RocksDbWriter(staging.new_file, names, groups, file.max_parallelism, SMALL) as writer:
            for batch in batches(entries, 50):
                writer.write(batch)
            made = handle(writer.close(), groups)
        compared += len(entries)
        assert found(database_files(made, staging.location), names, file.max_parallelism) == entries
    assert compared or fixture.manifest["job"] in ("operators", "sinks")


def test_a_database_without_entries(staging: Staging) -> None:
    made, _ = written(staging, [], ["a"])
    files = database_files(made, staging.location)
    assert [file.name for file in files] == ["MANIFEST-000004", "CURRENT", "OPTIONS-000007"]
    assert found(files, ["a"]) == []


def test_table_properties_have_the_values_that_rocksdb_writes(staging: Staging) -> None:
    entries = [(group, 0, struct.pack(">q", key), b"value") for group in range(3) for key in range(50)]
    options = dataclasses.replace(SMALL, bloom_bits_per_key=8.0)
    made, _ = written(staging, entries, ["counts"], options=options)
    (table,) = (file for file in database_files(made, staging.location) if file.name.endswith(".sst"))
    properties = table_properties(table.source)
    assert properties.column_family == "counts"
    assert properties.comparator == "leveldb.BytewiseComparator"
    assert properties.merge_operator == "StringAppendTESTOperator"
    assert properties.compression == "Snappy"
    assert properties.entries == 150 and properties.merge_operands == properties.deletions == 0
    assert properties.raw_key_size == 150 * (1 + 8 + 8) and properties.raw_value_size == 150 * 5
    assert properties.index_key_is_user_key and properties.index_value_is_delta_encoded
    assert properties.sequence_override(0) is None
    assert properties.data_blocks > 3 and properties.filter_size > 150
    assert properties.data_size + properties.index_size + properties.filter_size < table.source.size


@pytest.mark.slow
def test_the_memory_limit_starts_new_tables(staging: Staging) -> None:
    entries = [(0, 0, struct.pack(">q", key), b"") for key in range(40_000)]
    options = TableOptions(block_size=64, memory=1 << 20)
    made, _ = written(staging, entries, ["a"], options=options, at_once=1 << 20)
    files = database_files(made, staging.location)
    assert sum(file.name.endswith(".sst") for file in files) > 1
    assert found(files, ["a"]) == entries


def test_a_duplicate_key_is_refused_and_all_files_are_removed(staging: Staging) -> None:
    entries = [(0, 0, b"k", b"v" * 30_000), (0, 0, b"l", b"1")]
    directory = Path(staging.directory_uri)
    before = sorted(directory.iterdir())
    with pytest.raises(DuplicateKey), RocksDbWriter(staging.new_file, ["a"], range(128), 128, SMALL) as writer:
        for batch in (*batches(entries), *batches(entries[1:])):
            writer.write(batch)
    assert sorted(directory.iterdir()) == before


def test_a_state_with_the_name_default_is_refused(staging: Staging) -> None:
    with pytest.raises(InvalidOption, match="default"):
        RocksDbWriter(staging.new_file, ["default"], range(128), 128, SMALL)


def test_verification_finds_damage_and_wrong_counts(staging: Staging) -> None:
    entries = [(0, 0, struct.pack(">q", key), b"v" * 40) for key in range(2000)]
    made, writer = written(staging, entries, ["a"], at_once=5000)
    wrong = writer.entries.copy()
    wrong[0, 0] += 1
    with pytest.raises(WriteFailed, match="2000 entries are in key group 0 where 2001"):
        verify_rocksdb(written_file(staging.location, ["a"]), made, wrong)
    name = next(stream for local, stream in made.private if local.endswith(".sst"))
    path = Path(open_handle(name, staging.location).name)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(WriteFailed, match="cannot be read"):
        verify_rocksdb(written_file(staging.location, ["a"]), made, writer.entries)


def test_a_manifest_longer_than_a_log_block() -> None:
    tables = [WrittenTable(n, 1000, b"%06d" % n * 50, b"%06d" % n * 51, 1_700_000_000) for n in range(8, 400)]
    long = WrittenTable(400, 1000, b"x" * 70_000, b"y" * 70_000, 1_700_000_000)
    data = manifest([WrittenFamily(1, "a", [*tables, long])], 401)
    assert len(list(log_records(data, "m"))) == 2 + 1 + len(tables) + 1
    files = [DatabaseFile("MANIFEST-000004", InlineSource("m", data))]
    families = column_families(files)
    assert families is not None and families[1].files[-1].largest.key == b"y" * 70_000
    with pytest.raises(CorruptSnapshot):
        column_families([DatabaseFile("MANIFEST-000004", InlineSource("m", data[:-1]))])


def test_options_have_the_names_of_flinks_configuration() -> None:
    assert rocksdb_options() == TableOptions()
    options = rocksdb_options(
        {
            "state.backend.rocksdb.block.blocksize": "32 kb",
            "state.backend.rocksdb.compression.per.level": "NO_COMPRESSION;LZ4_COMPRESSION",
            "state.backend.rocksdb.use-bloom-filter": True,
            "state.backend.rocksdb.bloom-filter.bits-per-key": 12.5,
            "state.backend.rocksdb.memory.fixed-per-slot": "128mb",
            "state.backend.rocksdb.thread.num": 4,
        }
    )
    assert (options.block_size, options.compression) == (32768, "LZ4_COMPRESSION")
    assert (options.bloom_bits_per_key, options.memory) == (12.5, 128 << 20)
    assert options.bytes_at_once(64) == 512 << 10 and (options.most_held(4) or 0) == (128 << 20) // 40


def test_explicit_options_override_predefined_options() -> None:
    key = "state.backend.rocksdb."
    options = rocksdb_options({key + "predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM"})
    assert (options.block_size, options.target_file_size) == (128 << 10, 256 << 20)
    assert (options.bloom_bits_per_key, options.dynamic_level_size) == (10.0, True)
    given = {key + "predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM", key + "block.blocksize": "4096"}
    assert rocksdb_options(given).block_size == 4096
    for name in PREDEFINED:
        rocksdb_options({key + "predefined-options": name})


def test_an_options_factory_overrides_all_other_options() -> None:
    given = {"state.backend.rocksdb.block.blocksize": "8kb"}
    options = rocksdb_options(given, lambda current: dataclasses.replace(current, block_size=2 * current.block_size))
    assert options.block_size == 16 << 10
    with pytest.raises(InvalidOption, match="factory returned NoneType"):
        rocksdb_options(given, lambda current: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("key", "value", "error", "text"),
    [
        (
            "state.backend.rocksdb.block.blocksiz",
            "4kb",
            NotFound,
            "did you mean 'state.backend.rocksdb.block.blocksize'",
        ),
        ("block.blocksize", "4kb", NotFound, "state.backend.rocksdb.block.blocksize"),
        ("state.backend.rocksdb.block.blocksize", "four", InvalidOption, "a size such as '64 mb'"),
        ("state.backend.rocksdb.block.blocksize", "1b", InvalidOption, "64 bytes"),
        ("state.backend.rocksdb.use-bloom-filter", "yes", InvalidOption, "true or false"),
        ("state.backend.rocksdb.compression.per.level", "BROTLI", NotFound, "SNAPPY_COMPRESSION"),
        ("state.backend.rocksdb.predefined-options", "FLASH_SSD", NotFound, "FLASH_SSD_OPTIMIZED"),
        ("state.backend.rocksdb.memory.write-buffer-ratio", "0.95", InvalidOption, "together 1 at most"),
    ],
)
def test_wrong_options_are_refused(key: str, value: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        rocksdb_options({key: value})
    assert text in str(caught.value)


def test_batches_with_64_bit_offsets(staging: Staging) -> None:
    entries: list[Entry] = [(1, 0, b"a", b"1"), (1, 0, b"b", b"2")]
    (batch,) = batches(entries)
    columns = [batch.column(0), batch.column(1), *(batch.column(n).cast(pa.large_binary()) for n in (2, 3))]
    with RocksDbWriter(staging.new_file, ["a"], range(128), 128, SMALL) as writer:
        writer.write(pa.record_batch(columns, names=batch.schema.names).slice(1))
        made = handle(writer.close(), range(128))
    assert found(database_files(made, staging.location), ["a"]) == entries[1:]
