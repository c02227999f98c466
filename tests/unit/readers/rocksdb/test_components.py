"""Components of the RocksDB reader, compared with known values and slow reference implementations."""

from __future__ import annotations

import bz2
import random
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rocksdict import Options, Rdict

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.readers.rocksdb import DatabaseFile, open_table
from stateproc.readers.rocksdb import sorted_runs as runs
from stateproc.readers.rocksdb.checksums import CRC32C, XXH3, XXHASH32, XXHASH64, checksum, context_modifier
from stateproc.readers.rocksdb.compression import decompressed
from stateproc.readers.rocksdb.database import family_files
from stateproc.readers.rocksdb.format import MAX_SEQUENCE, block_handle, read_footer, varint
from stateproc.readers.rocksdb.key_ranges import key_spans, runs_of
from stateproc.readers.rocksdb.manifest import log_records, read_manifest
from stateproc.readers.rocksdb.table import Index, spans
from stateproc.readers.rocksdb.tombstones import Tombstone, fragments
from stateproc.storage import InlineSource
from stateproc.writers.formats.rocksdb.manifest import write_log
from tests.helpers.damage import checked_reader_kernels
from tests.helpers.rocksdb.databases import contents, database

PLAIN = b"plain " * 100


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Compute CRC-32C bit by bit, as a reference."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    rnd = random.Random(1)
    for size in [0, 1, 7, 8, 9, 15, 16, 17, 100, 1000]:
        data = rnd.randbytes(size)
        assert checksum(CRC32C, data) == masked(crc32c(data))


@pytest.mark.parametrize("instruction", [True, False])
def test_crc32c_with_and_without_the_instruction(instruction: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_reader_kernels.CHECKSUMS, "_HAS_INSTRUCTION", instruction)
    rnd = random.Random(2)
    with checked_reader_kernels.checked_reader_kernels():
        for size in [0, 1, 7, 8, 9, 100]:
            data = rnd.randbytes(size)
            assert checksum(CRC32C, data) == masked(crc32c(data))


def test_other_checksums() -> None:
    assert checksum(XXHASH32, b"abc") == 0x32D153FF
    assert checksum(XXHASH64, b"abc") == 0x44BC2CF5AD770999 & 0xFFFFFFFF
    # XXH3 checksums mix in the last byte after the hash of the others.
    assert checksum(XXH3, b"abc\0") == 0x78AF5F94892F3950 & 0xFFFFFFFF
    assert checksum(XXH3, b"abc\2") == (0x78AF5F94892F3950 & 0xFFFFFFFF) ^ (2 * 0x6B9083D9 & 0xFFFFFFFF)
    assert context_modifier(0, 12345) == 0
    assert context_modifier(0xFF00FF00, (5 << 32) + 0xF) == 0xFF00FF00 ^ 0x14


def test_varints_are_decoded() -> None:
    assert varint(b"\x00", 0) == (0, 1)
    assert varint(b"\xac\x02\x07", 0) == (300, 2)
    assert varint(b"\xff" * 9 + b"\x01", 0) == ((1 << 64) - 1, 10)
    assert block_handle(b"\x05\xac\x02")[0].size == 300
    for bad in (b"", b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02"):
        with pytest.raises(ValueError):
            varint(bad, 0)


@pytest.mark.parametrize("seed", range(30))
def test_fragments_equal_the_newest_tombstone_at_every_key(seed: int) -> None:
    rnd = random.Random(seed)
    positions = [(bytes([key]), MAX_SEQUENCE - sequence) for key in range(6) for sequence in (9, 5, 2, 0)]
    tombstones = []
    for _ in range(rnd.randrange(12)):
        start, end = sorted(rnd.sample(positions, 2))
        tombstones.append(Tombstone(start, end, rnd.randrange(1, 20)))
    made = fragments(tombstones)
    rows = made.table.tolist()
    keys = made.keys.tobytes()

    def newest(position: tuple[bytes, int]) -> int:
        for at, size, sequence, end_at, end_size, end_sequence, newest in rows:
            start = (keys[at : at + size], MAX_SEQUENCE - sequence)
            end = (keys[end_at : end_at + end_size], MAX_SEQUENCE - end_sequence)
            if start <= position < end:
                return int(newest)
        return 0

    for position in positions:
        assert newest(position) == max((t.sequence for t in tombstones if t.start <= position < t.end), default=0)


def test_index_finds_the_blocks_of_a_range() -> None:
    keys = [b"b", b"d", b"d", b"f"]
    lengths = np.cumsum([0] + [len(key) for key in keys])
    index = Index(np.arange(4) * 10, np.full(4, 5), np.frombuffer(b"".join(keys), np.uint8), lengths[:-1], lengths[1:])
    assert index.within(b"", None) == slice(0, 4)
    assert index.within(b"a", b"b") == slice(0, 1)
    assert index.within(b"b", b"c") == slice(0, 2)
    assert index.within(b"c", b"d") == slice(1, 2)
    assert index.within(b"d", b"da") == slice(1, 4)
    assert index.within(b"e", b"z") == slice(3, 4)
    assert index.within(b"g", None) == slice(4, 4)
    part = index.part(slice(1, 3))
    assert [part.separator(k) for k in range(len(part))] == [b"d", b"d"]
    assert index.within_any([(b"a", b"b"), (b"e", None)]).tolist() == [0, 3]
    assert index.within_any([(b"a", b"c"), (b"b", b"d")]).tolist() == [0, 1]
    assert [index.part(np.array([0, 3])).separator(k) for k in (0, 1)] == [b"b", b"f"]


def test_spans_are_merged() -> None:
    offsets, sizes = np.array([0, 10, 20, 100]), np.array([5, 5, 60, 5])
    assert spans(offsets, sizes, 15) == [slice(0, 2), slice(2, 3), slice(3, 4)]
    assert spans(offsets, sizes, 1000) == [slice(0, 4)]
    assert spans(offsets, sizes, 1000, gap=10) == [slice(0, 3), slice(3, 4)]
    assert spans(offsets[:0], sizes[:0], 1000) == []
    assert spans(offsets[:0], sizes[:0], 1000) == []


def test_key_spans() -> None:
    assert key_spans([range(3, 5), range(7, 8)], 1) == [(b"\x03", b"\x05"), (b"\x07", b"\x08")]
    assert key_spans([range(255, 256)], 1) == [(b"\xff", None)]
    assert key_spans([range(255, 257)], 2) == [(b"\x00\xff", b"\x01\x01")]
    assert key_spans([range(0), range(2, 3)], 1, []) == []
    # One of these keys is in no requested key group, one is a prefix of another, one is the last of its key group.
    keys = [b"\x04b", b"\x05a", b"\x04b\x00", b"\x03\xff\xff", b"\x04a\xff"]
    assert key_spans([range(3, 5)], 1, keys) == [
        (b"\x03\xff\xff", b"\x04"),
        (b"\x04a\xff", b"\x04c"),
    ]
    assert key_spans([range(255, 256)], 1, [b"\xff\xff"]) == [(b"\xff\xff", None)]


def test_runs() -> None:
    assert runs_of([1, 2, 3, 7, 9, 10]) == (range(1, 4), range(7, 8), range(9, 11))
    assert runs_of([]) == ()


def varint_of(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def record(kind: int, content: bytes) -> bytes:
    crc = masked(crc32c(bytes([kind]) + content))
    return crc.to_bytes(4, "little") + len(content).to_bytes(2, "little") + bytes([kind]) + content


def test_fragments_of_log_records_are_joined() -> None:
    whole = record(1, b"one") + record(2, b"tw") + record(3, b"") + record(4, b"o")
    assert [content for _, content in log_records(whole, "MANIFEST-1")] == [b"one", b"two"]
    filler = record(1, b"x" * (32768 - 7 - 3))
    assert [len(content) for _, content in log_records(filler + bytes(3) + record(1, b"next"), "M")] == [32758, 4]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (record(2, b"begun"), CorruptSnapshot, "last record is cut off"),
        (record(4, b"end"), CorruptSnapshot, "not in order"),
        (record(2, b"a") + record(1, b"b"), CorruptSnapshot, "not in order"),
        (record(1, b"abc")[:-1], CorruptSnapshot, "does not fit"),
        (record(1, b"abc")[:5], CorruptSnapshot, "within a record's header"),
        (record(1, b"abc")[:-1] + b"x", CorruptSnapshot, "checksum is wrong"),
        (bytes(20), CorruptSnapshot, "zeros"),
        (record(9, b"zstd"), UnsupportedSnapshot, "type 9"),
        # What comes after the first damage is not looked at: a wrong length may point to anything.
        (record(1, b"abc")[:-1] + b"x" + record(9, b"zstd"), CorruptSnapshot, "checksum is wrong"),
        (record(1, b"abc") + record(2, b"a") + record(1, b"b")[:-1] + b"x", CorruptSnapshot, "checksum is wrong"),
    ],
)
def test_damaged_logs_are_refused(data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(log_records(data, "MANIFEST-1"))


def test_records_without_content_take_no_memory() -> None:
    """Seven bytes each: what is kept of them at once does not grow with the log."""
    peaks = []
    for blocks in (2, 16):
        log = write_log([b""] * (blocks * 4681))
        tracemalloc.start()
        assert sum(1 for _ in log_records(log, "MANIFEST-1")) == blocks * 4681
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([b"\xac\x02\x81\x80\x04"], "a group of 65537 changes"),
        ([b"\xc8\x01" + varint_of(n) + b"\xc9\x01\x01a" for n in range(1, 65_538)], "65536 column families"),
    ],
    ids=["group", "families"],
)
def test_what_no_database_has_so_many_of_is_refused(records: list[bytes], message: str) -> None:
    with pytest.raises(CorruptSnapshot, match=message):
        read_manifest(write_log(records), "MANIFEST-1")


def test_a_comparator_other_than_bytewise_is_refused() -> None:
    """An options factory may set a comparator; the key bounds of that column family's files are then reversed."""

    def sliced(item: bytes) -> bytes:
        return bytes([len(item)]) + item

    def manifest(comparator: bytes) -> DatabaseFile:
        family = b"\xc8\x01\x01"  # field 200: column family 1
        added = family + b"\xc9\x01" + sliced(b"state") + b"\x01" + sliced(comparator)
        bounds = sliced(b"b" + bytes(8)) + sliced(b"a" + bytes(8))
        table = family + b"\x64" + b"\x00\x07\x10" + bounds + b"\x00\x00"  # field 100: level, number, size
        return DatabaseFile("MANIFEST-1", InlineSource("MANIFEST-1", record(1, added) + record(1, table)))

    files = [manifest(b"rocksdb.ReverseBytewiseComparator")]
    with pytest.raises(UnsupportedSnapshot, match="ordered by rocksdb") as caught:
        family_files(files, "state")
    assert caught.value.advice
    with pytest.raises(CorruptSnapshot, match="smallest key is greater"):
        family_files([manifest(b"leveldb.BytewiseComparator")], "state")


@pytest.mark.parametrize(("kind", "packed"), [(2, zlib.compress(PLAIN)[2:-4]), (3, bz2.compress(PLAIN))])
def test_zlib_and_bzip2_blocks_of_old_tables_store_no_decompressed_size(kind: int, packed: bytes) -> None:
    raw = np.frombuffer(packed + bytes([kind]), dtype=np.uint8)
    plain, bounds = decompressed(raw, np.array([0]), np.array([len(packed)]), "x.sst", np.array([0]), 0)
    assert (plain.tobytes(), bounds.tolist()) == (PLAIN, [0, 600])
    cut = np.frombuffer(packed[:-4] + bytes([kind]), dtype=np.uint8)
    with pytest.raises(CorruptSnapshot, match="cut off"):
        decompressed(cut, np.array([0]), np.array([len(packed) - 4]), "x.sst", np.array([0]), 0)


def test_other_compressions_are_refused() -> None:
    raw = np.frombuffer(b"BZh9\x06", dtype=np.uint8)
    with pytest.raises(UnsupportedSnapshot, match="xpress"):
        decompressed(raw, np.array([0]), np.array([4]), "x.sst", np.array([0]), 5)


def test_invalid_footers_are_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="magic"):
        read_footer(b"\0" * 60, "x.sst", 60)
    with pytest.raises(CorruptSnapshot, match="a table of 3 bytes"):
        read_footer(b"abc", "x.sst", 3)
    future = bytes(41) + (7).to_bytes(4, "little") + bytes.fromhex("f7cff485b741e288")
    with pytest.raises(UnsupportedSnapshot, match="format version 7"):
        read_footer(future, "x.sst", 53)


def test_operands_of_other_merge_operators_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    db = Rdict(str(tmp_path), options)
    db[b"\x01key"] = b"value"
    db.close()
    files = database(tmp_path)
    opened = open_table(next(file.source for file in files if file.name.endswith(".sst")))
    summing = replace(opened.properties, merge_operands=1, merge_operator="UInt64AddOperator")
    monkeypatch.setattr(runs, "open_table", lambda source, verify: replace(opened, properties=summing))
    with pytest.raises(UnsupportedSnapshot, match="UInt64AddOperator"):
        contents(files, "default")
    joining = replace(summing, merge_operator="StringAppendTESTOperator")
    monkeypatch.setattr(runs, "open_table", lambda source, verify: replace(opened, properties=joining))
    assert contents(files, "default") == {b"\x01key": b"value"}
