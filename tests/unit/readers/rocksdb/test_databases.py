"""Tables and databases that RocksDB 9.8 writes (through rocksdict) with each option that changes their format."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    ChecksumType,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    SliceTransform,
    SstFileWriter,
)

from stateproc.errors import CorruptSnapshot, MissingFile, UnsupportedSnapshot
from stateproc.readers.rocksdb import (
    column_families,
    key_group_sizes,
    open_table,
    rocksdb_entries,
    split_key_groups,
    table_properties,
)
from stateproc.storage import FileSource
from stateproc.storage.store import StorePath
from tests.helpers.rocksdb.databases import contents, database, in_memory, inline
from tests.helpers.sweeps import exhaustive

Contents = dict[bytes, bytes]


def options(table: BlockBasedOptions | None = None, compression: DBCompressionType | None = None) -> Options:
    made = Options(raw_mode=True)
    made.create_if_missing(True)
    made.set_disable_auto_compactions(True)
    made.set_compression_type(compression or DBCompressionType.snappy())
    made.set_block_based_table_factory(table or BlockBasedOptions())
    return made


def write(directory: Path, made: Options, *, seed: int = 1, keys: int = 3000) -> Contents:
    """Write puts and deletes of keys in 16 key groups in four flushes, with one compaction in the middle."""
    rnd, wanted = random.Random(seed), {}
    db = Rdict(str(directory), made)
    for flush in range(4):
        for _ in range(keys):
            key = bytes([rnd.randrange(16)]) + b"key-%05d" % rnd.randrange(keys)
            if rnd.random() < 0.2:
                db.delete(key)
                wanted.pop(key, None)
            else:
                wanted[key] = db[key] = rnd.randbytes(3) * rnd.randrange(12)
        db.flush()
        if flush == 1:
            db.compact_range(None, None)
    db.close()
    return wanted


def ssts(directory: Path) -> list[FileSource]:
    return [FileSource(StorePath(str(path)), path.stat().st_size) for path in sorted(directory.glob("*.sst"))]


@pytest.mark.parametrize(
    ("version", "checksum"),
    [
        (version, checksum) if version == 5 or checksum == "crc32c" else exhaustive(version, checksum)
        for version in (2, 3, 4, 5, 6)
        for checksum in ("no_checksum", "crc32c", "xxhash", "xxhash64", "xxh3")
    ],
)
def test_format_versions_and_checksums(version: int, checksum: str, tmp_path: Path) -> None:
    table = BlockBasedOptions()
    table.set_format_version(version)
    made = {
        "no_checksum": ChecksumType.no_checksum,
        "crc32c": ChecksumType.crc32c,
        "xxhash": ChecksumType.xxhash,
        "xxhash64": ChecksumType.xxhash64,
        "xxh3": ChecksumType.xxh3,
    }[checksum]
    table.set_checksum_type(made())
    wanted = write(tmp_path, options(table), keys=300)
    assert contents(database(tmp_path), "default") == wanted
    footer = open_table(ssts(tmp_path)[0]).reader.footer
    assert (footer.version, footer.index is None) == (version, version == 6)


@pytest.mark.parametrize("compression", ["none", "snappy", "zlib", "lz4", "lz4hc", "zstd", "bz2"])
def test_compressions(compression: str, tmp_path: Path) -> None:
    wanted = write(tmp_path, options(compression=getattr(DBCompressionType, compression)()))
    assert contents(database(tmp_path), "default") == wanted


def hash_search(made: Options, table: BlockBasedOptions) -> None:
    table.set_index_type(BlockBasedIndexType.hash_search())
    made.set_prefix_extractor(SliceTransform.create_fixed_prefix(1))


def partitioned(made: Options, table: BlockBasedOptions) -> None:
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_bloom_filter(10.0, False)
    table.set_metadata_block_size(256)


def hashed_blocks(made: Options, table: BlockBasedOptions) -> None:
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    table.set_data_block_hash_ratio(0.75)


def delta_index(made: Options, table: BlockBasedOptions) -> None:
    table.set_index_block_restart_interval(8)


def restart_at_every_key(made: Options, table: BlockBasedOptions) -> None:
    table.set_block_restart_interval(1)


@pytest.mark.parametrize("form", [hash_search, partitioned, hashed_blocks, delta_index, restart_at_every_key])
@pytest.mark.parametrize("version", [exhaustive(2), 5])
def test_index_and_block_types(
    form: Callable[[Options, BlockBasedOptions], None], version: int, tmp_path: Path
) -> None:
    table = BlockBasedOptions()
    table.set_format_version(version)
    table.set_block_size(512)
    made = options()
    form(made, table)
    made.set_block_based_table_factory(table)
    wanted = write(tmp_path, made)
    files = database(tmp_path)
    assert contents(files, "default") == wanted
    for groups in (range(1), range(3, 5), range(15, 16), range(16, 20)):
        part = {key: value for key, value in wanted.items() if key[0] in groups}
        assert contents(files, "default", groups) == part


def test_two_byte_key_groups(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options())
    wanted = {group.to_bytes(2, "big") + b"k": b"%d" % group for group in range(0, 1000, 7)}
    for key, value in wanted.items():
        db[key] = value
    db.close()
    files = database(tmp_path)
    assert contents(files, "default", range(1 << 15), 2) == wanted
    assert list(contents(files, "default", range(253, 260), 2)) == [b"\x01\x03k"]


def test_a_key_without_its_key_group_is_refused(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options())
    db[b"\x01"] = b"value"
    db.close()
    with pytest.raises(CorruptSnapshot, match="too short for its key group"):
        contents(database(tmp_path), "default", range(1000), 2)


def test_range_deletions_apply_across_files(tmp_path: Path) -> None:
    made = options()
    made.set_target_file_size_base(4000)
    db = Rdict(str(tmp_path), made)
    rnd, wanted = random.Random(7), {}
    for part in range(30):
        for _ in range(200):
            key = bytes([rnd.randrange(16), rnd.randrange(40)])
            wanted[key] = db[key] = rnd.randbytes(30)
        low, high = sorted((bytes([rnd.randrange(16), rnd.randrange(40)]), bytes([rnd.randrange(16)])))
        db.delete_range(low, high)
        wanted = {key: value for key, value in wanted.items() if not low <= key < high}
        db.flush()
        if part % 9 == 4:
            db.compact_range(bytes([rnd.randrange(8)]), bytes([8 + rnd.randrange(8)]))
    db.close()
    files = database(tmp_path)
    assert sum(table_properties(source).range_deletions for source in ssts(tmp_path)) > 0
    assert contents(files, "default") == wanted
    without = [file for file in files if not file.name.startswith(("MANIFEST", "CURRENT"))]
    with pytest.raises(CorruptSnapshot, match="MANIFEST is not there"):
        contents(without, "default")


def test_ingested_files_use_their_global_sequence_number(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path / "db"), options())
    wanted = {bytes([1, k]): b"first" for k in range(100)}
    for key, value in wanted.items():
        db[key] = value
    db.flush()
    writer = SstFileWriter(options())
    writer.open(str(tmp_path / "outside.sst"))
    for k in range(0, 100, 3):
        writer[bytes([1, k])] = wanted[bytes([1, k])] = b"ingested"
    writer.finish()
    db.ingest_external_file([str(tmp_path / "outside.sst")])
    db[bytes([1, 3])] = wanted[bytes([1, 3])] = b"last"
    db.flush()
    db.close()
    files = database(tmp_path / "db")
    assert contents(files, "default") == wanted
    tables = [table_properties(source) for source in ssts(tmp_path / "db")]
    assert [table.entries for table in tables if table.external_version] == [34]


@pytest.mark.slow
def test_large_keys_and_values_outgrow_the_buffers(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options())
    wanted = {b"\x02" + b"k" * 5000: b"v" * (20 << 20), b"\x02": b"", b"\x03" * 70000: b"w", b"\x04": b"x"}
    for key, value in wanted.items():
        db[key] = value
    db.close()
    assert contents(database(tmp_path), "default") == wanted


def test_batches_contain_65536_entries(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options())
    for k in range(70_000):
        db[b"\x01%05d" % k] = b"v"
    db.close()
    batches = list(rocksdb_entries(database(tmp_path), "default", range(128), 1))
    assert [len(batch) for batch in batches] == [65536, 70_000 - 65536]
    assert batches[0].data[: batches[0].ranges[3, 1]].tobytes() == b"00000v00001v"
    assert {batch.key_groups.dtype for batch in batches} == {np.dtype(np.int32)}
    assert not any(batch.exact for batch in batches)


def test_column_families_are_read_from_their_own_files(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options())
    for name in ("first", "empty", "dropped"):
        db.create_column_family(name, options())
    db.get_column_family("first")[b"\x01a"] = b"1"
    db.get_column_family("dropped")[b"\x01a"] = b"2"
    db[b"\x01a"] = b"3"
    for name in ("first", "dropped"):
        db.get_column_family(name).flush()
    db.drop_column_family("dropped")
    db.close()
    files = database(tmp_path)
    assert contents(files, "first") == {b"\x01a": b"1"}
    assert contents(files, "empty") == {}
    assert contents(files, "default") == {b"\x01a": b"3"}
    with pytest.raises(CorruptSnapshot, match="no column family of this name"):
        contents(files, "dropped")
    families = column_families(files)
    assert families is not None
    assert [(family.name, len(family.files)) for family in families] == [("default", 1), ("first", 1), ("empty", 0)]


def test_without_a_manifest_the_column_family_is_read_from_table_properties(tmp_path: Path) -> None:
    wanted = write(tmp_path, options(), keys=200)
    files = [file for file in database(tmp_path) if file.name.endswith(".sst")]
    assert column_families(files) is None
    assert contents(files, "default") == wanted
    assert contents(files, "other") == {}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, options(), keys=200)
    files = database(tmp_path)
    gone = next(file for file in files if file.name.endswith(".sst"))
    with pytest.raises(MissingFile, match=gone.name):
        contents([file for file in files if file is not gone], "default")


def test_a_replaced_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, options(), keys=200)
    files = in_memory(tmp_path)
    name = next(name for name in files if name.endswith(".sst"))
    files[name] = files[name][:-1]
    with pytest.raises(CorruptSnapshot, match=f"{name} has {len(files[name])} bytes where the MANIFEST says"):
        contents(inline(files), "default")


def test_blob_files_are_refused(tmp_path: Path) -> None:
    made = options()
    made.set_enable_blob_files(True)
    made.set_min_blob_size(10)
    db = Rdict(str(tmp_path), made)
    db[b"\x01key"] = b"long enough for a blob file"
    db.close()
    with pytest.raises(UnsupportedSnapshot, match="blob file"):
        contents(database(tmp_path), "default")


def test_dictionaries_are_refused(tmp_path: Path) -> None:
    made = options(compression=DBCompressionType.zstd())
    made.set_compression_options(-14, 3, 0, 4096)
    made.set_zstd_max_train_bytes(100 * 4096)
    rnd = random.Random(1)
    db = Rdict(str(tmp_path), made)
    for k in range(5000):
        db[b"\x01%05d" % k] = b"some text that repeats itself %d" % rnd.randrange(1000)
    db.compact_range(None, None)
    db.close()
    with pytest.raises(UnsupportedSnapshot, match="dictionary"):
        contents(database(tmp_path), "default")


def test_properties(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options())
    for k in range(100):
        db[b"\x01%05d" % k] = b"0123456789"
    for k in range(10):
        db.delete(b"\x02%05d" % k)
    db.close()
    (source,) = ssts(tmp_path)
    properties = table_properties(source)
    assert (properties.entries, properties.deletions, properties.merge_operands) == (110, 10, 0)
    assert (properties.raw_key_size, properties.raw_value_size) == (110 * (6 + 8), 1000)
    assert properties.column_family == "default"
    assert properties.compression == "Snappy"
    assert properties.comparator == "leveldb.BytewiseComparator"


class Counting:
    """A source that counts the bytes read."""

    def __init__(self, source: FileSource) -> None:
        self.source, self.name, self.size, self.read_bytes = source, source.uri, source.size, 0

    def read(self, start: int, length: int) -> bytes:
        self.read_bytes += length
        return self.source.read(start, length)

    def read_all(self, limit: int) -> bytes:
        return self.read(0, self.size)


def test_only_blocks_of_the_requested_key_groups_are_read(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options(compression=DBCompressionType.none()))
    wanted = {b"%c%06d" % (group, k): b"v" * 100 for group in range(100) for k in range(200)}
    for key, value in wanted.items():
        db[key] = value
    db.close()
    files = database(tmp_path)
    counted = [Counting(file.source) for file in files]  # type: ignore[arg-type]
    files = [type(file)(file.name, source) for file, source in zip(files, counted, strict=True)]
    found = contents(files, "default", range(50, 51))
    assert found == {key: value for key, value in wanted.items() if key[0] == 50}
    table = next(source for source in counted if source.name.endswith(".sst"))
    assert table.size > 2_000_000
    assert table.read_bytes < table.size // 20


def test_sizes_per_key_group(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), options(compression=DBCompressionType.none()))
    for group, entries in ((2, 1000), (3, 4000), (7, 2000)):
        for k in range(entries):
            db[b"%c%06d" % (group, k)] = b"v" * 100
    db.close()
    sizes = key_group_sizes(database(tmp_path), "default", range(1, 9), 1)
    assert sizes[[0, 3, 4, 5, 7]].tolist() == [0, 0, 0, 0, 0]
    assert sizes[[1, 2, 6]] == pytest.approx([110_000, 440_000, 220_000], rel=0.06)
    assert key_group_sizes(database(tmp_path), "default", range(3, 4), 1) == pytest.approx([440_000], rel=0.06)


def test_splits_end_at_key_group_boundaries() -> None:
    sizes = np.array([5, 5, 30, 0, 1, 9])
    assert split_key_groups(range(4, 10), sizes, 10) == [range(4, 6), range(6, 7), range(7, 10)]
    assert split_key_groups(range(4, 10), sizes, 100) == [range(4, 10)]
    assert split_key_groups(range(4, 4), np.zeros(0, np.int64), 10) == []


def test_a_table_of_another_column_family_is_refused(tmp_path: Path) -> None:
    """Files of equal length can be exchanged, as by a path mapping: the table itself says whose it is."""
    db = Rdict(str(tmp_path), options())
    for name in ("first", "other"):
        db.create_column_family(name, options())
        family = db.get_column_family(name)
        family[b"\0key"] = name.encode()
        family.flush()
    db.close()
    first, other = sorted(tmp_path.glob("*.sst"))
    assert first.stat().st_size == other.stat().st_size
    assert contents(database(tmp_path), "first") == {b"\0key": b"first"}
    first.write_bytes(other.read_bytes())
    with pytest.raises(CorruptSnapshot, match="of the column family 'other', where the MANIFEST lists one of 'first'"):
        contents(database(tmp_path), "first")
