"""Decode JavaSerializer's Java object streams to JSON text, without loading or running any class.

Source of the format: org.apache.flink.runtime.state.JavaSerializer.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.codec.layouts import Hosted, Layout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple, snapshot, write_simple
from stateproc.wire import Cursor, Output
from stateproc.wire.java_plain import to_plain
from stateproc.wire.java_stream import read_java_object

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

    def layout(self, ctx: LayoutContext) -> Layout:
        return JAVA_OBJECT

    @property
    def type_name(self) -> str:
        return "Serializable"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, _SNAPSHOT, release)


@snapshot(_SNAPSHOT)
def _read_java(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "JavaSerializerSnapshot")
    return JavaObjectOf()
