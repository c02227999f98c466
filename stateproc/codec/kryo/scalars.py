"""Readers of single JDK values: DefaultSerializers in Kryo, the serializers that Flink registers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from stateproc.codec.decimals import decimal_text, unscaled
from stateproc.codec.kryo.types import BOXES, STRING, FieldType, without_arguments
from stateproc.codec.kryo.values import KryoNumber, Text
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.errors import CHECK_FILE
from stateproc.wire.java_stream import JavaObject

# Python prints integers of up to 4300 digits.
_MAX_NUMBER_BYTES = 1700


def _box(w: Walker, type_: FieldType) -> Any:
    return w.data.primitive(BOXES[type_.name])


def _string(w: Walker, type_: FieldType) -> str | None:
    return w.data.string()


def _text(w: Walker, type_: FieldType) -> Text | None:
    text = w.data.string()
    return None if text is None else Text(text)


def _unscaled(w: Walker) -> int | None:
    """BigIntegerSerializer: varint length + 1, two's complement."""
    length = w.data.varint() - 1
    if length < 0:
        return None
    if length == 0:
        w.data.cursor.corrupt("a BigInteger without bytes")
    if length > _MAX_NUMBER_BYTES:
        w.data.cursor.unsupported(
            f"a BigInteger of {length} bytes",
            advice=f"numbers of over 4,000 digits are not shown; {CHECK_FILE}",
        )
    return unscaled(w.data.bytes(length))


def _big_integer(w: Walker, type_: FieldType) -> KryoNumber | None:
    number = _unscaled(w)
    return None if number is None else KryoNumber(str(number))


def _big_decimal(w: Walker, type_: FieldType) -> KryoNumber | None:
    number = _unscaled(w)
    return None if number is None else KryoNumber(decimal_text(number, w.data.zigzag()))


def _uuid(w: Walker, type_: FieldType) -> Text:
    if w.version >= 5:
        high, low = w.data.fixed("long"), w.data.fixed("long")
    else:
        high, low = w.data.zigzag_long(), w.data.zigzag_long()
    mask = (1 << 64) - 1
    return Text(str(UUID(int=(high & mask) << 64 | low & mask)))


def _pattern(w: Walker, type_: FieldType) -> Text:
    text = w.data.string()
    if w.version >= 5:
        w.data.varint()  # flags
    return Text(text or "")


def _locale(w: Walker, type_: FieldType) -> Text:
    """Kryo 5: language, country, variant; chill for Kryo 2: a Java object stream."""
    if w.version >= 5:
        return _locale_text(*(w.data.string() or "" for _ in range(3)))
    stream = w.java_object(type_.name)
    if not isinstance(stream, JavaObject):
        w.data.cursor.corrupt("a Locale that is no Java object")
    return _locale_text(*(str(stream.fields.get(name) or "") for name in ("language", "country", "variant")))


def _locale_text(language: str, country: str, variant: str) -> Text:
    """Locale.toString of plain locales."""
    if variant:
        return Text(f"{language}_{country}_{variant}")
    return Text(f"{language}_{country}" if country else language)


def _address(w: Walker, type_: FieldType) -> Text:
    host = w.data.string()
    return Text(f"{host}:{w.data.varint()}")


def _class(w: Walker, type_: FieldType) -> Text | None:
    """ClassSerializer: the class; Kryo 2 marks primitives, Kryo 5 primitives and their boxes."""
    named = w.read_class()
    if w.version < 5 or (named is not None and named.name in BOXES):
        w.data.boolean()
    return None if named is None else Text(str(named))


def _optional(w: Walker, type_: FieldType) -> Any:
    """Kryo 2: a field of the declared type argument, without arguments of its own; Kryo 5: an object by class."""
    return w.declared(without_arguments(type_.args[0])) if type_.args and w.version < 5 else w.by_class()


def _atomic_boolean(w: Walker, type_: FieldType) -> bool:
    return w.data.boolean() if w.version >= 5 else w.data.zigzag() != 0


def _nothing(w: Walker, type_: FieldType) -> Text:
    """An object without fields: it is its class."""
    return Text(type_.name)


def _bit_set(w: Walker, type_: FieldType) -> list[int]:
    """varint number of words, the words; the bits that are set."""
    words = w.data.count(w.data.varint(), "words of a BitSet", 8)
    bits = []
    for word in range(words):
        value = w.data.fixed("long") & (1 << 64) - 1
        bits += [64 * word + bit for bit in range(64) if value >> bit & 1]
    return bits


SCALAR_BODIES: dict[str, Body] = {
    **dict.fromkeys(BOXES, _box),
    STRING: _string,
    "java.lang.StringBuilder": _string,
    "java.lang.StringBuffer": _string,
    "java.lang.Class": _class,
    "java.math.BigInteger": _big_integer,
    "java.math.BigDecimal": _big_decimal,
    "java.net.InetSocketAddress": _address,
    "java.net.URI": _text,
    "java.net.URL": _text,
    "java.util.BitSet": _bit_set,
    "java.util.Collections$ReverseComparator": _nothing,
    "java.lang.String$CaseInsensitiveComparator": _nothing,
    "java.util.Currency": _text,
    "java.util.Locale": _locale,
    "java.util.Optional": _optional,
    "java.util.UUID": _uuid,
    "java.util.concurrent.atomic.AtomicBoolean": _atomic_boolean,
    "java.util.concurrent.atomic.AtomicInteger": lambda w, type_: w.data.zigzag(),
    "java.util.concurrent.atomic.AtomicLong": lambda w, type_: w.data.zigzag_long(),
    "java.util.concurrent.atomic.AtomicReference": lambda w, type_: w.by_class(),
    "java.util.regex.Pattern": _pattern,
}
