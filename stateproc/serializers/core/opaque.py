"""Represent serializers of unknown snapshot classes whose snapshot's size is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.layouts import Blob, Layout
from stateproc.codec.layouts.base import refuse_rows
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.errors import SnapshotError
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.wire import Cursor, Output

_OF_ENCLOSING = frozenset({"Snapshot", "Config", "ConfigSnapshot", "SerializerSnapshot", "SerializerConfigSnapshot"})
"""Names of nested classes that do not say whose snapshot it is."""


def _shown(class_name: str) -> str:
    """Return a snapshot class's name for users: that of the enclosing class where its own says nothing."""
    enclosing, _, own = class_name.rpartition("$")
    return enclosing.rsplit(".", 1)[-1] if enclosing and own in _OF_ENCLOSING else simple_name(class_name)


@dataclass(frozen=True)
class Opaque(Serializer):
    """A serializer of an unknown snapshot class: values up to the end of their entry are bytes, others undecodable.

    ``snapshot``: the versioned snapshot as it was read; empty if the file has none.
    ``reason``: why the snapshot of a known class cannot be read.
    """

    class_name: str
    snapshot: bytes = field(default=b"", compare=False)
    reason: SnapshotError | None = field(default=None, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        if ctx.has_bytes:
            return Blob(ops.LENGTH_REST)
        if self.reason is not None:
            raise Undecodable(
                f"the serializer snapshot of class {self.class_name!r} cannot be read: {self.reason.message}",
                where=self.reason.where,
                advice=self.reason.advice,
            )
        raise Undecodable(
            f"nothing is known of the serializer snapshot class {self.class_name!r}, so its values have no known end",
            advice=f"register a parser: stateproc.serializers.register({self.class_name!r}, reader)",
        )

    @property
    def type_name(self) -> str:
        return f"? {_shown(self.class_name)}"

    def write_snapshot(self, out: Output, release: Release) -> None:
        if not self.snapshot:
            super().write_snapshot(out, release)
        out.raw(self.snapshot)


# The layout of values that nothing can decode, where there may be none.


@dataclass(frozen=True)
class UndecodableValue(Layout):
    """A value that nothing can decode: the column is null, and a row that is not null is an error."""

    message: str
    advice: str | None
    arrow_type = pa.binary()

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.refuse(partial(_refuse, message=self.message, advice=self.advice))
        return lambda taken: blob_array(taken, lengths, data, pa.binary())

    def measure(self, array: pa.Array) -> SizedWriter:
        return refuse_rows(array, self.message)


def _refuse(cursor: Cursor, *, message: str, advice: str | None) -> None:
    raise Undecodable(message, where=cursor.where(), advice=advice)
