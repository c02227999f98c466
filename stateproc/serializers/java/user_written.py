"""Read and write snapshots of serializers that call a user's write method.

They are ValueSerializer, CopyableValueSerializer and WritableSerializer.

Their snapshots (GenericTypeSerializerSnapshot) contain the class name only, so that only values of Flink's own value
classes can be decoded.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Hosted, Layout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.core.registry import expect_version, simple, snapshot, write_head, write_simple
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.wire import Cursor, Output
from stateproc.wire.java_plain import to_plain
from stateproc.wire.java_stream import read_java_object

_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
_KNOWN = {f"org.apache.flink.types.{row[0]}": Scalar(*row) for row in SCALARS if row[0].endswith("Value")}


@dataclass(frozen=True)
class Generic(Serializer):
    """Values written by the class itself; ``sized``: a CopyableValue, whose length may be fixed."""

    class_name: str
    sized: bool
    snapshot_class: str = field(default="", compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        known = _KNOWN.get(self.class_name)
        if known is not None:
            return known.layout(ctx)
        if ctx.has_bytes:
            return Blob(ops.LENGTH_REST)
        raise Undecodable(
            f"values of {self.class_name!r} are written by that class itself, and the bytes do not show where they end",
            advice="register a parser for its serializer's snapshot class, see docs/kryo-and-classes.md",
        )

    @property
    def length(self) -> int:
        known = _KNOWN.get(self.class_name)
        return known.length if known is not None and self.sized else VARIABLE

    @property
    def type_name(self) -> str:
        return simple_name(self.class_name)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, self.snapshot_class or _CLASSES["CopyableValue" if self.sized else "Value"][0], 2, release)
        out.utf(self.class_name)


_CLASSES = {
    name: (f"{_RUNTIME}{name}Serializer${name}SerializerSnapshot", f"{_RUNTIME}{name}SerializerSnapshot")
    for name in ("Value", "CopyableValue", "Writable")
}


def _register(class_name: str, sized: bool) -> None:
    @snapshot(class_name)
    def read(cursor: Cursor, version: int) -> Serializer:
        expect_version(cursor, class_name, version, 2)
        return Generic(cursor.utf(), sized, class_name)


for _name, _class_names in _CLASSES.items():
    for _class_name in _class_names:
        _register(_class_name, _name == "CopyableValue")


# Decode JavaSerializer's Java object streams to JSON text, without loading or running any class.
#
# Source of the format: org.apache.flink.runtime.state.JavaSerializer.

_SNAPSHOT = "org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot"
_LEAST = 5  # the stream's header and one type code


def read_as_json(cursor: Cursor) -> str:
    """Decode one Java object stream to JSON text; see stateproc.wire.java_plain for the form of objects."""
    return json.dumps(finite(to_plain(read_java_object(cursor))))


def finite(value: Any) -> Any:
    """Replace NaN and the infinities, which JSON lacks, by strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return value


JAVA_OBJECT = Hosted(read_as_json, pa.string(), _LEAST, json.loads)


@dataclass(frozen=True)
class JavaObjectOf(Serializer):
    """JavaSerializer: any java.io.Serializable."""

    type_name = "Serializable"

    def layout(self, ctx: LayoutContext) -> Layout:
        return JAVA_OBJECT

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, _SNAPSHOT, release)


@snapshot(_SNAPSHOT)
def _read_java(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "JavaSerializerSnapshot")
    return JavaObjectOf()
