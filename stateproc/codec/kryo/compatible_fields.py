"""Objects that Kryo's serializers with names or versions of fields write.

* CompatibleFieldSerializer: at its first object of a class in a value varint n and the n names, sorted (strings without
  marks). Kryo 2: then each field as FieldSerializer writes it, in chunks: (varint length, bytes)*, varint 0. Kryo 5:
  then each field with its class, primitives as their boxes.
* VersionFieldSerializer (Kryo 5): varint version, then the fields as FieldSerializer writes them.
"""

from __future__ import annotations

from typing import Any

from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.types import BOX_OF, FieldType, UserClass, bind
from stateproc.codec.kryo.values import KryoObject
from stateproc.codec.kryo.walk_errors import CorruptField
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.errors import CorruptSnapshot
from stateproc.wire import Cursor

_MAX_FIELDS = 1 << 12


def _compatible(w: Walker, type_: FieldType) -> KryoObject:
    names = w.field_names.get(type_.name)
    if names is None:
        names = w.field_names[type_.name] = _names(w)
    described = w.setting.classes.get(type_.name)
    if described is None:
        raise w.undescribed(type_.name, f"of which the bytes contain the names of the fields ({', '.join(names)})")
    types = dict(described.fields)
    values: dict[str, Any] = {}
    for name in names:
        if name in types:
            values[name] = _described(w, described, name, types[name], type_.args)
        elif w.version < 5:
            _skip(w)
        else:
            values[name] = w.by_class()
    return KryoObject(described.name, {name: values[name] for name in types if name in values})


def _names(w: Walker) -> tuple[str, ...]:
    at = w.data.cursor.pos
    n = w.data.count(w.data.varint(), "names of fields")
    names = [w.data.string() for _ in range(n)] if n <= _MAX_FIELDS else []
    if len(names) < n or not all(name and name.isprintable() for name in names):
        w.data.cursor.corrupt("no names of fields", at=at)
    return tuple(name for name in names if name)


def _described(w: Walker, described: UserClass, name: str, type_: FieldType, args: tuple[FieldType, ...]) -> Any:
    bound = bind(type_, described.variables, dict(zip(described.variables, args, strict=False)))
    try:
        if w.version >= 5:
            return _with_class(w, bound)
        outer = w.data
        chunks = _chunks(w)
        w.read_from(KryoInput(chunks, w.version))
        try:
            value = w.declared(bound)
            chunks.finish(f"the field {name!r}")
        finally:
            w.read_from(outer)
        return value
    except CorruptField:
        raise
    except CorruptSnapshot as error:
        raise CorruptField.of(error, described.name, name, type_) from error


def _with_class(w: Walker, type_: FieldType) -> Any:
    """A field after its class; a primitive after its box."""
    if not type_.primitive:
        return w.by_class(type_.args)
    at = w.data.cursor.pos
    box = w.read_class()
    if box is None or box.name != BOX_OF[type_.name]:
        w.data.cursor.corrupt(f"{'null' if box is None else box.name} where a {type_.name} is", at=at)
    return w.data.primitive(type_.name)


def _chunks(w: Walker) -> Cursor:
    """A cursor over the chunks of a field, which the input passes."""
    cursor = w.data.cursor
    start = cursor.pos
    parts = []
    while length := w.data.varint():
        parts.append(cursor.part(w.data.count(length, "bytes of a field")))
    if len(parts) == 1:
        return parts[0]
    joined = b"".join(bytes(part.data[part.pos : part.end]) for part in parts)
    inner = Cursor(joined, file=cursor.file, base=cursor.base + start)
    inner.depth = cursor.depth
    return inner


def _skip(w: Walker) -> None:
    """Pass a field that is not described; later references may mean objects inside of it."""
    _chunks(w)
    w.pass_objects()


def _versioned(w: Walker, type_: FieldType) -> KryoObject:
    described = w.setting.classes.get(type_.name)
    if described is None:
        raise w.undescribed(type_.name, "whose fields no snapshot contains")
    w.data.varint()
    return w.fields(described, type_.args)


def _fields(w: Walker, type_: FieldType) -> KryoObject:
    described = w.setting.classes.get(type_.name)
    if described is None:
        raise w.undescribed(type_.name, "whose fields no snapshot contains")
    return w.fields(described, type_.args)


_PACKAGE = "com.esotericsoftware.kryo.serializers."
FIELD_SERIALIZERS: dict[str, Body] = {
    f"{_PACKAGE}FieldSerializer": _fields,
    f"{_PACKAGE}CompatibleFieldSerializer": _compatible,
    f"{_PACKAGE}VersionFieldSerializer": _versioned,
}
