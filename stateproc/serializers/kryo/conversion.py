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
from stateproc.codec.kryo.types import BOXES, RECORD, STRING, FieldType, is_synthetic
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


@dataclass(frozen=True)
class Rewritten(Layout):
    """A value that is read in one layout and written in another; both have the same Arrow type but for nullability."""

    read: Layout
    written: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return self.read.arrow_type

    @property
    def min_size(self) -> int:
        return self.read.min_size

    @property
    def converts_nulls(self) -> bool:
        return self.read.converts_nulls

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        return self.read.emit(b, nullable)

    def measure(self, array: pa.Array) -> SizedWriter:
        return self.written.measure(array)


_FLAT = frozenset(
    [
        STRING,
        *(box for box, primitive in BOXES.items() if primitive != "char"),
        "java.util.UUID",
        *(f"java.time.{name}" for name in ("Instant", "LocalDate", "LocalDateTime", "LocalTime")),
    ]
)


def is_flat(type_: FieldType, setting: KryoSetting) -> bool:
    """Whether columns represent all values of a class exactly: single ones, and objects that have only these as fields.

    Which of two equal strings is the same object is not represented: each is written as a new one.
    """
    described = setting.classes.get(type_.name)
    if setting.serializer_of(type_.name).own:
        return False
    if described is None:
        return type_.name in _FLAT
    special = described.like or described.alternatives or described.constants or described.variables
    if special or described.form == RECORD or not described.fields:
        return False
    return all(
        not part.args and (part.name in _FLAT or (part.primitive and part.name != "char")) and not is_synthetic(name)
        for name, part in described.fields
        if part.name not in setting.classes
    ) and not any(part.name in setting.classes or setting.serializer_of(part.name).own for _, part in described.fields)
