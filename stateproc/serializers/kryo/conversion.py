"""Convert values of Kryo 2 (Flink 1.x) to the bytes of Kryo 5 (Flink 2.x) in whatever type they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stateproc.codec.arrow_arrays import refuse_nulls, row_bytes_of
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.kryo.kryo5_output import kryo5_bytes
from stateproc.codec.kryo.recorded_graph import Node, record_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.layouts import Layout
from stateproc.errors import UnsupportedSnapshot
from stateproc.wire import Cursor

_MOST_KEPT = 1 << 16
_LONGEST_KEPT = 256


@dataclass(frozen=True)
class ConvertedKryo(Layout):
    """One value of Kryo.writeClassAndObject; its column has the bytes that another version writes for it.

    Decoding converts, one Python call for each value that was not met before; encoding writes the bytes of the column.
    ``setting``: what Kryo 2 wrote with. ``version``: 5. ``whole``: the value ends where its range ends.
    ``watch`` is called with each value's objects.
    """

    setting: KryoSetting
    version: int
    whole: bool
    watch: Callable[[Node], None] | None = None
    _kept: dict[bytes, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    min_size = 1
    arrow_type = pa.binary()

    def __post_init__(self) -> None:
        if (self.setting.version, self.version) != (2, 5):
            raise UnsupportedSnapshot(
                f"values of Kryo {self.setting.version} are not converted to Kryo {self.version}",
                advice="give the state another type (transform_state), or leave it out (drop_state)",
            )

    def __hash__(self) -> int:
        return hash((self.version, self.whole))

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        column = b.host(self._read)
        return lambda decoded: pa.array(decoded.python_values(column), type=self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        refuse_nulls(array, "a converted Kryo value")
        return row_bytes_writer(row_bytes_of(array))

    def _read(self, cursor: Cursor) -> Any:
        if self.watch is not None or not self.whole or cursor.remaining > _LONGEST_KEPT:
            value = record_kryo(cursor, self.setting, self.whole)
            if self.watch is not None:
                self.watch(value.root)
            return kryo5_bytes(value, self.setting)
        data = bytes(cursor.data[cursor.pos : cursor.end])
        found = self._kept.get(data)
        if found is None:
            found = kryo5_bytes(record_kryo(cursor, self.setting, True), self.setting)
            if len(self._kept) < _MOST_KEPT:
                self._kept[data] = found
        else:
            cursor.pos = cursor.end
        return found
