"""The layout of values that nothing can decode, where there may be none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import refuse_rows
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.serializers.core.base import Undecodable
from stateproc.wire import Cursor


@dataclass(frozen=True)
class UndecodableValue(Layout):
    """A value that nothing can decode: the column is null, and a row that is not null is an error."""

    message: str
    advice: str | None

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.binary()

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.refuse(partial(_refuse, message=self.message, advice=self.advice))
        return lambda taken: blob_array(taken, lengths, data, pa.binary())

    def measure(self, array: pa.Array) -> SizedWriter:
        return refuse_rows(array, self.message)


def _refuse(cursor: Cursor, *, message: str, advice: str | None) -> None:
    raise Undecodable(message, where=cursor.where(), advice=advice)
