"""Which key groups hold a key: from a key serializer to Java's hash of its values."""

from __future__ import annotations

from stateproc.keygroups.key_hash import KeyHash, composite, is_reproducible
from stateproc.serializers import Serializer
from stateproc.serializers.big import Big
from stateproc.serializers.scalars import Scalar
from stateproc.serializers.structs import NullableOf, TupleOf
from stateproc.serializers.temporal import Temporal

_SCALARS = {
    "Boolean": "boolean", "Byte": "byte", "Short": "short", "Int": "int", "Long": "long", "Float": "float",
    "Double": "double", "Char": "char", "String": "string", "BooleanValue": "boolean_value",
    "ByteValue": "byte_value", "ShortValue": "short_value", "IntValue": "int_value", "LongValue": "long_value",
    "FloatValue": "float_value", "DoubleValue": "double_value", "CharValue": "char_value",
    "StringValue": "string_value",
}  # fmt: skip
# Instants lose nanoseconds, java.sql types their own kinds on the way to Arrow: their hash is not told from a
# column, so they are not here and read without pruning.
_TEMPORAL = {"LocalDate": "local_date"}


def key_hash(serializer: Serializer) -> KeyHash | None:
    """How Java hashes keys of this serializer; None where that cannot be reproduced from Arrow values."""
    kind = _kind(serializer)
    return kind if kind is not None and is_reproducible(kind) else None


def _kind(serializer: Serializer) -> KeyHash | None:
    if isinstance(serializer, Scalar):
        name = _SCALARS.get(serializer.name)
        return None if name is None else KeyHash(name)
    if isinstance(serializer, Temporal):
        name = _TEMPORAL.get(serializer.kind.name)
        return None if name is None else KeyHash(name)
    if isinstance(serializer, Big):
        return KeyHash("big_decimal" if serializer.scaled else "big_integer")
    if isinstance(serializer, NullableOf):
        return _kind(serializer.inner)
    if isinstance(serializer, TupleOf) and serializer.class_name.startswith("org.apache.flink.api.java.tuple."):
        children = [_kind(field) for field in serializer.fields]
        return None if any(child is None for child in children) else composite("tuple", children)
    return None
