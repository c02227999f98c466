"""UUIDs of Flink 2.4, in the bytes that its sources say."""

from __future__ import annotations

import struct
from uuid import UUID

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers import LayoutContext, proxied_snapshot, read_snapshot
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from tests.helpers.byte_builders.serializers import INT, read, row_data, slots, sql_type, versioned

SNAPSHOT = versioned("org.apache.flink.api.common.typeutils.base.UuidSerializer$UuidSerializerSnapshot", 3)
TEXT = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
DATA = UUID(TEXT).bytes
POINTER = 24 << 32 | 16
"""A slot of a row: the bytes' offset after two slots, and their length."""
ROW = row_data(INT, sql_type("UuidType", "UUID"), names=("id", "uuid"))


def test_a_uuid_is_two_longs() -> None:
    serializer = read(SNAPSHOT)
    assert (serializer.arrow_type, serializer.length, serializer.type_name) == (pa.string(), 16, "UUID")
    assert serializer.decode(struct.pack(">qq", 1, -1)) == UUID("00000000-0000-0001-ffff-ffffffffffff")
    layout = serializer.layout(LayoutContext())
    assert layout.encode(pa.array([TEXT])).to_arrow().to_pylist() == [DATA]
    for damaged in (DATA[:-1], DATA + b"\0"):
        with pytest.raises(CorruptSnapshot):
            serializer.decode(damaged)


def test_its_snapshot_is_of_flink_2_4() -> None:
    serializer = read(SNAPSHOT)
    assert proxied_snapshot(serializer, Release(2, 4)) == struct.pack(">i", 2) + SNAPSHOT
    with pytest.raises(UnsupportedSnapshot, match=r"Flink 2\.4"):
        proxied_snapshot(serializer, Release(2, 3))


def test_in_sql_it_is_16_bytes() -> None:
    serializer = read(ROW)
    assert serializer.type_name == "ROW<id INT, uuid UUID>"
    assert serializer.decode(slots(0, 0, 7, POINTER, tail=DATA)) == {"id": 7, "uuid": UUID(TEXT)}
    assert serializer.decode(slots(0, 2, 7, 0)) == {"id": 7, "uuid": None}
    with pytest.raises(CorruptSnapshot, match="a UUID of 8 bytes"):
        serializer.decode(slots(0, 0, 7, 24 << 32 | 8, tail=DATA[:8]))


def test_names_of_fields_are_written_for_flink_2_4() -> None:
    """Version 4 of the snapshot, which Flink 2.3 does not read."""
    serializer = read_snapshot(ROW)
    assert isinstance(serializer, RowData)
    again = read_snapshot(proxied_snapshot(serializer, Release(2, 4))[4:])
    assert again == serializer and again.names == ("id", "uuid")
    older = read_snapshot(proxied_snapshot(serializer, Release(2, 3))[4:])
    assert older.names == ("f0", "f1")
    unnamed = RowData((LogicalType("INTEGER"),), ("f0",))
    assert proxied_snapshot(unnamed, Release(2, 4)).endswith(b"\0")
