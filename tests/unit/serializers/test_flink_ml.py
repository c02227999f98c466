"""Vectors of Flink ML, in the bytes that its serializers write."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers import proxied_snapshot, read_snapshot
from tests.helpers.byte_builders.serializers import read, versioned

TYPEINFO = "org.apache.flink.ml.linalg.typeinfo."
DENSE = versioned(TYPEINFO + "DenseVectorSerializer$DenseVectorSerializerSnapshot", 3)
DENSE_INT_DOUBLE = versioned(TYPEINFO + "DenseIntDoubleVectorSerializer$DenseVectorSerializerSnapshot", 3)
SPARSE = versioned(TYPEINFO + "SparseVectorSerializer$SparseVectorSerializerSnapshot", 3)
"""Bytes that SimpleTypeSerializerSnapshot writes: class name and version 3."""

DENSE_BYTES = struct.pack(">iddd", 3, 1.5, -0.0, float("inf"))
SPARSE_BYTES = struct.pack(">iiidid", 100, 2, 7, 0.5, 99, -2.0)
SPARSE_VALUE = {"size": 100, "entries": [{"index": 7, "value": 0.5}, {"index": 99, "value": -2.0}]}


@pytest.mark.parametrize("snapshot", [DENSE, DENSE_INT_DOUBLE])
def test_dense_vectors(snapshot: bytes) -> None:
    serializer = read(snapshot)
    assert serializer.arrow_type == pa.list_(pa.float64())
    assert serializer.length == -1
    assert serializer.decode(DENSE_BYTES) == [1.5, -0.0, float("inf")]
    assert serializer.decode(bytes(4)) == []


def test_sparse_vectors() -> None:
    serializer = read(SPARSE)
    assert serializer.length == -1
    assert serializer.decode(SPARSE_BYTES) == SPARSE_VALUE


@pytest.mark.parametrize(("snapshot", "data"), [(DENSE, DENSE_BYTES), (SPARSE, SPARSE_BYTES)])
def test_damaged_vectors_are_refused(snapshot: bytes, data: bytes) -> None:
    serializer = read(snapshot)
    for damaged in (data[:-1], data + b"\0", struct.pack(">i", 2**31 - 1) * 2, struct.pack(">i", -1) * 2):
        with pytest.raises(CorruptSnapshot):
            serializer.decode(damaged)


@pytest.mark.parametrize("snapshot", [DENSE, DENSE_INT_DOUBLE, SPARSE])
def test_snapshots_are_written_as_they_were_read(snapshot: bytes) -> None:
    serializer = read(snapshot)
    assert proxied_snapshot(serializer, Release(1, 17)) == struct.pack(">i", 2) + snapshot
    assert read_snapshot(snapshot) == serializer
