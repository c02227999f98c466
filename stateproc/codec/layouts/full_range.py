"""Values that must fill their range: the size in the bytes and the end of the value have to agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.layouts.base import Layout


@dataclass(frozen=True)
class FullRange(Layout):
    """``inner``, which must end where its range does; for use inside of Sized and VariableSlot."""

    inner: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return self.inner.arrow_type

    @property
    def size(self) -> int | None:
        return self.inner.size

    @property
    def min_size(self) -> int:
        return self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        assemble = self.inner.emit(b, nullable)
        b.op(ops.RANGE_END)
        return assemble

    @property
    def converts_nulls(self) -> bool:
        return self.inner.converts_nulls

    @property
    def encodes_null(self) -> bool:
        return self.inner.encodes_null

    def measure(self, array: pa.Array) -> SizedWriter:
        return self.inner.measure(array)

    def to_python(self, value: Any) -> Any:
        return self.inner.to_python(value)
