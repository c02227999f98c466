"""Refuse objects whose bytes are those of an empty Map or Collection, too.

Kryo writes no fields of a class that is a Map or a Collection. An empty one has a body of one byte (Kryo 2: 00, Kryo 5:
01), followed by 00 for a TreeMap or a TreeSet. One described field can have these bytes, and nothing in a snapshot says
which it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.errors import BadValue
from stateproc.codec.kryo.bodies import BODIES
from stateproc.codec.kryo.forms import EMPTY_BODIES, Ambiguous, may_be_collection
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.setting import Guesses, KryoSetting
from stateproc.codec.kryo.types import CLASS, UserClass
from stateproc.codec.kryo.values import KryoObject
from stateproc.codec.kryo.walker import Walker
from stateproc.errors import SnapshotError
from stateproc.serializers.kryo.columns import KryoColumn
from stateproc.wire import Cursor


@dataclass(frozen=True)
class EmptyValue:
    """An object with the bytes of an empty Map, and its fields as pyarrow has them."""

    value: KryoObject
    row: dict[str, Any]


def empty_values(described: UserClass, setting: KryoSetting, column: KryoColumn) -> tuple[EmptyValue, ...]:
    """Return the values that fields have where the bytes are those of an empty Map or Collection."""
    if not may_be_collection(described):
        return ()
    found = []
    for body in EMPTY_BODIES[setting.version]:
        cursor = Cursor(body)
        walker = Walker(KryoInput(cursor, setting.version), setting, Guesses(), BODIES)
        try:
            value = walker.fields(replace(described, form=CLASS), ())
            row = column.arrow(value)
        except (SnapshotError, BadValue):
            continue
        if not cursor.remaining:
            found.append(EmptyValue(value, row))
    return tuple(found)


def refuse_empty(array: pa.StructArray, values: tuple[EmptyValue, ...]) -> pa.StructArray:
    """Return the array. Raises Ambiguous if a row is one of the values."""
    for empty in values:
        same = array.is_valid()
        for name, part in empty.row.items():
            column = array.field(name)
            equal = column.is_null() if part is None else pc.equal(column, pa.scalar(part, column.type))
            same = pc.and_(same, equal.fill_null(False))
        if pc.any(same).as_py():
            raise Ambiguous.of(empty.value)
    return array
