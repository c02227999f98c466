"""Convert collections of Kryo 2 (Flink 1.x) in fields of POJOs for the serializers that Flink 2.x has for such fields.

What these leave to Kryo is written object by object as Kryo 5 writes it: columns represent few classes exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.errors import BadValue, Unrepresentable
from stateproc.codec.kryo.kryo5_output import kryo5_bytes
from stateproc.codec.kryo.recorded_graph import Node, RecordedValue, record_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import FieldType, class_of_name, in_java_order, is_synthetic, java_name
from stateproc.codec.kryo.values import KryoMap, KryoObject
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.collections import NullKey
from stateproc.errors import UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable
from stateproc.serializers.core.compatibility import with_parts
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import NullableOf
from stateproc.serializers.kryo.columns import column_of
from stateproc.serializers.kryo.conversion import is_flat
from stateproc.serializers.kryo.description_check import explain_column
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.pojo.type_extraction import ReleaseDependent
from stateproc.wire import Cursor

_Convert: TypeAlias = Callable[[RecordedValue, Node, Any], Any]
"""Makes what pyarrow takes of an object: of the value that it is in, its node and what `read_kryo` returns for it."""
_NO_FORM = "give the state another type (evolve-type, transform_state), or leave it out (drop_state)"


class ConvertedCollection(ReleaseDependent):
    """A field with a collection, whose values are converted."""

    def layout(self, ctx: LayoutContext) -> Layout:
        assert isinstance(self.one, Kryo)
        two, setting = _in_flink_2(self.two), self.one.setting(ctx)
        if not ctx.kryo < 5 <= ctx.convert_to or all(
            is_flat(class_of_name(name), setting) for name in _left_to_kryo(two)
        ):
            return super().layout(ctx)
        type_ = self.one.declared or FieldType(self.one.class_name)
        return _ByObjects(setting, type_, two, two.layout(replace(ctx, by_objects=True)), ctx)


def _in_flink_2(serializer: Serializer) -> Serializer:
    if isinstance(serializer, Pojo):
        return replace(serializer, fields=tuple((name, _in_flink_2(field)) for name, field in serializer.fields))
    return with_parts(serializer.two if isinstance(serializer, ReleaseDependent) else serializer, _in_flink_2)


def _left_to_kryo(serializer: Serializer) -> list[str]:
    """Return the classes that a serializer leaves to Kryo."""
    if isinstance(serializer, Kryo):
        return [serializer.class_name]
    return [name for part in serializer.nested for name in _left_to_kryo(part)]


@dataclass(frozen=True)
class _ByObjects(Layout):
    """A collection of Kryo 2; its column has the bytes of Kryo 5 where ``serializer`` leaves an object to it.

    ``setting``, ``type``: what Kryo 2 wrote with, and the field's type. ``written``: how ``serializer`` writes it.
    """

    setting: KryoSetting
    type: FieldType
    serializer: Serializer
    written: Layout
    context: LayoutContext
    min_size = 1

    @property
    def arrow_type(self) -> pa.DataType:
        return self.written.arrow_type

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        column = b.host(partial(self._read, convert=_converter(self.serializer, self.type, self.setting, self.context)))
        return lambda decoded: pa.array(decoded.python_values(column), type=self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        return self.written.measure(array)

    def _read(self, cursor: Cursor, convert: _Convert) -> Any:
        at = cursor.pos
        value = record_kryo(cursor, self.setting, self.context.tail)
        try:
            return convert(value, value.root, value.plain)
        except Unrepresentable as error:
            raise UnsupportedSnapshot(str(error), where=cursor.where(at), advice=error.advice) from error


def _converter(serializer: Serializer, type_: FieldType, setting: KryoSetting, ctx: LayoutContext) -> _Convert:
    """Return what converts objects of a declared type that a serializer writes in Flink 2. Raises Undecodable."""

    def part(serializer: Serializer, type_: FieldType) -> _Convert:
        return _converter(serializer, type_, setting, ctx)

    match serializer:
        case Kryo():
            return partial(_as_kryo, setting=serializer.setting(ctx))
        case NullableOf():
            return part(serializer.inner, type_)
        case ListOf() if len(type_.args) == 1:
            return partial(_as_list, element=part(serializer.element, *type_.args))
        case MapOf() if len(type_.args) == 2:
            key, value = type_.args
            return partial(_as_map, key=part(serializer.key, key), of_value=part(serializer.value, value))
        case Pojo() if serializer.described_subclasses(ctx):
            name = serializer.class_name
            raise Undecodable(
                f"elements of class {name!r}, which has described subclasses and values of Kryo", advice=_NO_FORM
            )
        case Pojo() if serializer.class_name in setting.classes:
            described = setting.classes[serializer.class_name]
            fields, types = dict(serializer.fields), in_java_order(described.fields)
            parts = {name: part(fields[name], field) for name, field in types if name in fields}
            return partial(_as_pojo, parts=parts, class_name=described.name)
    column, wanted = column_of(type_, setting, ctx.fidelity), serializer.layout(ctx.inner).arrow_type
    if column.type != wanted:
        raise Undecodable(
            f"values of type {type_} beside others that Flink 2 leaves to Kryo: {column.type} is not {wanted}, as "
            f"{serializer.type_name} has",
            advice=_NO_FORM,
        )

    def as_column(value: RecordedValue, node: Node, plain: Any) -> Any:
        try:
            return column.arrow(plain)
        except Unrepresentable:
            raise
        except BadValue as error:
            raise explain_column(error, setting, column) from error

    return as_column


def _as_kryo(value: RecordedValue, node: Node, plain: Any, *, setting: KryoSetting) -> bytes | None:
    # An empty Optional is no null.
    return None if node.null or node.type is None else kryo5_bytes(replace(value, root=node), setting)


def _as_list(value: RecordedValue, node: Node, plain: Any, *, element: _Convert) -> Any:
    if plain is None:
        return None
    nodes = node.resolved.elements
    if not isinstance(plain, list) or len(nodes) != len(plain):
        raise _other_class(node, "a collection")
    return [element(value, *item) for item in zip(nodes, plain, strict=True)]


def _as_map(value: RecordedValue, node: Node, plain: Any, *, key: _Convert, of_value: _Convert) -> Any:
    if plain is None:
        return None
    nodes = node.resolved.elements
    if not isinstance(plain, KryoMap) or len(nodes) != 2 * len(plain.pairs):
        raise _other_class(node, "a map")
    keys = [key(value, one, pair[0]) for one, pair in zip(nodes[::2], plain.pairs, strict=True)]
    if None in keys:
        raise NullKey("a map has a null key, which Arrow cannot hold", _NO_FORM)
    values = [of_value(value, one, pair[1]) for one, pair in zip(nodes[1::2], plain.pairs, strict=True)]
    return list(zip(keys, values, strict=True))


def _as_pojo(value: RecordedValue, node: Node, plain: Any, *, parts: dict[str, _Convert], class_name: str) -> Any:
    if plain is None:
        return None
    found = node.resolved
    described = found.described
    if described is None or not isinstance(plain, KryoObject) or plain.class_name != class_name:
        raise _other_class(node, class_name)
    names = [name for name, _ in in_java_order(described.fields)]
    if len(found.children) < len(names):
        names = [name for name in names if not is_synthetic(name)]
    if len(found.children) != len(names):
        raise _other_class(node, class_name)
    children = dict(zip(names, found.children, strict=True))
    return {name: convert(value, children[name], plain.fields[name]) for name, convert in parts.items()}


def _other_class(node: Node, declared: str) -> UnsupportedSnapshot:
    """The error for an object that its declared class does not fit, or one that contains itself."""
    type_ = node.resolved.type
    found = "" if type_ is None else java_name(type_)
    return UnsupportedSnapshot(f"an object of class {found!r} where {declared} is declared", advice=_NO_FORM)
