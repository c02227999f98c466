"""RocksDB files that lie with right checksums: the typed error, soon and in little memory, or all the rows."""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import cramjam
import pytest

from stateproc.errors import CorruptSnapshot
from stateproc.readers.rocksdb import DatabaseFile, rocksdb_entries
from stateproc.storage.sources import check_range
from tests.helpers.damage.child_processes import MOST_BYTES
from tests.helpers.damage.crafted_databases import Files, alone, check, complete, listed, tables
from tests.helpers.damage.crafted_tables import (
    MAGIC,
    RANGE_DELETION,
    ROWS,
    Crafted,
    Handle,
    block,
    data_blocks,
    entry,
    footer,
    handle,
    index_of,
    internal,
    partitioned,
    places_of,
    varint,
)  # fmt: skip
from tests.helpers.rocksdb.databases import contents, inline

ENDLESS = b"\xff" * 24
HUGE = (0x7FFFFFFF, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def test_crafted_tables_are_correct_when_nothing_is_changed() -> None:
    complete(partial(alone, Crafted()))
    complete(partial(listed, Crafted()))
    complete(partial(listed, partitioned(lambda _own, places: places)))


def _one_wrong(at: int, place: Callable[[Handle], Handle]) -> Callable[[Sequence[Handle], Sequence[bytes]], bytes]:
    def index(places: Sequence[Handle], keys: Sequence[bytes]) -> bytes:
        return index_of([place(item) if k == at else item for k, item in enumerate(places)], keys)

    return index


def test_places_and_sizes_beyond_the_file() -> None:
    sizes = [(f"a block of {n} bytes", Crafted(index=_one_wrong(1, lambda it, n=n: (it[0], n)))) for n in HUGE]
    places = [(f"a block at byte {n}", Crafted(index=_one_wrong(2, lambda it, n=n: (n, it[1])))) for n in HUGE]

    def ending(metaindex: Handle | None, index: Handle | None) -> Crafted:
        return Crafted(footer=lambda m, i: footer(handle(metaindex or m) + handle(index or i)))

    ends = [(f"an index of {n} bytes", ending(None, (9, n))) for n in HUGE]
    ends += [(f"a metaindex at {n}", ending((n, 9), None)) for n in HUGE]
    names = ("rocksdb.properties", "rocksdb.range_del")
    metas = [(f"{name} of {n} bytes", Crafted(handles={name: handle((3, n))})) for name in names for n in HUGE]
    check(tables(*sizes, *places, *ends, *metas))


@dataclass(frozen=True)
class Vast:
    """``head``, ``hole`` zeros and ``tail``; nobody may read over 256 MiB at once of it."""

    head: bytes
    hole: int
    tail: bytes
    name: str = "vast"

    @property
    def size(self) -> int:
        return len(self.head) + self.hole + len(self.tail)

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        assert length <= MOST_BYTES, f"{length} bytes are read at once"
        after = len(self.head) + self.hole
        zeros = min(start + length, after) - max(start, len(self.head))
        end = self.tail[max(0, start - after) : max(0, start + length - after)]
        return self.head[start : start + length] + bytes(max(0, zeros)) + end

    def read_all(self, limit: int) -> bytes:
        return self.read(0, self.size)


@pytest.mark.parametrize("size", [(1 << 31) + 1000, (1 << 32) + 1000, 1 << 40])
def test_blocks_of_over_2_gib_in_files_that_have_them(size: int) -> None:
    """Flink's values are arrays of Java: under 2 GiB, and a block that has more than one is far smaller."""
    at = len(Crafted()()) - 53
    found: list[tuple[str, Crafted]] = [
        ("the index", Crafted(footer=lambda m, _i: footer(handle(m) + handle((at, size))))),
        ("the metaindex", Crafted(footer=lambda _m, i: footer(handle((at, size)) + handle(i)))),
        ("the properties", Crafted(handles={"rocksdb.properties": handle((at, size))})),
        ("deleted ranges", Crafted(handles={"rocksdb.range_del": handle((at, size))})),
        ("data", Crafted(index=_one_wrong(2, lambda _it: (at, size)))),
    ]
    for name, table in found:
        data = table()
        source = Vast(data[:-53], size + 100, data[-53:])
        with pytest.raises(CorruptSnapshot) as caught:
            contents([DatabaseFile("000007.sst", source)], "default")
        assert caught.value.where.file == "vast" and caught.value.where.offset is not None, name


COMPRESSIONS = {"snappy": 1, "zlib": 2, "bzip2": 3, "lz4": 4, "lz4hc": 5, "xpress": 6, "zstd": 7, "unknown": 0x77}


def _claiming(kind: int, claim: int, size: int) -> list[tuple[bytes, int]]:
    """Data blocks of which the second claims much and is ``size`` random-looking bytes."""
    noise = bytes(range(256)) * (size // 256 + 1)
    return [(raw, 0) if k != 1 else (varint(claim) + noise[:size], kind) for k, raw in enumerate(data_blocks())]


def test_claims_of_what_compressed_blocks_hold() -> None:
    claims = [1 << 20, 100 << 20, 900 << 20, *HUGE]
    check(
        tables(
            *(
                (f"{name} claims {claim} of {size}", Crafted(_claiming(kind, claim, size)))
                for name, kind in COMPRESSIONS.items()
                for claim in claims
                for size in (0, 3, 300, 40_000)
            )
        )
    )


def test_claims_in_tables_of_the_first_versions() -> None:
    """Eight bytes before LZ4, nothing before zlib."""

    def table(version: int, claim: int, kind: int) -> Crafted:
        body = struct.pack("<Q", claim) + bytes(500) if kind != 2 else zlib.compress(bytes(claim & 0xFFFF))[2:-9]
        data = [(raw, 0) if k != 1 else (body, kind) for k, raw in enumerate(data_blocks())]
        return Crafted(data, footer=lambda m, i: footer(handle(m) + handle(i), version=version))

    claims = (0, 1 << 20, *HUGE)
    check(tables(*((f"{kind} claims {n}", table(1, n % (1 << 64), kind)) for kind in (2, 4, 5) for n in claims)))


def test_compressed_blocks_that_grow_a_thousandfold() -> None:
    """Neighbours that hold 16 MiB each: all is read, but not all at once."""

    def rows(files: Files) -> None:
        batches = rocksdb_entries(inline(files), "default", range(1), 1)
        assert sum(len(batch.key_groups) for batch in batches) == 24

    def grown(version: int, kind: int, squeeze: Callable[[bytes], bytes]) -> Crafted:
        keys = [b"\0%03d" % k for k in range(24)]
        raw = [block(entry(internal(key, 7), bytes(16 << 20))) for key in keys]
        size = varint(len(raw[0])) if version > 1 else b""
        return Crafted(
            [(size + squeeze(item), kind) for item in raw],
            lambda places, _keys: index_of(places, keys),
            footer=lambda m, i: footer(handle(m) + handle(i), version=version),
        )

    tables = {
        "zstd": grown(5, 7, lambda raw: bytes(cramjam.zstd.compress(raw))),
        "zlib": grown(5, 2, lambda raw: zlib.compress(raw, 1)[2:-4]),
        "zlib of the first versions": grown(1, 2, lambda raw: zlib.compress(raw, 1)[2:-4]),
        "bzip2": grown(5, 3, bz2.compress),
    }
    check([], *((name, partial(rows, alone(table))) for name, table in tables.items()))


def test_indexes_that_point_to_themselves_or_in_circles() -> None:
    def itself(places: Sequence[Handle], keys: Sequence[bytes]) -> bytes:
        """The last entry is the index block's own place, which is as long as it turns out to be."""
        size = 0
        at = places[-1][0] + places[-1][1] + 5
        while True:
            made = index_of([*places[:-1], (at, size)], keys)
            if len(made) == size:
                return made
            size = len(made)

    loops: list[tuple[str, Crafted]] = [
        ("itself", Crafted(index=itself)),
        ("one block twice", Crafted(index=lambda places, keys: index_of([places[0], places[0], places[2]], keys))),
        ("backwards", Crafted(index=lambda places, keys: index_of(places[::-1], keys))),
        ("overlapping", Crafted(index=_one_wrong(1, lambda it: (it[0] - 9, it[1])))),
        ("a block left out", Crafted(index=lambda places, keys: index_of(places[:2], keys[:2]))),
        ("the first left out", Crafted(index=lambda places, keys: index_of(places[1:], keys[1:]))),
        ("keys not in order", Crafted(index=lambda places, keys: index_of(places, keys[::-1]))),
        ("nothing", Crafted(index=lambda _places, _keys: block())),
        ("the metaindex as the index", Crafted(footer=lambda m, _i: footer(handle(m) + handle(m)))),
        ("the index as the metaindex", Crafted(footer=lambda _m, i: footer(handle(i) + handle(i)))),
        ("partitions: the top level", partitioned(lambda top, places: [*places[:2], top])),
        ("partitions: only the top level", partitioned(lambda top, _places: [top] * 3)),
        ("partitions: one twice", partitioned(lambda _top, places: [places[0], places[1], places[1]])),
        ("partitions: one left out", _shorter()),
        ("partitions of data", _relabelled(Crafted(), 2)),
        ("partitions read as data", _relabelled(partitioned(lambda _top, places: places), 0)),
    ]
    check(tables(*loops))


def _relabelled(table: Crafted, kind: int) -> Crafted:
    properties = dict(table.properties) | {"rocksdb.block.based.table.index.type": kind.to_bytes(4, "little")}
    return table.but(properties=properties)


def _shorter() -> Crafted:
    table = partitioned(lambda _top, places: places)
    parts = places_of(table.data)[3:5]
    keys = [sorted(ROWS)[19], sorted(ROWS)[59]]
    return table.but(index=lambda _p, _k: index_of(parts, keys))


def test_blocks_whose_parts_lie() -> None:
    """Numbers of restart points, shared lengths, varints: in data, index, properties, metaindex, deleted ranges."""
    key = internal(b"\0000", 7)
    wrong = {
        "endless shared": block(ENDLESS),
        "endless length": block(b"\0" + ENDLESS),
        "endless value": block(b"\0\x0c" + ENDLESS),
        "shares before the first key": block(entry(key, b"v", shared=1)),
        "shares beyond the key": block(entry(key, b"v"), entry(key, b"v", shared=len(key) + 1)),
        "shares 2 GiB": block(entry(key, b"v"), entry(key, b"v", shared=0x7FFFFFFF)),
        "a value beyond the block": block(varint(0) + varint(12) + varint(1 << 20) + key),
        "a key beyond the block": block(varint(0) + varint((1 << 32) - 1) + varint(0) + key),
        "a short key": block(entry(b"1234567", b"v")),
        "an empty key": block(entry(b"", b"v")),
        "less than a word": b"\1\0",
        "nothing at all": b"",
    }
    wrong |= {f"{n} restarts": block(entry(key, b"v"), restarts=n) for n in (100, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF)}
    data = [(f"data: {name}", Crafted([(raw, 0), *_rest()])) for name, raw in wrong.items()]
    indexes = [(f"index: {name}", Crafted(index=lambda _p, _k, raw=raw: raw)) for name, raw in wrong.items()]
    properties = [(f"properties: {name}", Crafted(raw_properties=raw)) for name, raw in wrong.items() if raw]
    metaindexes = [(f"metaindex: {name}", Crafted(raw_metaindex=raw)) for name, raw in wrong.items() if raw]
    deleted = [(f"deleted: {name}", Crafted(named={"rocksdb.range_del": raw})) for name, raw in wrong.items()]
    check(tables(*data, *indexes, *properties, *metaindexes, *deleted))


def _rest() -> list[tuple[bytes, int]]:
    return [(raw, 0) for raw in data_blocks()[1:]]


def test_keys_that_share_a_long_beginning() -> None:
    """A megabyte once, and then shared by ten thousands of entries of a few bytes."""
    long = b"\0" + b"k" * (1 << 20)

    def shared(of: Callable[[int], bytes], value: bytes, n: int = 20_000) -> bytes:
        first = entry(long + of(0), value)
        return block(first, *(entry(of(k), value, shared=len(long)) for k in range(1, n)))

    def key(k: int) -> bytes:
        return internal(b"%06d" % k, 7)

    index = shared(key, handle((0, 10)))
    deleted = shared(lambda k: internal(b"%06d" % k, 9, RANGE_DELETION), b"\1")
    found = [
        ("index", Crafted(index=lambda _p, _k: index)),
        ("metaindex", Crafted(raw_metaindex=shared(key, handle((0, 10))))),
        ("properties", Crafted(raw_properties=shared(key, b"v"))),
        ("deleted ranges", Crafted(named={"rocksdb.range_del": deleted})),
    ]
    check(tables(*found))


def test_properties_that_lie() -> None:
    name = "rocksdb.block.based.table.index.type"
    wrong: list[dict[str, bytes]] = [{name: n.to_bytes(4, "little")} for n in (2, 3, 4, 77, (1 << 32) - 1)]
    wrong += [{name: b""}, {name: bytes(8)}]
    wrong += [{"rocksdb.comparator": it} for it in (b"rocksdb.ReverseBytewiseComparator", b"\xff" * 300)]
    for number in ("rocksdb.num.data.blocks", "rocksdb.index.value.is.delta.encoded", "rocksdb.num.entries"):
        wrong.append({number: ENDLESS})
        wrong.append({number: b""})
    wrong += [{"rocksdb.index.value.is.delta.encoded": b"\1"}, {"rocksdb.num.data.blocks": varint(4)}]
    wrong += [{"rocksdb.num.data.blocks": varint((1 << 64) - 1)}]
    sequence = "rocksdb.external_sst_file.global_seqno"
    ingested = {"rocksdb.external_sst_file.version": (2).to_bytes(4, "little")}
    wrong += [{sequence: it} for it in (b"", bytes(7), bytes(9), b"\xff" * 8)]
    wrong += [{**ingested, sequence: (99).to_bytes(8, "little")}]
    check([(f"{item}", partial(listed, Crafted(properties=item))) for item in wrong])


def test_footers_of_another_kind() -> None:
    def table(**fields: int) -> Crafted:
        return Crafted(footer=lambda m, i: footer(handle(m) + handle(i), **fields))

    found = [(f"version {n}", table(version=n)) for n in (6, 7, 8, 255, (1 << 31) - 1, (1 << 32) - 1)]
    found += [(f"checksum {n}", table(kind=n)) for n in (5, 6, 255)]
    # The first block-based tables', plain tables' (twice), cuckoo tables' magic numbers; none; the wrong way round.
    magics = (0xDB4775248B80FB57, 0x4F3418EB7A8F13B8, 0x8242229663BF9564, 0x926789D0C5F17873, 0, 0xF7CFF485B741E288)
    found += [(f"magic {n:x}", table(magic=n)) for n in magics]
    found += [("endless handles", Crafted(footer=lambda _m, _i: footer(b"\xff" * 40)))]
    for length in (0, 1, 1 << 20, (1 << 32) - 1):
        tail = b"\1" + b"\x3e\0\x7a\0" + struct.pack("<III", 0, 0, length) + bytes(24) + struct.pack("<IQ", 6, MAGIC)
        found.append((f"version 6, metaindex of {length}", Crafted(footer=lambda _m, _i, tail=tail: tail)))
    check(tables(*found))


def _deleting(ranges: Sequence[tuple[bytes, bytes, int]]) -> Crafted:
    rows = sorted((internal(start, sequence, RANGE_DELETION), end) for start, end, sequence in ranges)
    return Crafted(named={"rocksdb.range_del": block(*(entry(key, end) for key, end in rows))})


def test_deleted_ranges_that_cross() -> None:
    """Each over half of all others, older than the next; only what is newer than a row deletes it."""
    n = 20_000
    older = [(b"\0%06d" % k, b"\0%06d" % (k + n), 1 + k % 6) for k in range(n)]
    crossing = [(b"\0010", b"\0030", 9), (b"\0020", b"\0040", 3), (b"\0005", b"\0012", 8), (b"\0029", b"\0035", 10)]
    left = {key: value for key, value in ROWS.items() if not b"\0005" <= key < b"\0035"}
    inverted = [(b"\0040", b"\0010", 9), (b"\0020", b"\0020", 9)]
    check(
        [("without a manifest", partial(alone, _deleting(crossing)))],
        ("older than all", partial(complete, partial(listed, _deleting(older)))),
        ("crossing", partial(complete, partial(listed, _deleting(crossing)), left)),
        ("inverted", partial(complete, partial(listed, _deleting(inverted)))),
    )
