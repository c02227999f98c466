"""Types without parameters: the serializers of scalars, arrays of primitives, windows."""

from __future__ import annotations

from stateproc.codec.layouts import Counted, FlinkString
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.collections import PRIMITIVE_ARRAYS, PlainArray
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.java.scalars import VOID_NAMESPACE as _VOID_NAMESPACE
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.java.user_written import JavaObjectOf
from stateproc.serializers.java.uuids import Uuid
from stateproc.serializers.runtime.legacy import CHARS
from stateproc.serializers.runtime.streaming import GlobalWindow, TimeWindow
from stateproc.serializers.scala import UNIT as SCALA_UNIT
from stateproc.serializers.table.variants import BITMAP_VALUE, VARIANT_VALUE

_SCALARS = {row[0]: Scalar(*row) for row in SCALARS}
_TEMPORAL = {kind.name: Temporal(kind) for kind in TEMPORAL}
_ARRAYS = {name: PlainArray(name.lower(), layout) for name, layout in PRIMITIVE_ARRAYS}

BOOLEAN: Serializer = _SCALARS["Boolean"]
BYTE: Serializer = _SCALARS["Byte"]
SHORT: Serializer = _SCALARS["Short"]
INT: Serializer = _SCALARS["Int"]
LONG: Serializer = _SCALARS["Long"]
FLOAT: Serializer = _SCALARS["Float"]
DOUBLE: Serializer = _SCALARS["Double"]
CHAR: Serializer = _SCALARS["Char"]
STRING: Serializer = _SCALARS["String"]
VOID: Serializer = _SCALARS["Void"]
BIG_INT: Serializer = Big(False)
BIG_DEC: Serializer = Big(True)

INSTANT: Serializer = _TEMPORAL["Instant"]
LOCAL_DATE: Serializer = _TEMPORAL["LocalDate"]
LOCAL_TIME: Serializer = _TEMPORAL["LocalTime"]
LOCAL_DATE_TIME: Serializer = _TEMPORAL["LocalDateTime"]
DATE: Serializer = _TEMPORAL["Date"]
SQL_DATE: Serializer = _TEMPORAL["SqlDate"]
SQL_TIME: Serializer = _TEMPORAL["SqlTime"]
SQL_TIMESTAMP: Serializer = _TEMPORAL["SqlTimestamp"]

BOOLEAN_ARRAY: Serializer = _ARRAYS["Boolean"]
BYTES: Serializer = _ARRAYS["Byte"]
SHORT_ARRAY: Serializer = _ARRAYS["Short"]
INT_ARRAY: Serializer = _ARRAYS["Int"]
LONG_ARRAY: Serializer = _ARRAYS["Long"]
FLOAT_ARRAY: Serializer = _ARRAYS["Float"]
DOUBLE_ARRAY: Serializer = _ARRAYS["Double"]
CHAR_ARRAY: Serializer = PlainArray("char", CHARS)
STRING_ARRAY: Serializer = PlainArray("String", Counted(FlinkString()))

UUID: Serializer = Uuid()
VARIANT: Serializer = VARIANT_VALUE
BITMAP: Serializer = BITMAP_VALUE
UNIT: Serializer = SCALA_UNIT
JAVA: Serializer = JavaObjectOf()
TIME_WINDOW: Serializer = TimeWindow()
GLOBAL_WINDOW: Serializer = GlobalWindow()
VOID_NAMESPACE: Serializer = _VOID_NAMESPACE

VALUES: dict[str, Serializer] = {name: made for name, made in _SCALARS.items() if name.endswith("Value")}
"""The types of org.apache.flink.types (LongValue …) by name."""
PRIMITIVE_ARRAY_OF: dict[str, Serializer] = {
    "boolean": BOOLEAN_ARRAY,
    "byte": BYTES,
    "short": SHORT_ARRAY,
    "int": INT_ARRAY,
    "long": LONG_ARRAY,
    "float": FLOAT_ARRAY,
    "double": DOUBLE_ARRAY,
    "char": CHAR_ARRAY,
}
"""Array types by the name of the primitive type."""
