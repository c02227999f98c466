"""Vectors of Flink ML: org.apache.flink.ml.linalg.typeinfo."""

from __future__ import annotations

import pyarrow as pa

from stateproc.codec.layouts import Counted, Layout, Number, Numbers, StructLayout
from stateproc.serializers.core.base import VARIABLE
from stateproc.serializers.core.registry import simple_snapshot
from stateproc.serializers.java.scalars import Scalar

_TYPEINFO = "org.apache.flink.ml.linalg.typeinfo."
_I32, _F64 = Number(pa.int32()), Number(pa.float64())

DENSE_VECTOR: Layout = Numbers(pa.float64())
"""i32 count, f64 values."""
SPARSE_VECTOR: Layout = StructLayout(
    (("size", _I32), ("entries", Counted(StructLayout((("index", _I32), ("value", _F64))))))
)
"""i32 size, i32 count, then i32 index and f64 value of each entry."""

# type name, snapshot class, layout; later releases call DenseVector DenseIntDoubleVector
VECTORS: tuple[tuple[str, str, Layout], ...] = (
    ("DenseVector", "DenseVectorSerializer$DenseVectorSerializerSnapshot", DENSE_VECTOR),
    ("DenseIntDoubleVector", "DenseIntDoubleVectorSerializer$DenseVectorSerializerSnapshot", DENSE_VECTOR),
    ("SparseVector", "SparseVectorSerializer$SparseVectorSerializerSnapshot", SPARSE_VECTOR),
)


for _type, _class_name, _layout in VECTORS:
    simple_snapshot(Scalar(_type, _type, _layout, VARIABLE, _TYPEINFO + _class_name), _TYPEINFO + _class_name)
