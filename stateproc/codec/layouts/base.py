"""The interface of layouts: bytes to Arrow arrays by a program, Arrow arrays to bytes by writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import RowBytes
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.encoding.binary_rows import Slots, plain
from stateproc.codec.encoding.sized_writers import SizedWriter, write_nothing, write_rows
from stateproc.errors import UnsupportedSnapshot, Where

_ADVICE = "give the state another type; states that are there already are carried over as they are, values untouched"


class Unwritable(UnsupportedSnapshot):
    """A layout that can be read only."""

    def __init__(self, message: str, *, where: Where | None = None, advice: str | None = _ADVICE) -> None:
        super().__init__(message, where=where, advice=advice)


class Layout(ABC):
    """The byte format of one value. Layouts are frozen dataclasses: equal layouts read alike."""

    @property
    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """The Arrow type the value is decoded to."""

    @property
    def size(self) -> int | None:
        """The number of bytes of every value; None if values differ."""
        return None

    @property
    def min_size(self) -> int:
        """No value is shorter; what a count of values is checked against."""
        return self.size or 0

    @abstractmethod
    def emit(self, b: Builder, nullable: bool) -> Assembler:
        """Emit the ops that read one value, ask for the columns they fill; return how these become Arrow.

        ``nullable``: a null may be filled in from outside, so that the columns must distinguish it from values.
        """

    def skip(self, b: Builder) -> None:
        """Emit the ops that pass one value by."""
        if self.size is not None:
            if self.size:
                b.op(ops.SKIP, self.size)
            return
        with b.discard_values():
            self.emit(b, False)

    @property
    def encodes_null(self) -> bool:
        """Whether the value's own bytes can say that it is null."""
        return False

    @property
    def converts_nulls(self) -> bool:
        """Whether the assembler looks at values, so that the columns must distinguish filled nulls from them."""
        return False

    def encode(self, array: pa.Array) -> RowBytes:
        """The bytes of each row of ``array``, which is of ``arrow_type`` (or casts to it without loss).

        Raises Unencodable for a value (a null, mostly) that no bytes stand for, Unwritable for layouts of which
        nothing but reading is known.
        """
        return write_rows(self.measure(array), len(array))

    def measure(self, array: pa.Array) -> SizedWriter:
        """How many bytes each row of ``array`` takes, and how to write them. Raises Unencodable, Unwritable."""
        return refuse_rows(array, f"values of this type (layout {type(self).__name__}) are read only")

    def measure_slots(self, array: pa.Array) -> Slots:
        """As ``measure``, for the slots of a binary row or array."""
        return plain(self.measure(array))

    def to_python(self, value: Any) -> Any:
        """From what Arrow's ``as_py`` gives to the value a Python user expects."""
        return value


class Wrapper(Layout):
    """Bytes around a value, or a rule for its end: its Arrow type and its conversions are those of ``inner``."""

    inner: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return self.inner.arrow_type

    @property
    def converts_nulls(self) -> bool:
        return self.inner.converts_nulls

    def to_python(self, value: Any) -> Any:
        return self.inner.to_python(value)


class ListLayout(Layout):
    """A list of values of one layout."""

    item: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.item.arrow_type)

    def to_python(self, value: Any) -> Any:
        return None if value is None else [self.item.to_python(item) for item in value]


def refuse_rows(array: pa.Array, message: str) -> SizedWriter:
    """No rows of a layout that is read only: all that were there were null, say. Raises Unwritable for any row."""
    if len(array):
        raise Unwritable(message)
    return SizedWriter(0, write_nothing)


def is_valid(decoded: DecodedColumns, column: int) -> npt.NDArray[np.bool_]:
    """A validity column, in which the VM stores 0 and 1, as booleans."""
    return decoded.column(column, np.bool_)


def validity_buffer(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Arrow's validity bitmap; None if nothing is null."""
    if b"\0" not in valid.tobytes():  # a tenth of the time of valid.all()
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
