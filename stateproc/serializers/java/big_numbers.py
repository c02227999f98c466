"""Read and write BigInteger and BigDecimal: org.apache.flink.api.common.typeutils.base.{BigInt,BigDec}Serializer.

An i32 n: 0 null, 1, 2, 3 the constants 0, 1, 10, else n - 4 bytes of two's complement. Arrow and Spark have no
unbounded numbers: both come as decimal text, exact, in BigDecimal.toString's form.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import as_type
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.decimals import decimal_text, integer_bytes, parts_of, unscaled
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.encoding.strings import blobs
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.numbers import number_array
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.codec.temporal import by_distinct
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple_snapshot, write_simple
from stateproc.wire import Output

_NULL = bytes(4)
_CONSTANTS = {1: b"\x00", 2: b"\x01", 3: b"\x0a"}


@dataclass(frozen=True)
class BigNumberLayout(Layout):
    """A BigInteger, followed by the i32 scale of a BigDecimal unless the number is null."""

    scaled: bool
    arrow_type = pa.string()
    min_size = 4
    encodes_null = True

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        first = b.column_count
        lengths, data = blob_columns(b)
        scales = b.column(4, 0) if self.scaled else -1
        null_fill, scale, done = b.pending_fill(), b.label(), b.label()
        ways = [b.label() for _ in range(4)]
        pairs: list[Any] = []
        for tag, way in enumerate(ways):
            pairs += (tag, way)
        other = b.label()
        b.op(ops.SWITCH, 4, len(ways), other, *pairs)
        b.bind(ways[0])
        b.op(ops.FILL, null_fill)
        b.set_fill(null_fill, first)
        b.op(ops.JUMP, done)
        for tag, constant in _CONSTANTS.items():
            b.bind(ways[tag])
            b.op(ops.CONSTANT, lengths, data, constant[0])
            b.op(ops.JUMP, scale)
        b.bind(other)
        b.op(ops.BYTES, lengths, data, ops.LENGTH_TAG_MINUS_4, 0)
        b.bind(scale)
        if self.scaled:
            b.op(ops.F4, scales)
        b.bind(done)

        def assemble(taken: Any) -> pa.Array:
            raws = blob_array(taken, lengths, data, pa.binary()).to_pylist()
            if not self.scaled:
                return pa.array([None if raw is None else str(unscaled(raw)) for raw in raws], pa.string())
            by = number_array(taken, -1, scales, pa.int32()).to_pylist()
            texts = [
                None if raw is None else decimal_text(unscaled(raw), scale) for raw, scale in zip(raws, by, strict=True)
            ]
            return pa.array(texts, pa.string())

        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        """0, 1 and 10 in their short form: valueOf gives Java's constants, which Flink writes so."""
        made = by_distinct(as_type(array, pa.string()), _scaled_bytes if self.scaled else _integer, pa.binary())
        return blobs(pc.fill_null(made, _NULL) if made.null_count else made)

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        return Decimal(value) if self.scaled else int(value)


_SHORT = {raw: tag for tag, raw in _CONSTANTS.items()}


def _integer(text: str) -> bytes:
    return _integer_form(int(text))


def _integer_form(number: int) -> bytes:
    raw = integer_bytes(number)
    if raw in _SHORT:
        return _SHORT[raw].to_bytes(4, "big")
    return (len(raw) + 4).to_bytes(4, "big") + raw


def _scaled_bytes(text: str) -> bytes:
    number, scale = parts_of(text)
    if not -(2**31) <= scale < 2**31:
        raise ValueError(f"a decimal of scale {scale}")
    return _integer_form(number) + scale.to_bytes(4, "big", signed=True)


@dataclass(frozen=True)
class Big(Serializer):
    """BigIntSerializer, BigDecSerializer."""

    scaled: bool

    def layout(self, ctx: LayoutContext) -> Layout:
        return BigNumberLayout(self.scaled)

    @property
    def type_name(self) -> str:
        return "BigDecimal" if self.scaled else "BigInteger"

    @property
    def snapshot_class(self) -> str:
        name = "BigDec" if self.scaled else "BigInt"
        return f"org.apache.flink.api.common.typeutils.base.{name}Serializer${name}SerializerSnapshot"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, self.snapshot_class, release)


for _serializer in (Big(False), Big(True)):
    simple_snapshot(_serializer, _serializer.snapshot_class)
