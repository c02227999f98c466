"""Damage of what checksums cover, which are computed again: of RocksDB's tables and MANIFEST, and of snappy frames.

What has none of these forms any more comes back as it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import cramjam
import numpy as np

from stateproc.errors import SnapshotError
from stateproc.readers.rocksdb.checksums import CRC32C, checksum
from stateproc.readers.rocksdb.compression import Oversized
from stateproc.readers.rocksdb.format import FOOTER_SIZE, TRAILER_SIZE, block_handle
from stateproc.readers.rocksdb.manifest import log_records
from stateproc.readers.rocksdb.meta_blocks import entries_of, property_entries
from stateproc.readers.rocksdb.table import open_table
from stateproc.storage.sources import InlineSource
from tests.helpers.damage.crafted_tables import (
    PROPERTIES,
    block,
    entry,
    footer_5,
    handle,
    index_of,
    log,
    log_record,
    varint,
)
from tests.helpers.damage.mutations import MUTATIONS

_LONGEST_RECORD = 32768 - 7
_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_PADDING = 0xFE
# The new table has one index block of whole handles and internal keys.
_OWN_PROPERTIES = {
    b"rocksdb.block.based.table.index.type": bytes(4),
    b"rocksdb.index.value.is.delta.encoded": varint(0),
    b"rocksdb.index.key.is.user.key": varint(0),
}
_READ = {*map(str.encode, PROPERTIES), b"rocksdb.external_sst_file.version", b"rocksdb.external_sst_file.global_seqno"}
_KEPT = ("rocksdb.range_del",)


def damaged_contents(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage what a checksum covers."""
    for damage in (_table, _log, _frames):
        try:
            found = damage(rng, data)
        except (SnapshotError, Oversized, ValueError, IndexError, cramjam.DecompressionError):
            continue
        if found is not None:
            return found
    return data


def _mutated(rng: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if found:
            rng.choice(MUTATIONS)(rng, found)
    return bytes(found)


def _table(rng: random.Random, data: bytes) -> bytes | None:
    """Write a table again after one of its blocks was damaged; without filters, so that there is space for it.

    It has its old size if that is enough: a MANIFEST says the sizes of tables.
    """
    table = open_table(InlineSource("table", data), verify=False)
    index, reader = table.index(), table.reader
    metaindex = {name.decode("latin-1"): value for name, value in entries_of(reader, reader.footer.metaindex)}
    if "rocksdb.properties" not in metaindex or not len(index):
        return None
    found = property_entries(reader, block_handle(metaindex["rocksdb.properties"])[0])
    properties = {name: value for name, value in found if name in _READ} | _OWN_PROPERTIES
    properties[b"rocksdb.num.data.blocks"] = varint(len(index))
    chosen = rng.choice(("data", "data", "data", "index", "properties", "metaindex"))
    damaged = rng.randrange(len(index)) if chosen == "data" else -1
    out = bytearray()

    def add(content: bytes, kind: bytes = b"\0") -> tuple[int, int]:
        place = len(out), len(content)
        stored = content + kind
        out.extend(stored + checksum(CRC32C, stored).to_bytes(4, "little"))
        return place

    def part(name: str, content: bytes) -> tuple[int, int]:
        return add(_mutated(rng, content) if name == chosen else content)

    def copied(at: int, size: int) -> tuple[int, int]:
        return add(data[at : at + size], data[at + size : at + size + 1])

    places = []
    for number, (at, size) in enumerate(zip(index.offsets.tolist(), index.sizes.tolist(), strict=True)):
        if number == damaged:
            one = np.array([at]), np.array([size])
            plain, _ = reader.plain(np.frombuffer(data, np.uint8), *one, np.array([at]))
            places.append(part("data", plain.tobytes()))
        else:
            places.append(copied(at, size))
    meta = {}
    for name in _KEPT:
        if name in metaindex:
            old = block_handle(metaindex[name])[0]
            meta[name] = copied(old.offset, old.size)
    own = part("index", index_of(places, [index.separator(number) for number in range(len(index))]))
    listed = block(*(entry(name, properties[name]) for name in sorted(properties)))
    meta["rocksdb.properties"] = part("properties", listed)
    last = block(*(entry(name.encode(), handle(meta[name])) for name in sorted(meta)))
    out.extend(bytes(max(0, len(data) - len(out) - len(last) - TRAILER_SIZE - FOOTER_SIZE)))
    ending = part("metaindex", last)
    return bytes(out) + footer_5(ending, own)


def _log(rng: random.Random, data: bytes) -> bytes | None:
    """Write a log again, after one of its records was damaged, dropped or repeated."""
    records = [record for _, record in log_records(data, "log")]
    if not records:
        return None
    number = rng.randrange(len(records))
    choice = rng.random()
    if choice < 0.8:
        records[number] = _mutated(rng, records[number])
    elif choice < 0.9:
        del records[number]
    else:
        records.insert(rng.randrange(len(records) + 1), records[number])
    return log([log_record(record[:_LONGEST_RECORD]) for record in records])


def _frames(rng: random.Random, data: bytes) -> bytes | None:
    """Damage what a snappy stream holds; the last one of a file may have another length."""
    starts = [match.start() for match in re.finditer(re.escape(_IDENTIFIER), data)]
    if not starts:
        return None
    number = rng.randrange(len(starts))
    start = starts[number]
    is_last = number + 1 == len(starts)
    stop = len(data) if is_last else starts[number + 1]
    plain = bytes(cramjam.snappy.decompress(data[start:stop]))
    made = bytes(cramjam.snappy.compress(_mutated(rng, plain)))
    spare = stop - start - len(made)
    if spare >= 4:
        made += bytes([_PADDING]) + (spare - 4).to_bytes(3, "little") + bytes(spare - 4)
    elif spare and not is_last:
        return None
    return data[:start] + made + data[stop:]
